"""Top-level fields that mean nothing here: they pass between a caller and an upstream of one protocol, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Extras(Struct, frozen=True):
    """``protocol`` is the one whose fields they are; nobody else may look at them."""

    protocol: str = ""
    fields: Mapping[str, Any] = {}

    def of(self, protocol: str) -> Mapping[str, Any]:
        """The fields, for whoever speaks that protocol; none for others."""
        return self.fields if self.protocol == protocol else {}


NO_EXTRAS = Extras()


def extras(protocol: str, fields: Mapping[str, Any]) -> Extras:
    """``NO_EXTRAS`` when there are none: what says the same is equal, whoever made it."""
    return Extras(protocol, fields) if fields else NO_EXTRAS


def join(first: Extras, second: Extras) -> Extras:
    """Both, as far as they are of one protocol; the second one's fields win."""
    if not first.fields or not second.fields or first.protocol != second.protocol:
        return second if second.fields else first
    return Extras(first.protocol, {**first.fields, **second.fields})
