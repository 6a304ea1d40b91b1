"""How long an attempt may be silent before its first output: as long as the model usually needs, three times over.

A model that answers within a second is given up sooner than one that thinks for a minute, and the last account that can
be asked gets more time than the others, because after it there is nobody to turn to.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

from core.settings import Settings

KEPT = 100
"""First outputs remembered for each model."""

ENOUGH = 20
"""Below so many nothing is concluded: the limit is the longest one."""

MODELS = 512
"""Models remembered: callers can make up names that a pattern serves."""

TIMES = 3.0


class Pace:
    """For one process."""

    def __init__(self) -> None:
        self._recent: dict[str, _Recent] = {}

    def note(self, model: str, seconds: float) -> None:
        """An attempt gave its first output after ``seconds``. ``model`` is the upstream's name."""
        recent = self._recent.get(model)
        if recent is None:
            if len(self._recent) >= MODELS:
                self._recent.pop(next(iter(self._recent)))
            recent = self._recent[model] = _Recent()
        recent.add(seconds)

    def limit(self, model: str, settings: Settings, *, last: bool) -> float:
        """Seconds that the next attempt may take until its first output; ``last``: no other can follow it."""
        recent = self._recent.get(model)
        longest = settings.first_token_timeout
        usual = recent.p95 if recent is not None else None
        limit = longest if usual is None else min(longest, max(settings.first_token_floor, TIMES * usual))
        return limit + settings.last_attempt_extra if last else limit


class _Recent:
    def __init__(self) -> None:
        self._order: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, seconds: float) -> None:
        if len(self._order) >= KEPT:
            self._sorted.remove(self._order.popleft())
        self._order.append(seconds)
        insort(self._sorted, seconds)

    @property
    def p95(self) -> float | None:
        count = len(self._sorted)
        return self._sorted[count * 95 // 100] if count >= ENOUGH else None
