"""Token counts as OpenAI's vendors send them: checked, and clamped so that no part is larger than its whole."""

from __future__ import annotations

from ir.usage import Usage


def read_count(value: object) -> int | None:
    """``None`` for what is missing or no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def split_counts(
    prompt: int | None, output: int | None, read: int | None, written: int | None, reasoning: int | None
) -> Usage:
    """``prompt`` includes both cache counters, ``output`` includes ``reasoning``; what is missing stays unknown."""
    read = _at_most(read, prompt)
    written = _at_most(written, None if prompt is None else prompt - (read or 0))
    uncached = None if prompt is None else prompt - (read or 0) - (written or 0)
    return Usage(uncached, output, read, written, _at_most(reasoning, output))


def _at_most(count: int | None, whole: int | None) -> int | None:
    return min(count, whole) if count is not None and whole is not None else count
