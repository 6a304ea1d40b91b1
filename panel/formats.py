"""How values look on a page. Unknown is a dash, never a zero. Pure."""

from __future__ import annotations

UNKNOWN = "–"


def words(value: str) -> str:
    """An enum's value as words: ``client_error`` → ``client error``."""
    return value.replace("_", " ")


def milliseconds(value: float | None) -> str:
    """``840 ms``, ``1.24 s``, ``3 min 20 s``."""
    if value is None:
        return UNKNOWN
    if value < 999.5:
        return f"{value:.0f} ms"
    if value < 59_995:
        return f"{value / 1000:.2f} s"
    minutes, seconds = divmod(round(value / 1000), 60)
    return f"{minutes} min {seconds} s"


def count(value: int | None) -> str:
    """Digits in groups of three."""
    return UNKNOWN if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes as ``512 B``, ``1.5 KiB`` or ``2.0 MiB``."""
    if value is None:
        return UNKNOWN
    if value < 1024:
        return f"{value} B"
    return f"{value / 1024:.1f} KiB" if value < 1024 * 1024 else f"{value / 1024 / 1024:.1f} MiB"


def share(value: float | None) -> str:
    """A fraction as percent; never rounds a single failure away to 100 %."""
    if value is None:
        return UNKNOWN
    return "100 %" if value == 1 else f"{min(value * 100, 99.9):.1f} %"
