"""Waiting for a slot: how long, and who is woken.

The lines are in Redis (``accounts.lines``); here is what one process does about them. Of each line only the request
that came first to this process asks, ten times a second, since other processes give slots back too; the others
sleep until it is gone. A slot that this process gives back wakes the first of every line that it would help, at once.
How long slots are held is watched, so that a line that will not move in time is not waited in at all.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection

from msgspec.structs import replace

from accounts.leases import Lease, Refused, Shortage
from accounts.lines import PLACES_A_SLOT, Line, Place

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.1
"""Seconds between two looks: from the first, doubling, to the longest."""

NEWEST = 0.1
"""Weight of the last slot in the average time that one is held."""

PASSING = frozenset({Shortage.FULL, Shortage.IN_LINE, Shortage.SHARE})


def may_pass(refused: Refused, left: float) -> bool:
    """Whether waiting ``left`` seconds can help at all."""
    if refused.shortage is Shortage.COOLED:
        return refused.soonest is not None and refused.soonest < left
    return left > 0 and refused.shortage in PASSING


class _Waiter:
    """``accounts``: ids of those that would do."""

    def __init__(self, accounts: Collection[int]) -> None:
        self.accounts = accounts
        self.woken = asyncio.Event()

    async def sleep(self, seconds: float) -> bool:
        """Whether it was woken."""
        try:
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        except TimeoutError:
            return False
        self.woken.clear()
        return True


class Queue:
    """For one process. ``clock`` gives seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines: dict[Line, deque[_Waiter]] = {}
        self._held_for = 0.0

    def freed(self, account_id: int, held_for: float) -> None:
        """A slot was given back that had been held for so many seconds."""
        self._held_for += (held_for - self._held_for) * (NEWEST if self._held_for else 1.0)
        for waiting in self._lines.values():
            if account_id in waiting[0].accounts:
                waiting[0].woken.set()

    async def wait(
        self, place: Place, ask: Callable[[], Awaitable[Lease | Refused]], accounts: Collection[int], longest: float
    ) -> Lease | Refused:
        """Waits in line until ``ask`` gets a slot, for ``longest`` seconds at most. ``ask`` asks at ``place``; each of
        ``accounts`` would do. Raises ``PipeDown``."""
        waiter, waiting = _Waiter(accounts), self._lines.setdefault(place.line, deque())
        waiting.append(waiter)  # before anything is asked: the order here is the server's
        answer: Lease | Refused | None = None
        try:
            answer = await self._wait(place, ask, waiter, waiting, longest)
            return answer
        finally:
            waiting.remove(waiter)
            if waiting:
                waiting[0].woken.set()
            else:
                del self._lines[place.line]
            if not isinstance(answer, Lease):
                place.leave()

    async def _wait(
        self,
        place: Place,
        ask: Callable[[], Awaitable[Lease | Refused]],
        waiter: _Waiter,
        waiting: deque[_Waiter],
        longest: float,
    ) -> Lease | Refused:
        ends, pause = self._clock() + longest, FIRST_PAUSE
        answer = await ask()
        if isinstance(answer, Refused) and (place.closed or answer.shortage in PASSING):
            expected = self._expect(place)
            if place.closed or expected > longest:
                return replace(answer, soonest=expected or None)
        while isinstance(answer, Refused):
            left = ends - self._clock()
            if not may_pass(answer, left):
                return answer if answer.soonest is not None else replace(answer, soonest=self._expect(place) or None)
            if waiting[0] is waiter:
                woken = await waiter.sleep(min(pause, left))
                pause = FIRST_PAUSE if woken else min(pause * 2, LONGEST_PAUSE)
            elif not await waiter.sleep(left):
                continue
            answer = await ask()
        return answer

    def _expect(self, place: Place) -> float:
        """Seconds until it is the turn of ``place``, by how long slots were held lately; where too many wait already,
        of the whole line."""
        before = PLACES_A_SLOT * place.slots if place.closed else place.ahead
        return (before + 1) * self._held_for * place.teams / max(place.slots, 1)
