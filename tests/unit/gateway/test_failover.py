"""Whole turns over accounts that fail as they are told, with the real ledger and Redis: who is asked, what becomes of
the accounts, what the caller is told, and what the trace says about it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from accounts import cooldowns
from accounts.compile import AccountKind, AccountView, ModelView, Transport
from accounts.leases import NOBODY, Lease, cooldowns_key
from accounts.troubles import TROUBLE, Troubles
from core.redis_pipe import Pipe, PipeDown
from core.settings import Settings
from gateway import affinity, failover
from gateway.affinity import Identity, Origin
from gateway.attempts import Errand
from gateway.contracts import Clocks, Target, Upstream
from gateway.failover import Turn
from gateway.ledger import Ledger
from gateway.registry import Services
from gateway.routing import Route
from ir.errors import ApiError, Fault, Kind, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Message, Request, Text
from ops.record import Record
from ops.trace import Ended, Judged, Look, Mark, Step, Trace, Tried, Trouble, Troubled, Verdict, decode

START: list[Event] = [ResponseStart(), PartStart(PartKind.TEXT), PartDelta("hello")]
END: list[Event] = [PartEnd(), Finish(FinishReason(Unified.STOP))]
MODEL = "m-up"
Script = Sequence[Reason | Fault | None]
"""What an account does at each try: fails so, or answers (None); the last for all tries that follow."""


def fault(reason: Reason, **more: Any) -> Fault:
    return Fault(reason, Stage.PREAMBLE, **more)


class Answer:
    """A run that answers, and breaks with ``broken`` after its first words where that is set."""

    last_sign = 0.0

    def __init__(self, broken: Fault | None = None) -> None:
        self._broken = broken

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        yield START
        if self._broken is not None:
            raise self._broken
        yield END

    async def close(self) -> None:
        pass


class Scripted:
    """An upstream whose accounts follow their scripts. ``asked``: account ids in order; ``limits``: what each try had
    for its first output."""

    def __init__(self, scripts: dict[int, Script], broken: Fault | None) -> None:
        self._scripts = {account: list(script) for account, script in scripts.items()}
        self._broken = broken
        self.asked: list[int] = []
        self.limits: list[float] = []

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> Answer:
        self.asked.append(target.account_id)
        self.limits.append(clocks.first_token)
        script = self._scripts[target.account_id]
        does = script.pop(0) if len(script) > 1 else script[0]
        if does is not None:
            raise does if isinstance(does, Fault) else fault(does)
        return Answer(self._broken)

    async def close(self) -> None:
        pass


class Tokens:
    """``renewed``: accounts whose token was fetched anew."""

    def __init__(self) -> None:
        self.renewed: list[int] = []

    async def get(self, account: AccountView, sealed: bytes) -> str:
        return "token"

    async def renew(self, account: AccountView, sealed: bytes, stale: str) -> str:
        self.renewed.append(account.id)
        return "fresh"


class Pool:
    """Accounts 1, 2 and so on, always asked in this order, and the process that asks them."""

    def __init__(self, ledger: Ledger) -> None:
        self.services = Services()
        self.services.ledger = ledger
        self.services.troubles = Troubles(ledger.pipe)
        self.tokens = Tokens()
        self.services.bearers = cast("Any", self.tokens)
        self.services.sealed = lambda credential_id: b""  # type: ignore[method-assign]
        self.record = Record(request_id="", started_at=0.0, protocol="chat", endpoint="/")
        self.upstream = Scripted({}, None)
        self.error: ApiError | None = None
        self.trace = Trace(())
        self.pipe = ledger.pipe
        self._count = 0

    async def ask(
        self,
        *scripts: Script,
        fingerprint: str = "",
        broken: Fault | None = None,
        started: float = 0.0,
        proxies: Sequence[int] = (),
        kind: AccountKind = AccountKind.CURSOR,
        conversation: Identity | None = None,
        **knobs: Any,
    ) -> str:
        """What the caller got: the text, or the error's code."""
        self._count += 1
        self.error = None
        accounts = tuple(
            AccountView(
                number,
                "a",
                kind,
                Transport.AGENT_RPC,
                "http://up",
                frozenset({1}),
                number,
                number,
                proxy_id=proxies[number - 1] if proxies else 0,
            )
            for number in range(1, len(scripts) + 1)
        )
        self.upstream = Scripted(dict(enumerate(scripts, 1)), broken)
        self.services.upstreams = {Transport.AGENT_RPC: cast("Upstream", self.upstream)}
        request = Request("m", (Message("user", (Text("hi"),)),), stream=True)
        errand = Errand(
            request, Route(ModelView("m", MODEL), "m", MODEL, {}, accounts), 1, False, fingerprint=fingerprint
        )
        self.record = Record(request_id=f"r{self._count}", started_at=time.time(), protocol="chat", endpoint="/")
        entry = self.services.ledger.admit(self.record)
        began = started or time.monotonic()
        settings = Settings(**{"wait_for_slot": 0.0} | knobs)
        session = affinity.ask(conversation, settings, self.pipe)
        turn = Turn(errand, settings, entry, self.services, NOBODY, began, session)
        text = ""
        try:
            async for batch in turn.events():
                text += "".join(event.text for event in batch if isinstance(event, PartDelta))
            self.record.status = 200
        except ApiError as error:
            self.error, self.record.status, self.record.code = error, error.kind.value, error.code
        self.trace = decode(entry.trace.encode(self.record))
        await entry.close()
        return self.error.code if self.error is not None else text

    async def rests(self) -> dict[int, set[str]]:
        """What is kept about accounts that are not ready."""
        found = {}
        for number in range(1, 6):
            fields: list[bytes] = (await self.pipe.call("HGETALL", cooldowns_key(number)))[::2]
            if fields:
                found[number] = {name.decode() for name in fields}
        return found

    def steps(self, kind: type[Step]) -> list[Any]:
        return [step for step in self.trace.steps if isinstance(step, kind)]


@pytest.fixture
async def pool(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pool]:
    monkeypatch.setattr(failover, "PAUSES", {})
    ledger = Ledger(pipe, "one", draws=lambda: 0.0)
    await ledger.start()
    yield Pool(ledger)
    await ledger.stop()


async def test_an_account_that_answers_is_traced_from_the_choice_to_the_end(pool: Pool) -> None:
    assert await pool.ask([None], [None]) == "hello"
    names = [type(step).__name__ for step in pool.trace.steps]
    assert names == ["Look", "Committed", "Tried", "Ended"]
    assert pool.trace.candidates == 2
    assert [step.account for step in pool.steps(Look)] == [1]
    assert [(step.account, step.reason, step.mark) for step in pool.steps(Tried)] == [(1, None, Mark.NONE)]


async def test_what_every_account_refuses_alike_is_the_requests_fault(pool: Pool) -> None:
    refusing: Script = [Reason.RATE_LIMIT]
    assert await pool.ask(refusing, refusing, refusing, fingerprint="poolgate:refused:x") == "rate_limit_exceeded"
    assert await pool.rests() == {}
    assert [step.mark for step in pool.steps(Tried)] == [Mark.HELD] * 3
    [judged] = pool.steps(Judged)
    assert (judged.verdict, judged.accounts) == (Verdict.DROPPED, (1, 2, 3))
    assert pool.error is not None
    assert pool.error.retry_after == pytest.approx(30, abs=0.5)


async def test_the_same_request_at_once_is_answered_from_memory_and_nobody_is_asked(pool: Pool) -> None:
    refusing: Script = [Reason.RATE_LIMIT]
    await pool.ask(refusing, refusing, fingerprint="poolgate:refused:x")
    assert await pool.ask([None], [None], fingerprint="poolgate:refused:x") == "rate_limit_exceeded"
    assert pool.upstream.asked == []
    [ended] = pool.steps(Ended)
    assert ended.remembered
    assert 28 < ended.retry_after <= 30
    assert await pool.ask([None], [None], fingerprint="poolgate:refused:other") == "hello"


async def test_one_account_alone_proves_nothing_about_the_request(pool: Pool) -> None:
    await pool.ask([Reason.RATE_LIMIT], fingerprint="poolgate:refused:x")
    assert await pool.rests() == {}
    assert await pool.ask([None], fingerprint="poolgate:refused:x") == "hello"


async def test_what_another_account_answers_was_the_first_ones_own_fault(pool: Pool) -> None:
    assert await pool.ask([Reason.RATE_LIMIT], [None], [None]) == "hello"
    assert pool.upstream.asked == [1, 2]
    assert await pool.rests() == {1: {MODEL}}
    [judged] = pool.steps(Judged)
    assert (judged.verdict, judged.accounts) == (Verdict.CONFIRMED, (1,))


async def test_an_account_that_answers_at_its_second_try_is_to_blame_for_nothing(pool: Pool) -> None:
    assert await pool.ask([Reason.TRANSIENT, None], [None]) == "hello"
    assert pool.upstream.asked == [1, 1]
    assert (await pool.rests(), pool.steps(Judged)) == ({}, [])


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which take no time."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    return pauses


async def test_a_provider_that_stands_alone_is_asked_again_after_2_5_and_10_seconds(
    pool: Pool, slept: list[float]
) -> None:
    script = [Reason.CAPACITY, Reason.CUT, Reason.TRANSIENT, None]
    assert await pool.ask(script, kind=AccountKind.PROVIDER) == "hello"
    pauses = [pause for pause in slept if pause >= 1]
    assert [low <= pause <= low * 1.25 for low, pause in zip((2, 5, 10), pauses, strict=True)] == [True] * 3
    slept.clear()
    assert await pool.ask([Reason.CAPACITY], kind=AccountKind.PROVIDER) != "hello"
    assert len(pool.upstream.asked) == 4
    assert await pool.ask([Reason.CAPACITY], kind=AccountKind.PROVIDER, provider_retries=0) != "hello"
    assert len(pool.upstream.asked) == 2


async def test_a_provider_is_given_the_time_that_it_asks_for_and_none_beyond_ten_seconds(
    pool: Pool, slept: list[float]
) -> None:
    hinted = fault(Reason.CAPACITY, retry_after=8.0)
    assert await pool.ask([hinted, None], kind=AccountKind.PROVIDER) == "hello"
    assert 8 <= max(slept) <= 10
    slept.clear()
    late = fault(Reason.CAPACITY, retry_after=60.0)
    await pool.ask([late], kind=AccountKind.PROVIDER)
    assert len(pool.upstream.asked) == 2
    assert not [pause for pause in slept if pause >= 1]


async def test_a_provider_with_another_beside_it_is_not_waited_for(pool: Pool, slept: list[float]) -> None:
    assert await pool.ask([Reason.CAPACITY], [None], kind=AccountKind.PROVIDER) == "hello"
    assert pool.upstream.asked == [1, 1, 2]
    assert not [pause for pause in slept if pause >= 1]


async def test_failures_of_several_kinds_prove_nothing_and_the_hold_passes_by_itself(pool: Pool) -> None:
    assert await pool.ask([Reason.RATE_LIMIT], [Reason.TIMEOUT]) == "timeout"
    assert await pool.rests() == {1: {f"hold|{MODEL}"}}
    assert pool.steps(Judged) == []


async def test_a_hint_is_final_at_once(pool: Pool) -> None:
    hinted: Script = [fault(Reason.RATE_LIMIT, retry_after=7.0)]
    assert await pool.ask(hinted, hinted, fingerprint="poolgate:refused:x") == "rate_limit_exceeded"
    assert await pool.rests() == {1: {MODEL}, 2: {MODEL}}
    assert [step.mark for step in pool.steps(Tried)] == [Mark.RESTED] * 2
    assert pool.error is not None
    assert pool.error.retry_after is not None
    assert 6.5 < pool.error.retry_after < 7.5
    assert await pool.ask([None], [None], [None], fingerprint="poolgate:refused:x") == "hello"


async def test_a_pool_that_rests_for_pace_answers_429_until_the_first_is_back(pool: Pool) -> None:
    await pool.ask([fault(Reason.RATE_LIMIT, retry_after=7.0)], [fault(Reason.RATE_LIMIT, retry_after=90.0)])
    assert await pool.ask([None], [None]) == "rate_limit_exceeded"
    assert pool.upstream.asked == []
    assert pool.error is not None
    assert pool.error.kind is Kind.RATE_LIMIT
    assert pool.error.retry_after is not None
    assert 6 < pool.error.retry_after <= 7.5


async def test_a_pool_that_rests_for_other_reasons_answers_503(pool: Pool) -> None:
    await pool.ask([Reason.DEVICE_LIMIT], [Reason.DEVICE_LIMIT])
    assert await pool.ask([None], [None]) == "no_capacity"
    assert [step.why for step in pool.steps(Look)] == ["cooled"]


async def test_a_fault_within_the_answer_is_the_accounts_and_switches_nothing(pool: Pool) -> None:
    assert await pool.ask([None], [None], broken=fault(Reason.RATE_LIMIT)) == "rate_limit_exceeded"
    assert pool.upstream.asked == [1]
    assert await pool.rests() == {1: {MODEL}}


async def test_a_refused_token_is_renewed_once(pool: Pool) -> None:
    assert await pool.ask([Reason.AUTH_EXPIRED, None], [None]) == "hello"
    assert (pool.upstream.asked, pool.tokens.renewed) == ([1, 1], [1])


async def test_a_fresh_token_that_is_refused_too_sends_the_turn_on(pool: Pool) -> None:
    assert await pool.ask([Reason.AUTH_EXPIRED], [None]) == "hello"
    assert (pool.upstream.asked, pool.tokens.renewed) == ([1, 1, 2], [1])
    assert [step.reason for step in pool.steps(Tried)] == [Reason.AUTH_EXPIRED, Reason.AUTH_REVOKED, None]
    assert await pool.rests() == {1: {"*"}}


async def test_no_more_accounts_are_asked_than_one_request_may(pool: Pool) -> None:
    broken: Script = [Reason.TIMEOUT]
    assert await pool.ask(broken, broken, broken, [None]) == "timeout"
    assert pool.upstream.asked == [1, 2, 3]


async def test_nothing_begins_a_minute_after_the_request_came(pool: Pool) -> None:
    assert await pool.ask([Reason.TIMEOUT], [None], started=time.monotonic() - 61) == "timeout"
    assert pool.upstream.asked == [1]


async def test_a_process_that_made_its_retries_answers_with_the_fault_that_it_has(pool: Pool) -> None:
    assert await pool.ask([Reason.TIMEOUT], [None], retry_floor=0, retry_share=0) == "timeout"
    assert pool.upstream.asked == [1]
    assert [step.trouble for step in pool.steps(Troubled)] == [Trouble.BUDGET_SPENT]
    assert await pool.ask([Reason.TIMEOUT], [None]) == "hello"


async def test_the_last_account_that_can_be_asked_gets_more_time(pool: Pool) -> None:
    late: Script = [Reason.TIMEOUT]
    await pool.ask(late, late, late, first_token_timeout=5.0, last_attempt_extra=60.0)
    assert pool.upstream.limits == [5.0, 5.0, 65.0]


async def test_a_credential_that_no_key_opens_is_passed_by_and_the_operator_is_told(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    assert await pool.ask([fault(Reason.INTERNAL, upstream_code="sealed_credential")], [None]) == "hello"
    assert await pool.rests() == {}
    assert "ALARM account 1 could not be asked: sealed_credential at preamble" in caplog.text


async def test_the_turn_goes_on_when_redis_cannot_mark_an_account(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(*_: object, **__: object) -> None:
        await asyncio.sleep(0)
        raise PipeDown

    monkeypatch.setattr(cooldowns, "apply", down)
    assert await pool.ask([Reason.RATE_LIMIT], [None]) == "hello"
    assert [step.mark for step in pool.steps(Tried)] == [Mark.UNKNOWN, Mark.NONE]


async def test_a_way_out_that_failed_is_not_taken_again_in_the_same_turn(pool: Pool) -> None:
    ways = (1, 1, 2)
    assert await pool.ask([Reason.EGRESS], [None], [None], proxies=ways) == "hello"
    assert pool.upstream.asked == [1, 3]
    assert await pool.rests() == {}


async def test_a_way_out_that_failed_twice_rests_and_other_requests_go_round_it(pool: Pool) -> None:
    ways = (1, 2)
    for _ in range(2):
        assert await pool.ask([Reason.EGRESS], [None], proxies=ways) == "hello"
    [first, _] = pool.steps(Tried)
    assert (first.mark, first.rest) == (Mark.EGRESS, 600)
    assert await pool.ask([None], [None], proxies=ways) == "hello"
    assert pool.upstream.asked == [2]


async def test_the_only_way_out_is_taken_although_it_rests(pool: Pool) -> None:
    assert await pool.ask([Reason.EGRESS], [Reason.EGRESS], [None]) == "hello"
    assert pool.upstream.asked == [1, 2, 3]
    assert pool.services.troubles.resting_egress() == {"direct"}
    assert await pool.ask([None], [None]) == "hello"


async def test_a_way_out_that_is_paused_is_not_taken_even_where_there_is_no_other(pool: Pool) -> None:
    await pool.pipe.call("HSET", TROUBLE, "paused|1", 1)
    assert await pool.ask([None], [None], proxies=(1, 2)) == "hello"
    assert pool.upstream.asked == [2]
    assert await pool.ask([None], [None], proxies=(1, 1)) == "no_capacity"
    assert pool.upstream.asked == []


async def down(pool: Pool) -> None:
    """Two requests that no account answers, of three each: the circuit opens."""
    for _ in range(2):
        assert await pool.ask([Reason.CAPACITY], [Reason.CAPACITY], [Reason.CAPACITY]) == "upstream_overloaded"
    assert Trouble.CIRCUIT_OPENED in [step.trouble for step in pool.steps(Troubled)]


async def test_an_upstream_that_answers_nobody_gets_a_circuit_and_no_account_is_marked(pool: Pool) -> None:
    await down(pool)
    assert await pool.rests() == {}
    assert await pool.ask([None], [None], [None]) == "upstream_overloaded"
    assert pool.upstream.asked == []
    assert pool.error is not None
    assert pool.error.kind is Kind.NO_CAPACITY
    assert pool.error.retry_after is not None
    assert 4 < pool.error.retry_after <= 5
    assert [step.trouble for step in pool.steps(Troubled)] == [Trouble.CANARY_REFUSED]


async def until_a_canary_is_due(pool: Pool) -> None:
    [field, circuit] = await pool.pipe.call("HGETALL", TROUBLE)
    due = b'"next_canary":%d' % (time.time() * 1000)
    await pool.pipe.call("HSET", TROUBLE, field, re.sub(rb'"next_canary":[^,}]+', due, circuit))


async def test_a_canary_that_is_answered_closes_the_circuit(pool: Pool) -> None:
    await down(pool)
    await until_a_canary_is_due(pool)
    assert await pool.ask([None], [None], [None]) == "hello"
    assert [step.trouble for step in pool.steps(Troubled)] == [Trouble.CANARY_GRANTED, Trouble.CIRCUIT_CLOSED]
    assert await pool.pipe.call("EXISTS", TROUBLE) == 0
    assert await pool.ask([None], [None], [None]) == "hello"


async def test_a_canary_that_fails_leaves_the_circuit_open_for_longer(pool: Pool) -> None:
    await down(pool)
    await until_a_canary_is_due(pool)
    assert await pool.ask([Reason.TIMEOUT], [None], [None]) == "timeout"
    assert pool.upstream.asked == [1]
    assert await pool.ask([None], [None], [None]) == "upstream_overloaded"
    assert pool.error is not None
    assert pool.error.retry_after is not None
    assert 9 < pool.error.retry_after <= 10


async def test_one_bad_account_among_good_ones_opens_no_circuit(pool: Pool) -> None:
    for _ in range(12):
        assert await pool.ask([Reason.TIMEOUT], [None], retry_floor=100) == "hello"
    assert await pool.pipe.call("EXISTS", TROUBLE) == 0


async def test_where_too_few_accounts_would_be_left_the_upstream_is_suspected_instead(pool: Pool) -> None:
    """The upstream named a time for the first two; that the third has to rest as well would be a guess."""
    hinted: Script = [fault(Reason.RATE_LIMIT, retry_after=60.0)]
    assert await pool.ask(hinted, hinted, [None]) == "hello"
    assert await pool.ask([None], [None], [None], broken=fault(Reason.RATE_LIMIT)) == "rate_limit_exceeded"
    assert pool.upstream.asked == [3]
    assert [step.mark for step in pool.steps(Tried)] == [Mark.GUARDED]
    assert await pool.pipe.call("HLEN", TROUBLE) == 1


@pytest.mark.parametrize(("knobs", "waits"), [
    ({"wait_for_slot": 0.2, "wait_for_sticky": 0.6}, [0.2, 0.6]),
    ({"wait_for_slot": 0.6, "wait_for_sticky": 0.2}, [0.6, 0.6]),
    ({"wait_for_slot": 0.0, "wait_for_sticky": 0.6}, [0.0, 0.0]),
])  # fmt: skip
async def test_a_conversation_that_is_bound_to_an_account_waits_longer(
    pool: Pool, knobs: dict[str, Any], waits: list[float]
) -> None:
    bound = Identity("c1", Origin.CONTENT)
    assert await pool.ask([None], conversation=bound) == "hello"
    others = [
        pool.services.ledger.admit(Record(request_id=f"b{n}", started_at=1.0, protocol="chat", endpoint="/"))
        for n in range(3)
    ]
    account = AccountView(1, "a", AccountKind.CURSOR, Transport.AGENT_RPC, "http://up", frozenset({1}), 1)
    for other in others:
        assert isinstance(await other.take([account], MODEL), Lease)

    for conversation, wait in zip((None, bound), waits, strict=True):
        began = time.monotonic()
        assert await pool.ask([None], conversation=conversation, **knobs) == "no_capacity"
        assert wait <= time.monotonic() - began < wait + 0.3
    for other in others:
        await other.close()
