"""How accounts have served of late: one process's own view, by account and model, for the choice between two of them.

Everything noted loses half of its weight each minute, and the little that is left of it counts less against an
account than its having been asked at all (``DOUBT``). So an account that did badly and is passed by for that comes
back into favour by itself, and one failure among few requests says little.

Faults of the caller and our own bugs never count: they say nothing about an account.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from ir.errors import CULPRITS, Culprit, Reason

HALF_LIFE = 60.0
"""Seconds."""

DOUBT = 2.0
"""As many requests' worth of weight stands against what was noted: unknown accounts are good ones."""

MOST = 4096
"""Accounts × models remembered; who was asked longest ago is forgotten first."""

COUNTED = frozenset({Culprit.ACCOUNT, Culprit.ACCOUNT_MODEL, Culprit.UPSTREAM, Culprit.EGRESS})


class Seen(Struct, frozen=True):
    """``errors``: the share of requests that failed, 0 to 1, doubted. ``first_token``: mean seconds to the first
    output, None where nothing is known; ``trust`` (0 to 1) in that mean: how much it was seen, and how lately."""

    errors: float = 0.0
    first_token: float | None = None
    trust: float = 0.0


UNSEEN = Seen()


class Stats:
    """For one process. ``clock`` gives seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tallies: dict[tuple[int, str], _Tally] = {}  # in the order of their last note

    def served(self, account_id: int, model: str, ttft_s: float | None = None) -> None:
        """It answered; ``ttft_s``: seconds to the first output, None where the answer came in one piece."""
        tally = self._tally(account_id, model)
        tally.requests += 1
        if ttft_s is not None:
            tally.timed += 1
            tally.seconds += ttft_s

    def failed(self, account_id: int, model: str, reason: Reason) -> None:
        """It was asked in vain."""
        if CULPRITS[reason] in COUNTED:
            tally = self._tally(account_id, model)
            tally.requests += 1
            tally.failures += 1

    def seen(self, account_id: int, model: str) -> Seen:
        """What is known of the account now."""
        tally = self._tallies.get((account_id, model))
        if tally is None:
            return UNSEEN
        weight = tally.weight(self._clock())
        timed = tally.timed * weight
        return Seen(
            errors=tally.failures * weight / (tally.requests * weight + DOUBT),
            first_token=tally.seconds / tally.timed if tally.timed else None,
            trust=timed / (timed + DOUBT),
        )

    def __len__(self) -> int:
        return len(self._tallies)

    def _tally(self, account_id: int, model: str) -> _Tally:
        """The tally with everything in it weighed as of now, moved to the end."""
        now = self._clock()
        tally = self._tallies.pop((account_id, model), None)
        if tally is None:
            if len(self._tallies) >= MOST:
                del self._tallies[next(iter(self._tallies))]
            tally = _Tally(now)
        self._tallies[account_id, model] = tally
        tally.fade(now)
        return tally


class _Tally:
    """Sums whose parts fade; ``at``: when they were last brought up to date."""

    __slots__ = ("at", "failures", "requests", "seconds", "timed")

    def __init__(self, at: float) -> None:
        self.at = at
        self.requests = self.failures = self.timed = self.seconds = 0.0

    def weight(self, now: float) -> float:
        """What is left of them by ``now``."""
        return float(0.5 ** ((now - self.at) / HALF_LIFE))

    def fade(self, now: float) -> None:
        weight = self.weight(now)
        self.requests *= weight
        self.failures *= weight
        self.timed *= weight
        self.seconds *= weight
        self.at = now
