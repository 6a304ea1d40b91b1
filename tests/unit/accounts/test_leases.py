from __future__ import annotations

import asyncio
import time

import pytest
from msgspec import structs

from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import (
    FIRST_LOOK,
    FURTHER_LOOKS,
    Caller,
    Lease,
    Refused,
    Shortage,
    Slots,
    cooldowns_key,
    held_key,
    name_holder,
    slots_key,
)
from accounts.slot_scripts import RELEASE, TAKE
from core.redis_pipe import Pipe
from ops.record import Record
from ops.recorder import Recorder

LIFE = 60.0


def account(number: int, slots: int = 1) -> AccountView:
    return AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), number,
        slots=slots,
    )  # fmt: skip


@pytest.fixture
async def slots(pipe: Pipe) -> Slots:
    await pipe.learn(TAKE, RELEASE)
    return Slots(pipe, "one")


async def taken(slots: Slots, holder: str, *accounts: AccountView, life: float = LIFE) -> Lease:
    lease = await slots.take(accounts, "m", holder, life=life)
    assert isinstance(lease, Lease)
    return lease


async def refused(slots: Slots, holder: str, *accounts: AccountView) -> Refused:
    """The refusal, without whom it looked at."""
    answer = await slots.take(accounts, "m", holder, life=LIFE)
    assert isinstance(answer, Refused)
    return structs.replace(answer, passed=())


async def cool(pipe: Pipe, number: int, field: str, seconds: float) -> None:
    await pipe.call("HSET", cooldowns_key(number), field, int((time.time() + seconds) * 1000))


async def test_the_first_account_with_room_is_taken_and_the_loads_seen_are_told(slots: Slots) -> None:
    first = await taken(slots, "r1", account(1), account(2))
    second = await taken(slots, "r2", account(1), account(2, slots=2))
    third = await taken(slots, "r3", account(1), account(2, slots=2))
    assert [lease.account.id for lease in (first, second, third)] == [1, 2, 2]
    assert [lease.load for lease in (first, second, third)] == [0, 0, 1]
    assert slots.loads() == {1: 1, 2: 2}


async def test_a_slot_given_back_can_be_taken_again(slots: Slots, pipe: Pipe) -> None:
    lease = await taken(slots, "r1", account(1))
    assert await refused(slots, "r2", account(1)) == Refused(Shortage.FULL)
    await slots.release(lease)
    assert (await taken(slots, "r2", account(1))).account.id == 1
    assert await pipe.call("HGETALL", held_key("one")) == [b"r2", slots_key(1).encode()]


async def test_giving_back_twice_takes_nothing_from_the_next_holder(slots: Slots) -> None:
    lease = await taken(slots, "r1", account(1))
    await slots.release(lease)
    await taken(slots, "r2", account(1))
    await slots.release(lease)
    assert await refused(slots, "r3", account(1)) == Refused(Shortage.FULL)


async def test_a_request_holds_one_account_at_a_time(slots: Slots, pipe: Pipe) -> None:
    await taken(slots, "r1", account(1))
    await taken(slots, "r1", account(2))
    assert await pipe.call("ZCARD", slots_key(1)) == 0
    assert await pipe.call("ZCARD", slots_key(2)) == 1


async def test_a_slot_that_nobody_renews_expires(slots: Slots) -> None:
    await taken(slots, "r1", account(1), life=0.05)
    await asyncio.sleep(0.08)
    await taken(slots, "r2", account(1))


async def test_a_renewed_slot_lives_on(slots: Slots) -> None:
    await taken(slots, "r1", account(1), life=0.2)
    assert await slots.renew(["r1", "unknown"], life=LIFE) == 1
    await asyncio.sleep(0.25)
    assert await refused(slots, "r2", account(1)) == Refused(Shortage.FULL)


async def test_renewing_does_not_bring_back_what_was_given_back(slots: Slots, pipe: Pipe) -> None:
    await slots.release(await taken(slots, "r1", account(1)))
    assert await slots.renew(["r1"], life=LIFE) == 0
    assert await pipe.call("ZCARD", slots_key(1)) == 0


@pytest.mark.parametrize("field", ["*", "m"])
async def test_a_cooled_account_is_passed_over_and_its_end_is_told(slots: Slots, pipe: Pipe, field: str) -> None:
    await cool(pipe, 1, field, 30)
    await cool(pipe, 3, "*", 100)
    assert (await taken(slots, "r1", account(1), account(2))).account.id == 2
    answer = await refused(slots, "r2", account(1), account(3))
    assert answer.shortage is Shortage.COOLED
    assert answer.soonest is not None
    assert 29 < answer.soonest <= 30
    assert slots.hints.cooled() == {(1, "m"), (3, "m")}


async def test_a_cooldown_of_another_model_does_not_count(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "other", 30)
    await taken(slots, "r1", account(1))


async def test_a_cooldown_that_is_over_does_not_count(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "*", -1)
    await taken(slots, "r1", account(1))


async def test_the_longer_of_two_cooldowns_counts(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "*", 10)
    await cool(pipe, 1, "m", 50)
    answer = await refused(slots, "r1", account(1))
    assert answer.soonest is not None
    assert answer.soonest > 49


async def test_full_and_cooled_together_are_told_as_full(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "*", 30)
    await taken(slots, "r1", account(2))
    answer = await refused(slots, "r2", account(1), account(2))
    assert answer.shortage is Shortage.FULL
    assert answer.soonest is not None


async def test_what_was_heard_of_a_cooldown_is_believed_for_a_short_time_only(pipe: Pipe) -> None:
    now = 100.0
    slots = Slots(pipe, "one", clock=lambda: now)
    await cool(pipe, 1, "*", 300)
    await refused(slots, "r1", account(1))
    assert slots.hints.cooled() == {(1, "m")}
    now = 106.0
    assert slots.hints.cooled() == set()


async def test_every_batch_of_a_large_pool_is_asked(slots: Slots) -> None:
    crowd = [account(number) for number in range(1, FIRST_LOOK + FURTHER_LOOKS + 2)]
    got = [await taken(slots, f"r{number}", *crowd) for number in range(len(crowd))]
    assert sorted(lease.account.id for lease in got) == [view.id for view in crowd]
    assert await refused(slots, "last", *crowd) == Refused(Shortage.FULL)


async def test_without_accounts_there_is_nothing_to_take(slots: Slots) -> None:
    assert await refused(slots, "r1") == Refused(Shortage.NO_ACCOUNT)


async def test_a_callers_limit_counts_requests_over_all_accounts(slots: Slots) -> None:
    caller, wide = Caller(key_id=5, limit=2), account(1, slots=10)
    for holder in ("r1", "r2"):
        assert isinstance(await slots.take([wide], "m", holder, life=LIFE, caller=caller), Lease)
    assert await slots.take([wide], "m", "r3", life=LIFE, caller=caller) == Refused(Shortage.KEY_BUSY)
    assert isinstance(await slots.take([wide], "m", "r4", life=LIFE, caller=Caller(key_id=6, limit=2)), Lease)


async def test_switching_accounts_does_not_use_up_the_callers_limit(slots: Slots) -> None:
    caller = Caller(key_id=5, limit=1)
    for number in (1, 2, 3):
        lease = await slots.take([account(number)], "m", "r1", life=LIFE, caller=caller)
        assert isinstance(lease, Lease)
        await slots.release(lease)
    assert await slots.take([account(1)], "m", "r2", life=LIFE, caller=caller) == Refused(Shortage.KEY_BUSY)


async def test_processes_share_the_slots(pipe: Pipe) -> None:
    one, two = Slots(pipe, "one"), Slots(pipe, "two")
    await taken(one, "r1", account(1))
    assert await refused(two, "r2", account(1)) == Refused(Shortage.FULL)


async def test_the_load_of_an_account_not_looked_at_for_long_is_forgotten(pipe: Pipe) -> None:
    now = 100.0
    slots = Slots(pipe, "one", clock=lambda: now)
    await taken(slots, "r1", account(1))
    await taken(slots, "r2", account(2))
    now = 106.0
    assert slots.loads() == {1: 1, 2: 1}
    await taken(slots, "r3", account(1), account(3))
    now = 112.0
    assert slots.loads() == {1: 1, 3: 1}


async def test_a_returned_slot_lowers_the_load_at_once(slots: Slots) -> None:
    lease = await taken(slots, "r1", account(1))
    slots.release(lease)
    assert slots.loads() == {1: 0}


async def leased(slots: Slots, holder: str, view: AccountView) -> Lease | Refused:
    return await slots.take([view], "m", holder, life=LIFE)


@pytest.mark.parametrize("field", ["*", "m"])
async def test_an_account_that_comes_back_is_tried_by_one_request_at_a_time(
    slots: Slots, pipe: Pipe, field: str
) -> None:
    await cool(pipe, 1, field, -1)
    first = await taken(slots, "r1", account(1, slots=5))

    assert first.canary
    assert await refused(slots, "r2", account(1, slots=5)) == Refused(Shortage.FULL)


async def test_a_canary_that_never_said_anything_gives_way_to_the_next(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "m", -1)
    await taken(slots, "r1", account(1, slots=5))
    await cool(pipe, 1, "canary|m", -1)

    assert (await taken(slots, "r2", account(1, slots=5))).canary


async def test_a_canary_that_left_without_an_answer_gives_way_at_once(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "m", -1)
    await slots.release(await taken(slots, "r1", account(1, slots=5)))

    assert (await taken(slots, "r2", account(1, slots=5))).canary
    assert await pipe.call("HGET", held_key("one"), "r1|canary") is None


async def test_a_canary_that_leaves_late_takes_nothing_from_the_next(slots: Slots, pipe: Pipe) -> None:
    """Its fault was told before it gave its slot back, and the rest is over already."""
    await cool(pipe, 1, "m", -1)
    first = await taken(slots, "r1", account(1, slots=5))
    await pipe.call("HDEL", cooldowns_key(1), "canary|m")
    await asyncio.sleep(0.002)
    await taken(slots, "r2", account(1, slots=5))
    await slots.release(first)

    assert await refused(slots, "r3", account(1, slots=5)) == Refused(Shortage.FULL)


async def test_other_models_of_an_account_are_not_held_up_by_a_canary(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "other", -1)

    assert not (await taken(slots, "r1", account(1, slots=5))).canary


@pytest.mark.parametrize(("ago", "room"), [(1, 2), (25, 5), (45, 7), (61, 10)])
@pytest.mark.parametrize("field", ["warm|m", "warm|*"])
async def test_the_slots_of_a_recovered_account_come_back_by_and_by(
    slots: Slots, pipe: Pipe, field: str, ago: float, room: int
) -> None:
    await cool(pipe, 1, field, -ago)
    got = [await leased(slots, f"r{number}", account(1, slots=10)) for number in range(11)]

    assert sum(isinstance(one, Lease) for one in got) == room


async def test_one_slot_at_least_comes_back(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "warm|m", -1)
    await taken(slots, "r1", account(1, slots=2))


async def test_a_held_account_is_passed_by(slots: Slots, pipe: Pipe) -> None:
    await cool(pipe, 1, "hold|m", 4)
    lease = await taken(slots, "r1", account(1), account(2))

    assert lease.account.id == 2
    assert [(one.account_id, one.verdict) for one in lease.passed] == [(1, "resting")]
    assert 3 < lease.passed[0].seconds <= 4


@pytest.mark.parametrize(
    ("caller", "shortage"),
    [
        (Caller(key_id=1, limit=2), Shortage.KEY_BUSY),
        (Caller(key_id=1, member_id=2, member_limit=2), Shortage.MEMBER_BUSY),
        (Caller(key_id=1, team_id=3, team_limit=2), Shortage.TEAM_BUSY),
    ],
)
async def test_each_limit_counts_by_itself_and_is_given_back(
    slots: Slots, pipe: Pipe, caller: Caller, shortage: Shortage
) -> None:
    wide = account(1, slots=10)
    for name in ("r1", "r2"):
        holder = name_holder(caller.team_id, "one", name)
        assert isinstance(await slots.take([wide], "m", holder, life=LIFE, caller=caller), Lease)

    assert await slots.take([wide], "m", "r3", life=LIFE, caller=caller) == Refused(shortage)
    record = Record(
        request_id="r1", started_at=1.0, protocol="chat", endpoint="/v1/chat/completions", team_id=caller.team_id
    )
    await Recorder(pipe, "one").close_again(record)
    assert isinstance(await slots.take([wide], "m", "r3", life=LIFE, caller=caller), Lease)
