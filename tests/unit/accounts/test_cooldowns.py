from __future__ import annotations

import asyncio
import time

import pytest
import redis

from accounts import cooldowns
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.cooldowns import EFFECTS, Applied, Resting, strikes_key
from accounts.effects import Effect, read
from accounts.leases import cooldowns_key
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage

ACCOUNT = AccountView(
    1, "a1", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), credential_id=7
)


async def suffer(pipe: Pipe, reason: Reason, hint: float | None = None, draw: float = 0.0) -> float:
    """A fault, confirmed where that is needed: the seconds that the account rests."""
    fault = Fault(reason, Stage.HEADERS, retry_after=hint)
    applied = await cooldowns.apply(pipe, ACCOUNT, "m", fault, draw)
    return (await cooldowns.confirm(pipe, ACCOUNT, "m", fault, draw) if applied.held else applied).rest


async def resting(pipe: Pipe) -> dict[str, float]:
    """Field → seconds from now, rounded."""
    fields = await pipe.call("HGETALL", cooldowns_key(1))
    pairs = zip(fields[::2], fields[1::2], strict=True)
    return {name.decode(): round(float(until) / 1000 - time.time(), 1) for name, until in pairs}


async def effects(pipe: Pipe) -> list[Effect]:
    found = []
    for _, fields in await pipe.call("XRANGE", EFFECTS, "-", "+"):
        found.append(read(dict(zip(fields[::2], fields[1::2], strict=True))))
    return found


@pytest.mark.parametrize(
    "reason",
    [Reason.BAD_REQUEST, Reason.CUT, Reason.CAPACITY, Reason.EGRESS, Reason.PROTOCOL, Reason.AUTH_EXPIRED],
)
async def test_a_fault_that_is_not_the_accounts_leaves_no_mark(pipe: Pipe, reason: Reason) -> None:
    assert await suffer(pipe, reason, hint=30) == 0
    assert await pipe.call("DBSIZE") == 0


async def test_a_fault_of_the_account_rests_the_whole_of_it_and_one_of_a_model_only_that(pipe: Pipe) -> None:
    await suffer(pipe, Reason.FORBIDDEN)
    await suffer(pipe, Reason.MODEL_GATED)
    assert await resting(pipe) == {"*": pytest.approx(600, abs=1), "m": pytest.approx(12 * 3600, abs=1)}
    assert [(effect.model, effect.reason) for effect in await effects(pipe)] == [
        ("", Reason.FORBIDDEN),
        ("m", Reason.MODEL_GATED),
    ]


async def test_a_rest_is_never_shortened(pipe: Pipe) -> None:
    await suffer(pipe, Reason.QUOTA, hint=5000)
    assert await suffer(pipe, Reason.QUOTA, hint=10) == pytest.approx(5000, abs=1)
    assert await suffer(pipe, Reason.QUOTA, hint=6000) == pytest.approx(6000, abs=1)


async def test_a_rest_without_a_hint_grows_once_per_window_up_to_its_most(pipe: Pipe) -> None:
    for expected in (5, 10, 20, 40, 80, 160, 300, 300):
        rests = await asyncio.gather(*[suffer(pipe, Reason.RATE_LIMIT) for _ in range(5)])
        assert rests == [pytest.approx(expected, abs=0.5)] * 5
        await pipe.call("HSET", cooldowns_key(1), "m", int(time.time() * 1000) - 1)  # the window is over


async def over(pipe: Pipe, field: str, seconds: float = 0.001) -> None:
    """The rest ended so many seconds ago."""
    ended = int((time.time() - seconds) * 1000)
    await pipe.call("HSET", cooldowns_key(1), field, ended)
    await pipe.call("HSET", strikes_key(1), f"over|{field}", ended)


async def test_strikes_are_forgiven_after_a_quiet_time_whatever_else_is_remembered(pipe: Pipe) -> None:
    await suffer(pipe, Reason.RATE_LIMIT)
    await suffer(pipe, Reason.FORBIDDEN)
    await over(pipe, "m", 595)
    assert await suffer(pipe, Reason.RATE_LIMIT) == pytest.approx(10, abs=0.1)
    await over(pipe, "m", 605)
    assert await suffer(pipe, Reason.RATE_LIMIT) == pytest.approx(5, abs=0.1)


async def test_strikes_leave_redis_when_they_are_forgiven(pipe: Pipe) -> None:
    await suffer(pipe, Reason.RATE_LIMIT)
    assert await pipe.call("PTTL", strikes_key(1)) == pytest.approx((5 + cooldowns.FORGIVEN_AFTER) * 1000, abs=500)


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 45), (0.5, 60), (0.999, 75)])
async def test_accounts_that_were_refused_without_a_word_do_not_come_back_together(
    pipe: Pipe, draw: float, seconds: float
) -> None:
    assert await suffer(pipe, Reason.EXHAUSTED, draw=draw) == pytest.approx(seconds, abs=0.2)


async def test_a_quota_that_lasts_is_tried_ever_more_rarely(pipe: Pipe) -> None:
    for minutes in (15, 30, 60, 120, 240, 360, 360):
        assert await suffer(pipe, Reason.QUOTA) == pytest.approx(minutes * 60, abs=0.5)
        await over(pipe, "*")


async def test_a_hint_does_not_count_as_a_strike(pipe: Pipe) -> None:
    assert await suffer(pipe, Reason.RATE_LIMIT, hint=2, draw=0.5) == pytest.approx(2.05)
    assert await pipe.call("EXISTS", strikes_key(1)) == 0


async def test_cooldowns_leave_redis_some_time_after_the_longest_is_over(pipe: Pipe) -> None:
    await suffer(pipe, Reason.QUOTA, hint=100)
    await suffer(pipe, Reason.RATE_LIMIT)
    assert await pipe.call("PTTL", cooldowns_key(1)) == pytest.approx(700_000, abs=500)


async def test_the_effect_tells_the_new_state_and_whose_credential_failed(pipe: Pipe) -> None:
    await suffer(pipe, Reason.AUTH_REVOKED)
    (effect,) = await effects(pipe)
    assert (effect.account_id, effect.credential_id, effect.state) == (1, 7, AccountState.NEEDS_SIGN_IN)
    assert effect.until == pytest.approx(time.time() + 600, abs=2)


def test_rows_come_back_into_a_redis_that_forgot_them_and_never_shorten(redis_url: str) -> None:
    now = time.time()
    with redis.Redis.from_url(redis_url) as client:
        client.hset(cooldowns_key(1), "*", str(int((now + 500) * 1000)))
        rows = [Resting(1, "", now + 100), Resting(1, "m", now + 50), Resting(2, "", now - 700)]
        assert cooldowns.restore(client, rows, now) == 2
        assert client.hgetall(cooldowns_key(1)) == {
            b"*": b"%d" % int((now + 500) * 1000),
            b"m": b"%d" % int((now + 50) * 1000),
        }
        assert client.exists(cooldowns_key(2)) == 0


def test_restored_cooldowns_leave_redis_when_they_are_over(redis_url: str) -> None:
    now = time.time()
    with redis.Redis.from_url(redis_url) as client:
        cooldowns.restore(client, [Resting(1, "m", now + 50), Resting(1, "n", now + 500)], now)
        cooldowns.restore(client, [Resting(1, "m", now + 50)], now)
        assert client.pttl(cooldowns_key(1)) == pytest.approx(1_100_000, abs=2000)


async def test_clearing_ends_one_rest_or_all(pipe: Pipe, redis_url: str) -> None:
    await suffer(pipe, Reason.FORBIDDEN)
    await suffer(pipe, Reason.RATE_LIMIT)
    with redis.Redis.from_url(redis_url) as client:
        cooldowns.clear(client, 1, "")
        assert set(await resting(pipe)) == {"m"}
        cooldowns.clear(client, 1)
    assert await resting(pipe) == {}
    assert await suffer(pipe, Reason.RATE_LIMIT) == pytest.approx(5, abs=0.1)


def peer(number: int) -> AccountView:
    return AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), number
    )


LIMITED = Fault(Reason.RATE_LIMIT, Stage.HEADERS)


async def test_a_refusal_without_a_hint_only_holds_the_account(pipe: Pipe) -> None:
    applied = await cooldowns.apply(pipe, ACCOUNT, "m", LIMITED, 0)

    assert applied.held
    assert applied.rest == pytest.approx(5, abs=0.1)
    assert set(await resting(pipe)) == {"hold|m"}
    assert await effects(pipe) == []
    assert await pipe.call("EXISTS", strikes_key(1)) == 0


async def test_a_hold_that_is_confirmed_becomes_a_rest(pipe: Pipe) -> None:
    await cooldowns.apply(pipe, ACCOUNT, "m", LIMITED, 0)

    applied = await cooldowns.confirm(pipe, ACCOUNT, "m", LIMITED, 0)

    assert not applied.held
    assert not applied.guarded
    assert applied.rest == pytest.approx(5, abs=0.1)
    assert set(await resting(pipe)) == {"m"}
    assert [effect.reason for effect in await effects(pipe)] == [Reason.RATE_LIMIT]


async def test_a_hold_that_is_dropped_leaves_nothing(pipe: Pipe) -> None:
    await cooldowns.apply(pipe, ACCOUNT, "m", LIMITED, 0)
    await cooldowns.drop(pipe, ACCOUNT, "m", LIMITED)

    assert await pipe.call("DBSIZE") == 0


async def test_a_passing_fault_counts_only_when_it_is_confirmed_and_rests_from_the_second_on(pipe: Pipe) -> None:
    fault = Fault(Reason.TRANSIENT, Stage.HEADERS)
    assert await cooldowns.apply(pipe, ACCOUNT, "m", fault, 0) == Applied(held=True)
    assert await pipe.call("DBSIZE") == 0

    rests = [(await cooldowns.confirm(pipe, ACCOUNT, "m", fault, 0)).rest for _ in range(3)]

    assert rests == [0, pytest.approx(10, abs=0.1), pytest.approx(45, abs=0.1)]


async def test_strikes_of_a_window_that_is_over_do_not_count(pipe: Pipe) -> None:
    fault = Fault(Reason.TRANSIENT, Stage.HEADERS)
    await cooldowns.confirm(pipe, ACCOUNT, "m", fault, 0)
    await pipe.call("HSET", strikes_key(1), "since|n|m", int((time.time() - 61) * 1000))

    assert (await cooldowns.confirm(pipe, ACCOUNT, "m", fault, 0)).rest == 0


async def test_the_third_refusal_changes_the_state(pipe: Pipe) -> None:
    for _ in range(3):
        await suffer(pipe, Reason.FORBIDDEN)
        await over(pipe, "*")

    assert [effect.state for effect in await effects(pipe)] == [None, None, AccountState.BLOCKED]


async def test_refusals_that_came_together_are_one(pipe: Pipe) -> None:
    for _ in range(5):
        await suffer(pipe, Reason.FORBIDDEN)

    assert [effect.state for effect in await effects(pipe)] == [None] * 5


async def test_who_comes_back_from_a_rest_has_no_grace_for_a_passing_fault(pipe: Pipe) -> None:
    await suffer(pipe, Reason.RATE_LIMIT)
    await over(pipe, "m")

    assert await suffer(pipe, Reason.TRANSIENT) == pytest.approx(45, abs=0.1)


@pytest.mark.parametrize(("pool", "most"), [(1, 0), (2, 1), (3, 2), (4, 2), (10, 7)])
async def test_a_guess_never_leaves_too_few_accounts(pipe: Pipe, pool: int, most: int) -> None:
    peers = [peer(number) for number in range(1, pool + 1)]

    applied = [await cooldowns.confirm(pipe, one, "m", LIMITED, 0, peers=peers) for one in peers]

    assert sum(bool(one.rest) for one in applied) == most
    assert all(one.guarded == (not one.rest) for one in applied)


async def test_what_is_certain_rests_even_the_last_account(pipe: Pipe) -> None:
    hinted = Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=9)

    assert (await cooldowns.apply(pipe, ACCOUNT, "m", hinted, 0, peers=[ACCOUNT])).rest == pytest.approx(9, abs=0.1)
    assert (await suffer(pipe, Reason.MODEL_GATED)) > 0


async def test_a_rest_that_is_over_is_half_open_until_somebody_was_served(pipe: Pipe) -> None:
    await suffer(pipe, Reason.RATE_LIMIT)
    assert not await cooldowns.recovered(pipe, ACCOUNT, "m"), "it rests"
    await pipe.call("HSET", cooldowns_key(1), "m", int(time.time() * 1000) - 1)

    assert await cooldowns.recovered(pipe, ACCOUNT, "m")
    assert set(await resting(pipe)) == {"warm|m"}
    assert not await cooldowns.recovered(pipe, ACCOUNT, "m"), "once"


async def test_who_fails_while_half_open_rests_again_and_longer(pipe: Pipe) -> None:
    await suffer(pipe, Reason.RATE_LIMIT)
    await pipe.call("HSET", cooldowns_key(1), "m", int(time.time() * 1000) - 1)

    assert await suffer(pipe, Reason.RATE_LIMIT) == pytest.approx(10, abs=0.1)


def test_a_redis_that_forgot_everything_gets_back_who_rested_lately_as_half_open(redis_url: str) -> None:
    now = time.time()
    with redis.Redis.from_url(redis_url) as client:
        rows = [Resting(1, "m", now - 60), Resting(2, "m", now - 700)]
        assert cooldowns.restore(client, rows, now) == 0
        assert client.hexists(cooldowns_key(1), "m")
        assert not client.exists(cooldowns_key(2))
        client.hdel(cooldowns_key(1), "m")  # it was served since
        cooldowns.restore(client, rows, now)
        assert not client.hexists(cooldowns_key(1), "m")


async def test_clearing_ends_holds_and_the_warming_up_too(pipe: Pipe, redis_url: str) -> None:
    await cooldowns.apply(pipe, ACCOUNT, "m", LIMITED, 0)
    await pipe.call("HSET", cooldowns_key(1), "warm|m", 1)
    with redis.Redis.from_url(redis_url) as client:
        cooldowns.clear(client, 1, "m")
    assert await resting(pipe) == {}


async def test_clearing_forgives_passing_faults_and_refusals(pipe: Pipe, redis_url: str) -> None:
    fault = Fault(Reason.TRANSIENT, Stage.HEADERS)
    await cooldowns.confirm(pipe, ACCOUNT, "m", fault, 0)
    for _ in range(2):
        await suffer(pipe, Reason.FORBIDDEN)
        await over(pipe, "*")
    with redis.Redis.from_url(redis_url) as client:
        cooldowns.clear(client, 1, "m")
        cooldowns.clear(client, 1, "")

    assert (await cooldowns.confirm(pipe, ACCOUNT, "m", fault, 0)).rest == 0
    await suffer(pipe, Reason.FORBIDDEN)
    assert [effect.state for effect in await effects(pipe)] == [None] * 3
