"""Waiting for a slot: how long, and who is woken.

The line itself is in Redis (``accounts.lines``); here is what one process does about it. Whoever waits looks again when
this process gives a slot back, at once, and now and then anyway, since other processes give back too. How long slots
are held is watched, so that a line that will not move in time is not joined at all.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from accounts.leases import Lease, Refused, Shortage
from accounts.lines import Place

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds between two looks: from the first, doubling, to the longest."""

LONGER_THAN_SLOTS = 2
"""A line may be so many times as long as there are slots."""

WOKEN = 4
"""Who is woken for one slot: the first in line may not be one that this slot helps."""

NEWEST = 0.1
"""Weight of the last slot in the average time that one is held."""

PASSING = frozenset({Shortage.FULL, Shortage.IN_LINE, Shortage.SHARE})


def may_pass(refused: Refused, left: float) -> bool:
    """Whether waiting ``left`` seconds can help at all."""
    if refused.shortage is Shortage.COOLED:
        return refused.soonest is not None and refused.soonest < left
    return left > 0 and refused.shortage in PASSING


class Queue:
    """For one process. ``clock`` gives seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._held_for = 0.0

    def freed(self, held_for: float) -> None:
        """A slot was given back that had been held for so many seconds."""
        self._held_for += (held_for - self._held_for) * (NEWEST if self._held_for else 1.0)
        for _ in range(min(WOKEN, len(self._waiting))):
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def wait(
        self,
        place: Place,
        attempt: Callable[[], Awaitable[Lease | Refused]],
        refused: Refused,
        slots: int,
        longest: float,
    ) -> Lease | Refused:
        """Waits in line until ``attempt`` gets a slot, for ``longest`` seconds at most. ``refused``: why the first did
        not; ``slots``: how many there are at all. Raises ``PipeDown``."""
        ends, pause = self._clock() + longest, FIRST_PAUSE
        try:
            while True:
                left = ends - self._clock()
                if not may_pass(refused, left):
                    return refused
                before = await place.join(LONGER_THAN_SLOTS * max(slots, 1))
                expected = self._expect(before, slots)
                if before < 0 or expected > left:
                    return Refused(Shortage.FULL, expected or None, refused.passed)
                await self._pause(min(pause, left))
                pause = min(pause * 2, LONGEST_PAUSE)
                answer = await attempt()
                if isinstance(answer, Lease):
                    return answer
                refused = answer
        finally:
            place.leave()

    def _expect(self, before: int, slots: int) -> float:
        """Seconds until it is the turn of who has so many before them; of a line that is too long (-1), all of it."""
        ahead = before if before >= 0 else LONGER_THAN_SLOTS * slots
        return (ahead + 1) * self._held_for / max(slots, 1)

    async def _pause(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(woken)
        try:
            async with asyncio.timeout(seconds):
                await woken
        except TimeoutError:
            pass
        finally:
            if woken in self._waiting:
                self._waiting.remove(woken)
