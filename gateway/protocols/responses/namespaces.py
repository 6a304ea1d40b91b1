"""Tools of a ``namespace`` under flat names, since no other protocol nests tools.

``fs`` / ``read`` becomes ``fs__read``. A name that is too long or holds other characters is cut and ends in a hash of
the whole, so equal names stay equal. The way back is never worked out from the flat name (``a__b`` may have been a
name of its own): ``Tool.origin`` keeps what the caller declared. ``functions`` is Codex' namespace for what stands in
none, so its tools keep their bare names and a call without a namespace means it.
"""

from __future__ import annotations

import hashlib
import re

RESERVED = "functions"
LIMIT = 64  # characters of a flat name

_PLAIN = re.compile(rf"[A-Za-z0-9_-]{{1,{LIMIT}}}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def flatten(namespace: str, name: str) -> str:
    """The function name for a tool of ``namespace``; "" is no namespace."""
    if namespace in ("", RESERVED):
        return name
    flat = f"{namespace}__{name}"
    if _PLAIN.fullmatch(flat):
        return flat
    digest = hashlib.sha256(flat.encode()).hexdigest()[:8]
    return f"{_OTHER.sub('_', flat)[: LIMIT - 9]}_{digest}"
