from __future__ import annotations

import msgspec
import pytest

from accounts.compile import AccountKind, AccountView, Transport
from accounts.knowledge import BELIEVED, USABLE, Knowledge, Usable, announce
from accounts.pool import PoolView, Verdict, judge
from core.redis_pipe import Pipe

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


async def tell(pipe: Pipe, account_id: int, *models: str, at: float = NOW) -> None:
    await pipe.call("HSET", USABLE, account_id, msgspec.json.encode(Usable(models, at)))
    await announce(pipe)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def knowledge(pipe: Pipe, clock: Clock) -> Knowledge:
    return Knowledge(pipe, now=clock)


async def test_an_account_whose_list_lacks_a_model_that_others_list_is_not_asked_for_it(
    pipe: Pipe, knowledge: Knowledge
) -> None:
    await tell(pipe, 1, "gpt-1", "gpt-2")
    await tell(pipe, 2, "gpt-1")
    await knowledge.refresh()
    assert [knowledge.barred(number, "gpt-2") for number in (1, 2, 3)] == [None, Verdict.NOT_USABLE, None]
    account = AccountView(2, "a", AccountKind.CURSOR, Transport.AGENT_RPC, "http://x", frozenset(), 2)
    view = PoolView(barred=knowledge.barred)
    assert judge(account, view, "gpt-2") is Verdict.NOT_USABLE
    assert judge(account, view.doubted(), "gpt-2") is Verdict.NOT_USABLE
    assert judge(account, view, "gpt-1") is None


async def test_what_nobody_lists_and_what_is_the_accounts_own_choice_is_allowed(
    pipe: Pipe, knowledge: Knowledge
) -> None:
    await tell(pipe, 1, "gpt-1", "default")
    await tell(pipe, 2, "gpt-1")
    await knowledge.refresh()
    assert knowledge.barred(2, "hidden") is None
    assert knowledge.barred(2, "default") is None


async def test_a_list_that_is_too_old_is_believed_no_more(pipe: Pipe, knowledge: Knowledge, clock: Clock) -> None:
    await tell(pipe, 1, "gpt-1", at=NOW)
    await tell(pipe, 2, "gpt-2", at=NOW - BELIEVED + 10)
    await knowledge.refresh()
    assert knowledge.barred(2, "gpt-1") is Verdict.NOT_USABLE
    clock.now += 11
    await knowledge.refresh()
    assert knowledge.barred(2, "gpt-1") is None


async def test_the_hashes_are_read_only_when_the_counter_moved(pipe: Pipe, knowledge: Knowledge) -> None:
    await tell(pipe, 1, "gpt-1")
    await knowledge.refresh()
    await pipe.call("HSET", USABLE, 2, msgspec.json.encode(Usable((), NOW)))
    await knowledge.refresh()
    assert knowledge.barred(2, "gpt-1") is None
    await announce(pipe)
    await knowledge.refresh()
    assert knowledge.barred(2, "gpt-1") is Verdict.NOT_USABLE
