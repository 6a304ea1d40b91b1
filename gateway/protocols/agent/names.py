"""Tool names on the wire, and back. Upstream a tool is ``poolgate-<name>`` of the provider ``poolgate``.

A name that the upstream may not take (too long, or with characters that model vendors refuse) is replaced by a
shortened one that ends in a hash of the original, so equal names stay equal and the way back is a plain look-up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

PROVIDER = "poolgate"
PREFIX = f"{PROVIDER}-"
LIMIT = 128  # bytes, prefix included

_PREFIXES = (PREFIX, f"mcp_{PROVIDER}_")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(name: str) -> str:
    """The bare name that goes upstream: ``name`` itself whenever that is possible."""
    room = LIMIT - len(PREFIX)
    if len(name) <= room and _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{_OTHER.sub('_', name)[: room - 9]}_{digest}"


class Names:
    """The way back for the tools of one request."""

    def __init__(self, names: Iterable[str]) -> None:
        self._callers: Mapping[str, str] = {wire_name(name): name for name in names}

    def caller_name(self, tool_name: str, name: str) -> str | None:
        """The caller's name for a call that carries ``tool_name`` and ``name``; ``None`` for a tool never offered."""
        for candidate in (tool_name, name):
            found = self._callers.get(candidate)
            if found is not None:
                return found
            for prefix in _PREFIXES:
                found = self._callers.get(candidate.removeprefix(prefix))
                if found is not None:
                    return found
        return None
