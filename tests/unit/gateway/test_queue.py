from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import Lease, Refused, Shortage
from accounts.lines import Place
from core.redis_pipe import Pipe
from gateway.queue import Queue, may_pass

ACCOUNT = AccountView(1, "a1", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), 1)
FULL, GOT = Refused(Shortage.FULL), Lease(ACCOUNT, "r1", 0)


def answers(*given: Lease | Refused) -> Callable[[], Awaitable[Lease | Refused]]:
    left = list(given)

    async def attempt() -> Lease | Refused:
        return left.pop(0) if len(left) > 1 else left[0]

    return attempt


async def test_who_waits_gets_the_slot_when_there_is_one(pipe: Pipe) -> None:
    assert await Queue().wait(Place(pipe, "m", 1, "r1"), answers(FULL, FULL, GOT), FULL, 3, 5) == GOT


async def test_a_slot_given_back_wakes_at_once(pipe: Pipe) -> None:
    queue, there = Queue(), False

    async def attempt() -> Lease | Refused:
        return GOT if there else FULL

    waiting = asyncio.create_task(queue.wait(Place(pipe, "m", 1, "r1"), attempt, FULL, 3, 30))
    await asyncio.sleep(1)  # by now it only looks now and then
    there, began = True, time.monotonic()
    queue.freed(0.01)
    assert await waiting == GOT
    assert time.monotonic() - began < 0.1


async def test_nobody_waits_longer_than_asked_for(pipe: Pipe) -> None:
    async with asyncio.timeout(2):
        assert await Queue().wait(Place(pipe, "m", 1, "r1"), answers(FULL), FULL, 3, 0.2) == FULL


async def test_a_line_that_will_not_move_in_time_is_not_waited_in(pipe: Pipe) -> None:
    queue = Queue()
    queue.freed(60)
    async with asyncio.timeout(1):
        answer = await queue.wait(Place(pipe, "m", 1, "r1"), answers(GOT), FULL, 2, 20)

    assert answer == Refused(Shortage.FULL, 30.0)


async def test_a_line_may_be_twice_as_long_as_there_are_slots(pipe: Pipe) -> None:
    for number in range(4):
        await Place(pipe, "m", 1, f"w{number}").join(99)
    async with asyncio.timeout(1):
        answer = await Queue().wait(Place(pipe, "m", 1, "r1"), answers(GOT), FULL, 2, 20)

    assert answer == FULL


@pytest.mark.parametrize("how", ["served", "cancelled", "refused"])
async def test_nobody_stays_in_line(pipe: Pipe, how: str) -> None:
    attempt = answers(GOT) if how == "served" else answers(FULL)
    longest = 0.1 if how == "refused" else 5
    waiting = asyncio.create_task(Queue().wait(Place(pipe, "m", 1, "r1"), attempt, FULL, 2, longest))
    if how == "cancelled":
        await asyncio.sleep(0.1)
        waiting.cancel()
    await asyncio.wait([waiting])

    assert await pipe.call("ZCARD", "poolgate:line:m") == 0


@pytest.mark.parametrize(
    ("refused", "left", "expected"),
    [
        (FULL, 1, True),
        (FULL, 0, False),
        (Refused(Shortage.IN_LINE), 1, True),
        (Refused(Shortage.SHARE), 1, True),
        (Refused(Shortage.KEY_BUSY), 9, False),
        (Refused(Shortage.TEAM_BUSY), 9, False),
        (Refused(Shortage.NO_ACCOUNT), 9, False),
        (Refused(Shortage.COOLED, 3), 9, True),
        (Refused(Shortage.COOLED, 30), 9, False),
        (Refused(Shortage.COOLED), 9, False),
    ],
)
def test_waiting_helps_where_only_slots_or_a_short_rest_are_in_the_way(
    refused: Refused, left: float, expected: bool
) -> None:
    assert may_pass(refused, left) is expected
