"""Turns of a conversation: which account goes first, and what is written when it has served or not."""

from __future__ import annotations

import time

import pytest

from core.redis_pipe import Pipe
from gateway.affinity import PREFIX, Identity, Origin
from ir.errors import Fault, Reason, Stage
from ops.trace import Affinity, Look
from tests.unit.gateway.test_failover import MODEL, Pool, pool

__all__ = ["pool"]

TALK = Identity("7-ab", Origin.HEADER)
KEY = PREFIX + TALK.name


async def bound_to(pipe: Pipe) -> int | None:
    value = await pipe.call("GET", KEY)
    return int(value.split(b"|")[0]) if value is not None else None


async def bind(pipe: Pipe, account_id: int) -> None:
    await pipe.call("SET", KEY, f"{account_id}|{int(time.time()) - 60}|{int(time.time()) - 60}")


async def test_who_serves_the_first_turn_is_the_home_of_the_next(pool: Pool) -> None:
    assert await pool.ask([None], [None], conversation=TALK) == "hello"
    assert await bound_to(pool.pipe) == 1
    assert 3590 < await pool.pipe.call("TTL", KEY) <= 3600
    assert (pool.trace.affinity, pool.trace.conversation, pool.trace.known_by) == (Affinity.NONE, "7-ab", "header")


async def test_the_home_account_goes_first_and_the_trace_says_why(pool: Pool) -> None:
    await bind(pool.pipe, 2)
    assert await pool.ask([None], [None], conversation=TALK) == "hello"
    [look] = pool.steps(Look)
    assert (look.account, look.why, pool.trace.affinity) == (2, "sticky", Affinity.STICKY)
    assert await bound_to(pool.pipe) == 2


async def test_without_a_conversation_the_better_priority_goes_first_with_its_score(pool: Pool) -> None:
    await bind(pool.pipe, 2)
    pool.services.ledger.stats.failed(1, MODEL, Reason.CAPACITY)
    await pool.ask([None], [None])
    [look] = pool.steps(Look)
    assert (look.account, look.why, pool.trace.affinity, pool.trace.conversation) == (1, "last", Affinity.NONE, "")
    assert look.terms == {"score": pytest.approx(0.267), "errors": pytest.approx(0.333)}


async def test_a_turn_that_nobody_served_binds_nobody(pool: Pool) -> None:
    assert await pool.ask([Reason.BAD_REQUEST], conversation=TALK) == "upstream_rejected_request"
    assert await bound_to(pool.pipe) is None


async def test_a_home_that_fails_for_a_moment_is_come_back_to(pool: Pool) -> None:
    await bind(pool.pipe, 1)
    short = Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=60.0)
    assert await pool.ask([short], [None], conversation=TALK) == "hello"
    assert await bound_to(pool.pipe) == 1


@pytest.mark.parametrize(
    "lasting", [Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=600.0), Fault(Reason.AUTH_REVOKED, Stage.AUTH)]
)
async def test_a_home_that_is_gone_for_long_is_moved_out_of_at_once(pool: Pool, lasting: Fault) -> None:
    await bind(pool.pipe, 1)
    assert await pool.ask([lasting], [None], conversation=TALK) == "hello"
    assert await bound_to(pool.pipe) == 2


async def test_a_longer_grace_keeps_the_home(pool: Pool) -> None:
    await bind(pool.pipe, 1)
    fault = Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=600.0)
    assert await pool.ask([fault], [None], conversation=TALK, sticky_grace=1200.0) == "hello"
    assert await bound_to(pool.pipe) == 1


async def test_a_home_that_is_no_candidate_any_more_is_forgotten(pool: Pool) -> None:
    await bind(pool.pipe, 9)
    assert await pool.ask([None], [None], conversation=TALK) == "hello"
    assert await bound_to(pool.pipe) == 1


async def test_an_answer_that_broke_off_changes_nothing(pool: Pool) -> None:
    await bind(pool.pipe, 2)
    before = await pool.pipe.call("GET", KEY)
    await pool.ask([None], [None], conversation=TALK, broken=Fault(Reason.CUT, Stage.CONTENT))
    assert await pool.pipe.call("GET", KEY) == before


async def test_what_accounts_did_counts_for_the_next_choice(pool: Pool) -> None:
    stats = pool.services.ledger.stats
    await pool.ask([Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=60.0)], [None])
    assert stats.seen(1, MODEL).errors == pytest.approx(1 / 3, abs=0.01)
    assert stats.seen(1, MODEL).first_token is None
    assert stats.seen(2, MODEL).errors == 0
    assert stats.seen(2, MODEL).first_token is not None
    await pool.ask([Reason.BAD_REQUEST])
    assert stats.seen(1, MODEL).errors == pytest.approx(1 / 3, abs=0.01)
