"""Orders hidden in a prompt: ``CALLTOOL name {json} END``, ``SAYTEXT … END``, ``SCRIPT name END``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_START = re.compile(r"\b(CALLTOOL|SAYTEXT|SCRIPT)\s")
_NAME = re.compile(r"\s*(\S+)\s*")
_END = re.compile(r"\s*\bEND\b")


@dataclass(frozen=True)
class CallTool:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class SayText:
    text: str


@dataclass(frozen=True)
class RunScript:
    name: str


Marker = CallTool | SayText | RunScript


def find(text: str) -> list[Marker]:
    """The markers of a text in order. One that is broken (no END, no JSON object) is no marker."""
    return list(_find(text))


def _find(text: str) -> Iterator[Marker]:
    position = 0
    while start := _START.search(text, position):
        marker, position = _read(start.group(1), text, start.end())
        if marker is not None:
            yield marker


def _read(kind: str, text: str, position: int) -> tuple[Marker | None, int]:
    if kind == "CALLTOOL":
        return _read_call(text, position)
    end = _END.search(text, position)
    if end is None:
        return None, position
    body = text[position : end.start()].strip()
    if kind == "SCRIPT":
        return (RunScript(body) if body and " " not in body else None), end.end()
    return SayText(body), end.end()


def _read_call(text: str, position: int) -> tuple[Marker | None, int]:
    name = _NAME.match(text, position)
    if name is None:
        return None, position
    try:
        arguments, after = json.JSONDecoder().raw_decode(text, name.end())
    except json.JSONDecodeError:
        return None, position
    end = _END.match(text, after)
    if end is None or not isinstance(arguments, dict):
        return None, position
    return CallTool(name.group(1), arguments), end.end()
