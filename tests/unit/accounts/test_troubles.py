from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator

import pytest
import redis
from msgspec import structs
from prometheus_client import REGISTRY

from accounts.compile import AccountKind, AccountView, Transport
from accounts.troubles import DIRECT, FORGOTTEN, TROUBLE, Troubles, clear_egress, egress_of, upstream_of
from core.redis_pipe import Pipe, PipeDown
from core.settings import Settings

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


@pytest.fixture
async def other(redis_url: str, clock: Clock) -> AsyncIterator[Troubles]:
    """Another process."""
    pipe = await Pipe.connect(redis_url)
    yield Troubles(pipe, clock=clock)
    await pipe.close()


async def make_due(pipe: Pipe, upstream: str = UP, *, ago: float = 0.0) -> None:
    """The next canary of an open circuit was due so many seconds ago."""
    circuit: bytes = await pipe.call("HGET", TROUBLE, f"circuit|{upstream}")
    due = b'"next_canary":%d' % ((time.time() - ago) * 1000)
    await pipe.call("HSET", TROUBLE, f"circuit|{upstream}", re.sub(rb'"next_canary":[^,}]+', due, circuit))


def counted(event: str) -> float:
    labels = {"transport": "agent_rpc", "event": event}
    return REGISTRY.get_sample_value("poolgate_circuits_total", labels) or 0.0


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


async def test_how_many_and_which_share_are_settings(troubles: Troubles) -> None:
    knobs = Settings(circuit_failures=2, circuit_share=0.25, circuit_canary=0.5)
    for _ in range(5):
        troubles.served(UP)
    assert [await troubles.failed(UP, knobs) for _ in range(2)] == [False, True]
    assert 0 < await troubles.canary(UP, knobs) <= 0.5


async def test_another_process_hears_of_it_within_a_second(troubles: Troubles, other: Troubles, clock: Clock) -> None:
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
        await make_due(pipe)
        assert await troubles.canary(UP) == 0
        waits.append(round(await troubles.canary(UP)))
    assert waits == [10, 20, 40, 60, 60]


async def test_of_two_hundred_that_ask_at_once_in_two_processes_one_is_the_canary(
    troubles: Troubles, other: Troubles, pipe: Pipe
) -> None:
    await troubles.open(UP)
    early = await asyncio.gather(*[one.canary(UP) for one in (troubles, other) * 100])
    assert all(0 < wait <= 5 for wait in early)
    for interval in (10, 20):
        await make_due(pipe)
        waits = await asyncio.gather(*[one.canary(UP) for one in (troubles, other) * 100])
        assert waits.count(0.0) == 1
        assert all(interval - 1 < wait <= interval for wait in waits if wait)


async def test_a_circuit_that_two_processes_open_at_once_is_opened_by_one(troubles: Troubles, other: Troubles) -> None:
    before = counted("opened")
    assert sorted(await asyncio.gather(troubles.open(UP), other.open(UP))) == [False, True]
    assert counted("opened") == before + 1


async def test_a_circuit_that_nobody_asks_is_over_by_itself(troubles: Troubles, pipe: Pipe, clock: Clock) -> None:
    """As where others serve: then nobody asks for a canary."""
    await troubles.open(UP)
    assert FORGOTTEN * 1000 < await pipe.call("PTTL", TROUBLE) <= (FORGOTTEN + 5) * 1000
    await make_due(pipe, ago=FORGOTTEN - 1)
    clock.now += 1
    assert await troubles.are_known()
    assert list(troubles.open_circuits()) == [UP]
    assert not await troubles.open(UP), "it still is"
    await make_due(pipe, ago=FORGOTTEN)
    clock.now += 1
    await troubles.are_known()
    assert not troubles.open_circuits()
    assert await troubles.canary(UP) == await troubles.canary(UP) == 0, "nobody needs leave"
    assert await troubles.open(UP), "it can be opened anew"
    await make_due(pipe, ago=FORGOTTEN)
    assert await troubles.open(UP), "also where the old one is still written down"
    assert 4 < await troubles.canary(UP) <= 5


async def test_what_failed_before_a_circuit_was_closed_elsewhere_does_not_open_it_again(
    troubles: Troubles, other: Troubles, clock: Clock
) -> None:
    for _ in range(5):
        await troubles.failed(UP)
    assert list(troubles.open_circuits()) == [UP]
    await other.close(UP)
    clock.now += 1
    assert not await troubles.are_known()
    assert not await troubles.failed(UP), "one failure after all is well opens nothing"


async def test_a_crowd_waits_for_what_its_first_request_is_about_to_hear(
    troubles: Troubles, other: Troubles, clock: Clock
) -> None:
    assert not await other.are_known()
    await troubles.open(UP)
    clock.now += 1
    assert await asyncio.gather(*[other.are_known() for _ in range(20)]) == [True] * 20


async def test_who_leaves_while_the_hash_is_read_takes_nothing_from_the_others(
    troubles: Troubles, other: Troubles
) -> None:
    await troubles.open(UP)
    leaving, staying = [asyncio.create_task(other.are_known()) for _ in range(2)]
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying
    assert leaving.cancelled()


async def test_while_redis_is_away_there_is_no_trouble_that_is_known(redis_url: str, clock: Clock) -> None:
    pipe = await Pipe.connect(redis_url)
    troubles = Troubles(pipe, clock=clock)
    await troubles.open(UP)
    await troubles.egress_failed("p", Settings(egress_faults=1))
    assert await troubles.are_known()
    await pipe.close()
    assert await troubles.are_known(), "believed for a second"
    clock.now += 1
    assert not await troubles.are_known()
    assert (troubles.resting_egress(), troubles.open_circuits()) == (set(), {})
    with pytest.raises(PipeDown):
        await troubles.canary(UP)


async def test_what_becomes_of_circuits_is_counted(troubles: Troubles, pipe: Pipe) -> None:
    before = [counted(event) for event in ("opened", "canary", "closed")]
    await troubles.canary(UP)  # nothing is open, so it is none
    await troubles.open(UP)
    await troubles.open(UP)
    await troubles.canary(UP)
    await make_due(pipe)
    await troubles.canary(UP)
    await troubles.close(UP)
    await troubles.close(UP)
    assert [counted(event) for event in ("opened", "canary", "closed")] == [count + 1 for count in before]


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


async def test_faults_in_two_processes_add_up_and_the_rest_is_counted_once(troubles: Troubles, other: Troubles) -> None:
    before = REGISTRY.get_sample_value("poolgate_egress_rests_total") or 0.0
    rests = await asyncio.gather(*[one.egress_failed("p") for one in (troubles, other, troubles)])
    assert [round(rest) for rest in rests].count(600) == 2
    assert REGISTRY.get_sample_value("poolgate_egress_rests_total") == before + 1


async def test_how_often_and_how_long_a_way_out_rests_are_settings(troubles: Troubles, pipe: Pipe) -> None:
    knobs = Settings(egress_faults=3, egress_window=5.0, egress_rest=7200.0)
    assert [await troubles.egress_failed("p", knobs) for _ in range(2)] == [0, 0]
    assert 4_000 < await pipe.call("PTTL", "poolgate:egress:p") <= 5_000
    assert await troubles.egress_failed("p", knobs) == 7200
    await troubles.open(UP)
    assert await pipe.call("PTTL", TROUBLE) > 7_100_000, "a circuit does not cut the rest short"


async def test_a_way_out_that_is_cleared_is_taken_again_within_a_second(
    troubles: Troubles, other: Troubles, clock: Clock, redis_url: str
) -> None:
    await troubles.egress_failed("p")
    await troubles.egress_failed("p")
    await troubles.egress_failed("q")
    await troubles.open(UP)
    with redis.Redis.from_url(redis_url) as client:
        assert clear_egress(client, "p")
        assert not clear_egress(client, "p")
        assert not clear_egress(client, "q"), "it did not rest"
    clock.now += 1
    for process in (troubles, other):
        assert await process.are_known()
        assert process.resting_egress() == set()
        assert list(process.open_circuits()) == [UP], "other troubles stay"
    assert await troubles.egress_failed("q") == 0, "its faults are forgotten as well"


async def test_names_of_upstreams_that_nobody_asks_are_forgotten(troubles: Troubles, clock: Clock) -> None:
    for number in range(50):
        troubles.served(f"up{number}")
        clock.now += 1
    assert len(troubles._windows) <= 11
