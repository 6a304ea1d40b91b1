from __future__ import annotations

import asyncio
import time

import pytest
import redis

from accounts import cooldowns
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.cooldowns import EFFECTS, Resting, strikes_key
from accounts.effects import Effect, read
from accounts.leases import cooldowns_key
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage

ACCOUNT = AccountView(
    1, "a1", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), credential_id=7
)


async def suffer(pipe: Pipe, reason: Reason, hint: float | None = None, draw: float = 0.0) -> float:
    return await cooldowns.apply(pipe, ACCOUNT, "m", Fault(reason, Stage.HEADERS, retry_after=hint), draw)


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
    [Reason.BAD_REQUEST, Reason.TRANSIENT, Reason.CAPACITY, Reason.EGRESS, Reason.PROTOCOL, Reason.AUTH_EXPIRED],
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


async def test_strikes_are_forgiven_after_a_quiet_time(pipe: Pipe) -> None:
    await suffer(pipe, Reason.RATE_LIMIT)
    left = await pipe.call("PTTL", strikes_key(1))
    assert 0 < left <= cooldowns.FORGIVEN_AFTER * 1000


async def test_a_hint_does_not_count_as_a_strike(pipe: Pipe) -> None:
    assert await suffer(pipe, Reason.RATE_LIMIT, hint=2, draw=0.5) == pytest.approx(2.05)
    assert await pipe.call("EXISTS", strikes_key(1)) == 0


async def test_cooldowns_leave_redis_when_the_longest_is_over(pipe: Pipe) -> None:
    await suffer(pipe, Reason.QUOTA, hint=100)
    await suffer(pipe, Reason.RATE_LIMIT)
    assert await pipe.call("PTTL", cooldowns_key(1)) == pytest.approx(100_000, abs=500)


async def test_the_effect_tells_the_new_state_and_whose_credential_failed(pipe: Pipe) -> None:
    await suffer(pipe, Reason.AUTH_REVOKED)
    (effect,) = await effects(pipe)
    assert (effect.account_id, effect.credential_id, effect.state) == (1, 7, AccountState.NEEDS_SIGN_IN)
    assert effect.until == pytest.approx(time.time() + 600, abs=2)


def test_rows_come_back_into_a_redis_that_forgot_them_and_never_shorten(redis_url: str) -> None:
    now = time.time()
    with redis.Redis.from_url(redis_url) as client:
        client.hset(cooldowns_key(1), "*", str(int((now + 500) * 1000)))
        rows = [Resting(1, "", now + 100), Resting(1, "m", now + 50), Resting(2, "", now - 1)]
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
        assert client.pttl(cooldowns_key(1)) == pytest.approx(500_000, abs=2000)


async def test_clearing_ends_one_rest_or_all(pipe: Pipe, redis_url: str) -> None:
    await suffer(pipe, Reason.FORBIDDEN)
    await suffer(pipe, Reason.RATE_LIMIT)
    with redis.Redis.from_url(redis_url) as client:
        cooldowns.clear(client, 1, "")
        assert set(await resting(pipe)) == {"m"}
        cooldowns.clear(client, 1)
    assert await resting(pipe) == {}
    assert await suffer(pipe, Reason.RATE_LIMIT) == pytest.approx(5, abs=0.1)
