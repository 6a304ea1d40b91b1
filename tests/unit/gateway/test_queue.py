from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import NOBODY, Caller, Lease, Refused, Shortage, Slots, held_key, name_holder, waiting_key
from accounts.lines import LEAVE, Line, Place, name_pool
from accounts.slot_scripts import RELEASE, TAKE
from core.redis_pipe import Pipe
from gateway import queue as queue_module
from gateway.queue import Queue, may_pass

ACCOUNTS = [
    AccountView(
        1, "a1", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), 1, slots=2
    )
]  # fmt: skip
MODEL, LIFE = "m", 60.0


class Pool:
    """One process of one account with two slots, and ``queue``. ``asked``: who asked, each time."""

    def __init__(self, pipe: Pipe, process: str = "one") -> None:
        self.pipe = pipe
        self.process = process
        self.slots = Slots(pipe, process)
        self.queue = Queue()
        self.asked: list[str] = []

    async def fill(self) -> list[Lease]:
        got = [await self.slots.take(ACCOUNTS, MODEL, name_holder(9, self.process, f"b{n}"), life=LIFE) for n in (1, 2)]
        return [one for one in got if isinstance(one, Lease)]

    def free(self, lease: Lease, held_for: float = 0.01) -> None:
        self.slots.release(lease)
        self.queue.freed(lease.account.id, held_for)

    def place(self, name: str, team: int = 1, caller: Caller = NOBODY) -> Place:
        line = Line(team, name_pool([1]), MODEL)
        holder = name_holder(team, self.process, name)
        caller = caller if caller is not NOBODY else Caller(team_id=team)
        return Place(self.pipe, self.process, self.slots, line, holder, life=LIFE, caller=caller)

    def asks(self, place: Place, name: str) -> Callable[[], Awaitable[Lease | Refused]]:
        async def ask() -> Lease | Refused:
            self.asked.append(name)
            return await place.ask(ACCOUNTS)

        return ask

    async def wait(self, name: str, longest: float = 30, team: int = 1, caller: Caller = NOBODY) -> Lease | Refused:
        place = self.place(name, team, caller)
        return await self.queue.wait(place, self.asks(place, name), {1}, longest)


@pytest.fixture
async def pool(pipe: Pipe) -> Pool:
    await pipe.learn(TAKE, RELEASE, LEAVE)
    return Pool(pipe)


async def test_a_slot_given_back_wakes_the_first_in_line_at_once(pool: Pool) -> None:
    lease, _ = await pool.fill()
    waiting = asyncio.create_task(pool.wait("r1"))
    await asyncio.sleep(1)  # by now it only looks now and then
    began = time.monotonic()
    pool.free(lease)

    assert isinstance(await waiting, Lease)
    assert time.monotonic() - began < 0.1


async def test_whoever_is_not_first_sleeps_until_it_is(pool: Pool) -> None:
    leases = await pool.fill()
    waiting = [asyncio.create_task(pool.wait(f"r{number}")) for number in range(4)]
    await asyncio.sleep(0.8)
    assert pool.asked[:4] == ["r0", "r1", "r2", "r3"], "all join"
    assert set(pool.asked[4:]) == {"r0"}
    got = []
    for lease in leases:
        pool.free(lease)
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        got += [waiting.index(task) for task in done]
        waiting = [task for task in waiting if task not in done]

    assert got == [0, 0], "in the order of coming"
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_processes_share_a_line(pool: Pool, pipe: Pipe) -> None:
    other = Pool(pipe, "two")
    leases = await pool.fill()
    order: list[str] = []

    async def serve(where: Pool, name: str) -> None:
        lease = await where.wait(name)
        assert isinstance(lease, Lease)
        order.append(name)
        await asyncio.sleep(0.02)
        where.free(lease)

    tasks = []
    for number in range(4):
        tasks.append(asyncio.create_task(serve((pool, other)[number % 2], f"r{number}")))
        await asyncio.sleep(0.01)
    pool.free(leases[0])
    await asyncio.gather(*tasks)

    assert order == [f"r{number}" for number in range(4)]


async def test_nobody_waits_longer_than_asked_for(pool: Pool) -> None:
    await pool.fill()
    async with asyncio.timeout(2):
        answer = await pool.wait("r1", 0.2)

    assert isinstance(answer, Refused)
    assert answer.shortage is Shortage.FULL


async def test_a_line_that_will_not_move_in_time_is_not_waited_in(pool: Pool) -> None:
    for lease in await pool.fill():
        pool.free(lease, 60)
    await pool.fill()
    first = asyncio.create_task(pool.wait("r1", 40))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(1):
        answer = await pool.wait("r2", 40)

    assert isinstance(answer, Refused)
    assert (answer.shortage, answer.soonest) == (Shortage.IN_LINE, 60.0), "two of a minute each, on two slots"
    first.cancel()
    await asyncio.wait([first])


async def test_half_of_the_slots_is_what_one_of_two_teams_may_count_on(pool: Pool) -> None:
    for lease in await pool.fill():
        pool.free(lease, 30)
    await pool.fill()
    first = asyncio.create_task(pool.wait("r1", 40, team=1))
    await asyncio.sleep(0.1)

    answer = await pool.wait("r2", 20, team=2)
    assert isinstance(answer, Refused)
    assert answer.soonest == 30.0
    first.cancel()
    await asyncio.wait([first])


async def test_where_too_many_wait_the_next_is_told_when_the_line_is_through(pool: Pool) -> None:
    for lease in await pool.fill():
        pool.free(lease, 0.4)
    await pool.fill()
    waiting = [asyncio.create_task(pool.wait(f"r{number}")) for number in range(4)]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(1):
        answer = await pool.wait("late")

    assert isinstance(answer, Refused)
    assert (answer.shortage, answer.soonest) == (Shortage.LINE_FULL, 1.0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_the_callers_limit_ends_the_wait(pool: Pool) -> None:
    caller = Caller(key_id=5, limit=1, team_id=1)
    await pool.slots.take(ACCOUNTS, MODEL, name_holder(1, "one", "r0"), life=LIFE, caller=caller)
    async with asyncio.timeout(1):
        assert await pool.wait("r1", caller=caller) == Refused(Shortage.KEY_BUSY)


@pytest.mark.parametrize("how", ["served", "cancelled", "refused"])
async def test_nobody_stays_in_line(pool: Pool, how: str) -> None:
    lease, _ = await pool.fill()
    first = asyncio.create_task(pool.wait("r1", 0.3 if how == "refused" else 30))
    second = asyncio.create_task(pool.wait("r2"))
    await asyncio.sleep(0.1)
    if how == "cancelled":
        first.cancel()
    elif how == "served":
        pool.free(lease)
    await asyncio.wait([first])
    assert not second.done()
    [one] = await pool.pipe.call("KEYS", "poolgate:line:*")
    assert await pool.pipe.call("ZRANGE", one, 0, -1) == [b"1/one/r2"]

    second.cancel()
    await asyncio.wait([first, second])
    assert await pool.pipe.call("KEYS", "poolgate:line:*") == []
    assert await pool.pipe.call("EXISTS", waiting_key(MODEL)) == 0
    assert not [field for field in await pool.pipe.call("HKEYS", held_key("one")) if field.endswith(b"|line")]


async def test_a_first_that_leaves_wakes_the_next(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "FIRST_PAUSE", 5.0)
    monkeypatch.setattr(queue_module, "LONGEST_PAUSE", 5.0)
    lease, _ = await pool.fill()
    first, second = asyncio.create_task(pool.wait("r1")), asyncio.create_task(pool.wait("r2"))
    await asyncio.sleep(0.1)
    pool.slots.release(lease)  # and nobody is told
    first.cancel()
    async with asyncio.timeout(1):
        assert isinstance(await second, Lease)


FULL = Refused(Shortage.FULL)


@pytest.mark.parametrize(
    ("refused", "left", "expected"),
    [
        (FULL, 1, True),
        (FULL, 0, False),
        (Refused(Shortage.IN_LINE), 1, True),
        (Refused(Shortage.SHARE), 1, True),
        (Refused(Shortage.LINE_FULL), 9, False),
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
