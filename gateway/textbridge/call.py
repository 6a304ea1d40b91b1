"""A call while it is read: where its parts lie, and what they mean once it is whole."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape

from msgspec import Struct

from gateway.textbridge import arguments
from gateway.textbridge.arguments import Arguments
from gateway.textbridge.tape import SPACE

INVOKE, INVOKE_END = "<invoke", "</invoke>"
PARAMETER, PARAMETER_END = "<parameter", "</parameter>"

_ATTRIBUTE = re.compile(rf"""[{SPACE}]+([A-Za-z_:][-\w.:]*)[{SPACE}]*=[{SPACE}]*("[^"]*"|'[^']*')""")


class Parameter(Struct):
    """Offsets: of the tag, of the value after it, and of the value's end."""

    tag: int
    value: int = 0
    end: int = 0


class Call(Struct):
    """Offsets of the opening tag, of the body, and of the object in it, which is negative when there is none."""

    tag: int = 0
    body: int = 0
    object: int = -1
    object_end: int = 0
    parameters: list[Parameter] = []
    spaces: int = 0  # between trigger and tag
    quote: str = ""  # the open one, in a tag
    open: list[str] = []  # the closing brackets that are due
    in_string: bool = False
    escaped: bool = False

    def read_name(self, raw: str) -> str:
        """What the model named, "" for nothing. ``raw`` is all that is held of the call."""
        return _read_name(raw[self.tag + len(INVOKE) : self.body - 1])

    def read_arguments(self, raw: str) -> Arguments | None:
        """``None`` when they are no object."""
        if self.object >= 0:
            return arguments.read_object(raw[self.object : self.object_end])
        names = [_read_name(raw[each.tag + len(PARAMETER) : each.value - 1]) for each in self.parameters]
        if "" in names:
            return None
        values = [raw[each.value : each.end] for each in self.parameters]
        return arguments.from_parameters(list(zip(names, values, strict=True)))


class Names:
    """Declared tools, found by their exact name, or by the only one that differs in case alone."""

    def __init__(self, tools: Iterable[str]) -> None:
        self._exact = frozenset(tools)
        self._folded: dict[str, list[str]] = {}
        for name in self._exact:
            self._folded.setdefault(name.lower(), []).append(name)

    def find(self, name: str) -> str | None:
        if name in self._exact:
            return name
        similar = self._folded.get(name.lower(), ())
        return similar[0] if len(similar) == 1 else None


def _read_name(attributes: str) -> str:
    """The ``name`` among the attributes of a tag; "" when there is none, or when they are not well formed."""
    at, name = 0, ""
    while (attribute := _ATTRIBUTE.match(attributes, at)) is not None:
        at = attribute.end()
        if attribute[1] == "name" and not name:
            name = unescape(attribute[2][1:-1]).strip()
    return "" if attributes[at:].strip(SPACE) else name
