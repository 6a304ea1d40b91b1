"""Rests that one process has heard of: so that it need not ask about accounts again and again.

A rest is believed for some seconds at the most, because an admin may end it at any time. How long it really lasts is
remembered just as long: whoever makes way for a short one wants to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

BELIEVED = 5.0
"""Seconds."""


class _Rest(Struct, frozen=True):
    believed_until: float
    ends: float


class Hints:
    """For one process. ``clock`` gives seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: dict[tuple[int, str], _Rest] = {}

    def hear(self, account_id: int, model: str, seconds: float) -> None:
        """The account rests for ``model`` for so long from now."""
        now = self._clock()
        self._rests[account_id, model] = _Rest(now + min(seconds, BELIEVED), now + seconds)

    def cooled(self) -> set[tuple[int, str]]:
        """What was heard to rest, lately enough to be believed."""
        now = self._clock()
        for what in [what for what, rest in self._rests.items() if rest.believed_until <= now]:
            del self._rests[what]
        return set(self._rests)

    def left(self, account_id: int, model: str) -> float:
        """Seconds that the account still rests for ``model``; 0 where nothing was heard lately."""
        rest = self._rests.get((account_id, model))
        return max(0.0, rest.ends - self._clock()) if rest is not None else 0.0

    def forget(self) -> None:
        """Believes nothing that was heard: an admin may have ended some."""
        self._rests.clear()
