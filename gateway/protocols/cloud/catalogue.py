"""Which models the API offers, and the one valid way to ask for one.

The API refuses a set of parameters that is no variant of the model, so what a request asks for (thinking, effort) is
completed to the variant that is closest to it. Source: ``GET /v1/models``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

AUTO = "default"
"""What the Agent RPC calls the account's default model; this API is told no model then."""


class Variant(Struct, frozen=True):
    parameters: Mapping[str, str]
    is_default: bool = False


class Offer(Struct, frozen=True):
    """A model: ``parameters`` are the values that each parameter may take."""

    id: str
    aliases: tuple[str, ...] = ()
    parameters: Mapping[str, frozenset[str]] = {}
    variants: tuple[Variant, ...] = ()


class Selection(Struct, frozen=True):
    """The ``model`` of a request."""

    id: str
    parameters: Mapping[str, str] = {}


def parse(body: bytes) -> tuple[Offer, ...]:
    """Raises ``ValueError`` for what is no list of models; members that make no sense are passed over."""
    try:
        items = orjson.loads(body)["items"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise ValueError("no list of models") from None
    return tuple(_offer(item) for item in _objects(items) if isinstance(item.get("id"), str))


def choose(offers: Sequence[Offer], model: str, wanted: Mapping[str, str]) -> Selection | None:
    """What to ask for; None: no model, which means the account's default.

    A model that is not offered is asked for as it is, and the API has the last word.
    """
    offer = next((one for one in offers if model == one.id or model in one.aliases), None)
    if offer is None:
        return None if model == AUTO else Selection(model, wanted)
    known = {name: value for name, value in wanted.items() if value in offer.parameters.get(name, ())}
    if not offer.variants:
        return Selection(offer.id, known)
    usual = next((one for one in offer.variants if one.is_default), offer.variants[0])
    best = max(
        offer.variants, key=lambda one: (_shared(one.parameters, known), _shared(one.parameters, usual.parameters))
    )
    return Selection(offer.id, best.parameters)


def _shared(parameters: Mapping[str, str], with_: Mapping[str, str]) -> int:
    return sum(parameters.get(name) == value for name, value in with_.items())


def _offer(item: Mapping[str, Any]) -> Offer:
    parameters = {
        str(one.get("id")): frozenset(str(value.get("value")) for value in _objects(one.get("values")))
        for one in _objects(item.get("parameters"))
    }
    variants = tuple(
        Variant(
            {str(one.get("id")): str(one.get("value")) for one in _objects(variant.get("params"))},
            variant.get("isDefault") is True,
        )
        for variant in _objects(item.get("variants"))
    )
    aliases = item.get("aliases")
    names = tuple(name for name in aliases if isinstance(name, str)) if isinstance(aliases, list) else ()
    return Offer(item["id"], names, parameters, variants)


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
