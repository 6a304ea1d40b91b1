from __future__ import annotations

import pytest
from msgspec import structs

from accounts.compile import AccountKind, AccountView, Transport
from accounts.troubles import DIRECT, TROUBLE, Troubles, egress_of, upstream_of
from core.redis_pipe import Pipe

ACCOUNT = AccountView(1, "a", AccountKind.CURSOR, Transport.AGENT_RPC, "https://up.test:8443/x", frozenset({1}), 1)
UP = upstream_of(ACCOUNT, "m")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def troubles(pipe: Pipe, clock: Clock) -> Troubles:
    return Troubles(pipe, clock=clock)


def test_what_fails_together_has_one_name() -> None:
    assert UP == "agent_rpc|up.test:8443|m"
    assert (egress_of(ACCOUNT), egress_of(structs.replace(ACCOUNT, proxy_id=7))) == (DIRECT, "7")


async def test_a_circuit_opens_at_five_failures_that_are_half_of_what_was_asked(troubles: Troubles) -> None:
    for _ in range(5):
        troubles.served(UP)
    opened = [await troubles.failed(UP) for _ in range(6)]
    assert opened == [False, False, False, False, True, False]
    assert 0 < troubles.open_circuits()[UP] <= 5


async def test_more_answers_than_failures_open_nothing(troubles: Troubles) -> None:
    for _ in range(20):
        troubles.served(UP)
    assert not [1 for _ in range(19) if await troubles.failed(UP)]


async def test_failures_of_long_ago_do_not_count(troubles: Troubles, clock: Clock) -> None:
    for _ in range(4):
        await troubles.failed(UP)
    clock.now += 10
    assert not await troubles.failed(UP)


async def test_another_process_hears_of_it_within_a_second(troubles: Troubles, pipe: Pipe, clock: Clock) -> None:
    other = Troubles(pipe, clock=clock)
    assert not await other.are_known()
    await troubles.open(UP)
    assert not await other.are_known()
    clock.now += 1
    assert await other.are_known()
    assert list(other.open_circuits()) == [UP]
    await troubles.close(UP)
    clock.now += 1
    assert not await other.are_known()


async def test_one_canary_at_a_time_and_ever_more_rarely(troubles: Troubles, pipe: Pipe) -> None:
    assert await troubles.canary(UP) == 0  # nothing is open
    await troubles.open(UP)
    assert 4 < await troubles.canary(UP) <= 5
    waits = []
    for _ in range(5):
        circuit: bytes = await pipe.call("HGET", TROUBLE, f"circuit|{UP}")
        head, _, _ = circuit.partition(b'"next_canary":')
        value = circuit[len(head) + len(b'"next_canary":') :].split(b",")[0].split(b"}")[0]
        await pipe.call("HSET", TROUBLE, f"circuit|{UP}", circuit.replace(value, b"1"))
        assert await troubles.canary(UP) == 0
        waits.append(round(await troubles.canary(UP)))
    assert waits == [10, 20, 40, 60, 60]


async def test_a_way_out_rests_at_its_second_fault(troubles: Troubles, pipe: Pipe) -> None:
    assert await troubles.egress_failed("p") == 0
    assert await troubles.egress_failed("other") == 0
    assert await troubles.egress_failed("p") == 600
    assert troubles.resting_egress() == {"p"}
    assert 590 < await troubles.egress_failed("p") <= 600
    assert 590_000 < await pipe.call("PTTL", TROUBLE) <= 600_000


async def test_faults_of_a_way_out_that_are_a_minute_apart_are_forgiven(troubles: Troubles, pipe: Pipe) -> None:
    await troubles.egress_failed("p")
    assert 59_000 < await pipe.call("PTTL", "poolgate:egress:p") <= 60_000


async def test_names_of_upstreams_that_nobody_asks_are_forgotten(troubles: Troubles, clock: Clock) -> None:
    for number in range(50):
        troubles.served(f"up{number}")
        clock.now += 1
    assert len(troubles._windows) <= 11
