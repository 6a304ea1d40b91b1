"""Names of accepted fields without effect, made fit for a response header and a record.

A field name is the caller's own text, so it may hold line ends or content. Only names that look like names pass;
the list is bounded, so that a body with a million fields does not become a header of a million names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAMES = 32
UNNAMED = "unknown_field"

_NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")


def list_ignored(names: Iterable[str]) -> tuple[str, ...]:
    """``names`` in order, each once, at most ``MAX_NAMES``; a name that is none becomes ``UNNAMED``."""
    listed: dict[str, None] = {}
    for name in names:
        listed[name if _NAME.fullmatch(name) else UNNAMED] = None
        if len(listed) == MAX_NAMES:
            break
    return tuple(listed)
