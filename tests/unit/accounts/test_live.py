from __future__ import annotations

import pytest

from accounts import live
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.leases import cooldowns_key, slots_key
from accounts.live import Live, Standing
from accounts.troubles import FORGOTTEN, upstream_of
from core import redis

NOW = 1_000_000.0
MS = int(NOW * 1000)


def account(number: int = 1, *, slots: int = 4, state: AccountState = AccountState.READY) -> AccountView:
    return AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://x", frozenset({1}), 1,
        slots=slots, state=state,
    )  # fmt: skip


def seen(fields: dict[str, int], in_use: int = 0) -> Live:
    return Live(NOW, {1: in_use}, {1: fields})


@pytest.mark.parametrize(
    ("fields", "in_use", "standing", "slots"),
    [
        ({}, 0, Standing.READY, 4),
        ({}, 3, Standing.READY, 4),
        ({}, 4, Standing.NO_SLOT, 4),
        ({"*": MS + 5000}, 0, Standing.RESTING, 4),
        ({"m": MS + 5000}, 0, Standing.RESTING, 4),
        ({"other": MS + 5000}, 0, Standing.READY, 4),
        ({"hold|m": MS + 5000}, 0, Standing.HELD, 4),
        ({"hold|*": MS - 1}, 0, Standing.READY, 4),
        ({"m": MS - 1}, 0, Standing.PROBING, 4),
        ({"m": MS - 1}, 4, Standing.NO_SLOT, 4),
        ({"m": MS - 1, "canary|m": MS + 1000}, 1, Standing.NO_SLOT, 0),
        ({"m": MS - 2000, "canary|m": MS - 1000}, 1, Standing.PROBING, 4),
        ({"warm|m": MS - 1_000}, 0, Standing.WARMING, 1),
        ({"warm|m": MS - 1_000}, 1, Standing.NO_SLOT, 1),
        ({"warm|m": MS - 30_000}, 1, Standing.WARMING, 2),
        ({"warm|*": MS - 50_000}, 2, Standing.WARMING, 3),
        ({"warm|m": MS - 60_000}, 3, Standing.READY, 4),
    ],
)
def test_an_account_stands_as_the_fields_of_its_rests_say(
    fields: dict[str, int], in_use: int, standing: Standing, slots: int
) -> None:
    look = seen(fields, in_use).look(account(), "m")

    assert (look.standing, look.slots, look.in_use) == (standing, slots, in_use)


def test_a_circuit_that_nobody_asks_any_more_stands_in_nobodys_way() -> None:
    upstream = upstream_of(account(), "m")
    due, forgotten = [Live(NOW, {}, {}, circuits={upstream: at}) for at in (NOW - 1, NOW - FORGOTTEN)]
    assert due.look(account(), "m").standing is Standing.CIRCUIT_OPEN
    assert forgotten.look(account(), "m").standing is Standing.READY


def test_a_rest_says_until_when() -> None:
    assert seen({"*": MS + 5000, "m": MS + 9000}).look(account(), "m").until == NOW + 9


def test_an_account_that_is_off_is_off_whatever_redis_says() -> None:
    assert seen({}).look(account(state=AccountState.BLOCKED), "m").standing is Standing.OFF


def test_redis_is_read_in_one_go_and_expired_slots_do_not_count(redis_url: str) -> None:
    redis_client = redis.connection()
    seconds, _ = redis_client.time()
    redis_client.zadd(slots_key(1), {"old": seconds * 1000 - 5000, "new": seconds * 1000 + 60_000})
    redis_client.hset(cooldowns_key(2), "m", seconds * 1000 + 60_000)

    found = live.read(redis_client, [account(1), account(2)])

    assert found.look(account(1), "m").in_use == 1
    assert found.look(account(2), "m").standing is Standing.RESTING
    assert abs(found.now - seconds) < 5
