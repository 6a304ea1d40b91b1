"""What stands between the tags of a call → the JSON text of an object: compact, order kept, non-ASCII kept.

Models break JSON in one way so often that it is worth mending: they write line breaks and tabs raw inside strings.
Everything else that is no object is not a call. Whole numbers of any size stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_RAW = re.compile(r"[\r\n\t]")
_ESCAPES = {"\r": r"\r", "\n": r"\n", "\t": r"\t"}

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Arguments(Struct, frozen=True):
    """``text`` is compact JSON; ``repeated`` tells that a key came twice, where the last one counts."""

    text: str
    repeated: bool = False


def read_object(source: str) -> Arguments | None:
    """From a JSON object with balanced brackets. ``None`` when it is none, even after one repair."""
    try:
        value = msgspec.json.decode(source)
    except _UNREADABLE:
        try:
            value = msgspec.json.decode(_STRING.sub(_mend, source))
        except _UNREADABLE:
            return None
    if not isinstance(value, dict):
        return None
    written = _STRING.sub("", source).count(":")
    return Arguments(msgspec.json.encode(value).decode(), repeated=written > _members(value))


def from_parameters(parameters: Sequence[tuple[str, str]]) -> Arguments:
    """From ``<parameter>`` elements: every value is a string."""
    values = dict(parameters)
    return Arguments(msgspec.json.encode(values).decode(), repeated=len(values) < len(parameters))


def _mend(string: re.Match[str]) -> str:
    return _RAW.sub(lambda raw: _ESCAPES[raw.group()], string.group())


def _members(value: Any) -> int:
    """The members of all objects inside, without recursion: models nest deeper than Python's stack likes."""
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            count += len(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return count
