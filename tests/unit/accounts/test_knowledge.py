from __future__ import annotations

import msgspec
import pytest

from accounts.compile import AccountKind, AccountView, Transport
from accounts.knowledge import BELIEVED, QUOTA, QUOTA_BELIEVED, USABLE, Knowledge, Quota, Usable, announce, read_quota
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


async def tell_quota(pipe: Pipe, account_id: int, quota: Quota) -> None:
    await pipe.call("HSET", QUOTA, account_id, msgspec.json.encode(quota))
    await announce(pipe)


async def test_a_full_bucket_bars_the_models_that_count_for_it_and_no_others(pipe: Pipe, knowledge: Knowledge) -> None:
    await tell_quota(pipe, 1, Quota(NOW, auto=0.4, api=1.0, ends_at=NOW + 1e6))
    await tell_quota(pipe, 2, Quota(NOW, auto=1.2, api=0.1))
    await knowledge.refresh()
    for model in ("gpt-9", "never-heard-of"):
        assert [knowledge.barred(number, model) for number in (1, 2, 3)] == [Verdict.QUOTA_SPENT, None, None]
    for model in ("default", "composer-2.5", "grok-4"):
        assert [knowledge.barred(number, model) for number in (1, 2, 3)] == [None, Verdict.QUOTA_SPENT, None]
    assert (knowledge.used("gpt-9"), knowledge.used("default")) == ({1: 1.0, 2: 0.1}, {1: 0.4, 2: 1.2})


@pytest.mark.parametrize("quota", [Quota(NOW, api=1.0), Quota(NOW + QUOTA_BELIEVED, api=1.0, ends_at=NOW + 50)])
async def test_a_quota_that_is_old_or_of_a_past_cycle_bars_nothing(
    pipe: Pipe, knowledge: Knowledge, clock: Clock, quota: Quota
) -> None:
    await tell_quota(pipe, 1, quota)
    await knowledge.refresh()
    assert knowledge.barred(1, "gpt-9") is Verdict.QUOTA_SPENT
    clock.now += QUOTA_BELIEVED + 1
    await knowledge.refresh()
    assert knowledge.barred(1, "gpt-9") is None
    assert knowledge.used("gpt-9") == {}


@pytest.mark.parametrize("date", [1_800_100_000_000, "1800100000000"])
def test_dates_may_be_numbers_or_texts(date: object) -> None:
    plan = {"limit": 2000, "totalSpend": "500", "autoPercentUsed": 10, "apiPercentUsed": "99.5"}
    found = read_quota({"planUsage": plan, "billingCycleEnd": date}, NOW)
    assert found == Quota(NOW, 0.1, 0.995, 500, 2000, 1_800_100_000.0)


def test_without_buckets_the_total_counts_for_both() -> None:
    found = read_quota({"planUsage": {"totalPercentUsed": 100}}, NOW)
    assert (found.auto, found.api, found.is_spent, found.ends_at) == (1.0, 1.0, True, 0.0)
    assert not Quota(NOW, api=1.0).is_spent


@pytest.mark.parametrize("answer", [{}, {"planUsage": None}, {"planUsage": {}}, {"planUsage": {"apiPercentUsed": "x"}}])
def test_an_answer_that_tells_nothing_is_none(answer: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_quota(answer, NOW)


async def test_what_cannot_be_read_is_not_known_and_spoils_nothing_else(pipe: Pipe, knowledge: Knowledge) -> None:
    await tell(pipe, 1, "gpt-1")
    await tell(pipe, 2, "gpt-2")
    await pipe.call("HSET", USABLE, 2, b"of another version")
    await pipe.call("HSET", QUOTA, 1, b"{}")
    await announce(pipe)
    await knowledge.refresh()
    assert knowledge.barred(2, "gpt-1") is None
    assert knowledge.barred(1, "gpt-1") is None
