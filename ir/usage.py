"""Token counts. ``None`` is "the upstream did not tell", which is not the same as 0."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class UsageSource(StrEnum):
    REPORTED = "reported"
    ESTIMATED = "estimated"


class Usage(Struct, frozen=True):
    """Counts in tokens. ``output`` includes ``reasoning``; ``input_uncached`` excludes both cache counters."""

    input_uncached: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    source: UsageSource = UsageSource.REPORTED

    @property
    def input_total(self) -> int:
        return (self.input_uncached or 0) + (self.cache_read or 0) + (self.cache_write or 0)

    @property
    def total(self) -> int:
        return self.input_total + (self.output or 0)
