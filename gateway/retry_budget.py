"""How many second attempts this process may make: an outage must not multiply the load on what is left.

Retries may be a fifth of the requests of the last ten seconds. A quiet process could then make none at all, so a few
are always allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

WINDOW = 10
"""Seconds, counted one by one: what was counted in a second is forgotten ten seconds later."""


class RetryBudget:
    """For one process. ``clock`` gives seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = int(clock())
        self._requests = [0] * WINDOW
        self._retries = [0] * WINDOW

    def request(self) -> None:
        """A request makes its first attempt."""
        self._requests[self._now()] += 1

    def may_retry(self, share: float, floor: int) -> bool:
        """Whether a request may make one more attempt; if so, it is counted. ``share``: retries for each request;
        ``floor``: retries in the window that are always allowed."""
        place = self._now()
        if sum(self._retries) >= max(floor, share * sum(self._requests)):
            return False
        self._retries[place] += 1
        return True

    def _now(self) -> int:
        """The place of this second. Those that went by since the last look are emptied."""
        second = int(self._clock())
        for passed in range(max(self._second + 1, second - WINDOW + 1), second + 1):
            self._requests[passed % WINDOW] = self._retries[passed % WINDOW] = 0
        self._second = max(self._second, second)
        return second % WINDOW
