"""What an upstream says of its models, and how its many names for one model fold into one. Pure.

Sources: ``GetUsableModels`` names what an account may use, ``AvailableModels`` (context, parameters, variants) and
``GET /v1/models`` (parameters with their values) tell more. A variant's slug such as ``gpt-9-high-fast`` stands for a
base model with parameters, and asking for it that way is what works: a slug that is sent as it is may be refused. So
slugs are resolved by what the upstream lists, and by its suffix only where the base declares such a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from protobufs.agent_v1_pb2 import AvailableModelsResponse, GetUsableModelsResponse

EFFORTS = ("low", "medium", "high", "xhigh", "max")
SWITCHES = ("thinking", "fast")


class Offered(Struct, frozen=True):
    """A model as one upstream offers it. None and () where that was not told.

    ``parameters``: name → the values it may take (none known: any); ``variants``: slug → the parameters it stands for.
    """

    id: str
    display_name: str = ""
    aliases: tuple[str, ...] = ()
    context_tokens: int | None = None
    parameters: Mapping[str, tuple[str, ...]] | None = None
    variants: Mapping[str, Mapping[str, str]] = {}
    max_mode: bool | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name under which it may be asked for."""
        return (self.id, *self.aliases, *self.variants)


class Sibling(Struct, frozen=True):
    """Another name for a base model with parameters."""

    id: str
    base: str
    parameters: Mapping[str, str]


def read_usable(body: bytes) -> tuple[Offered, ...]:
    """The answer of ``GetUsableModels``. Raises ``google.protobuf.message.DecodeError``."""
    return _sorted(
        Offered(
            model.model_id,
            model.display_name,
            tuple(model.aliases),
            max_mode=model.max_mode if model.HasField("max_mode") else None,
        )
        for model in GetUsableModelsResponse.FromString(body).models
    )


def read_available(body: bytes) -> tuple[Offered, ...]:
    """The answer of ``AvailableModels``. Raises ``google.protobuf.message.DecodeError``."""
    return _sorted(
        Offered(
            model.name,
            model.client_display_name,
            (*model.aliases, *model.legacy_slugs),
            model.context_token_limit or None,
            {one.id: () for one in model.parameter_definitions},
            {
                slug: {one.id: one.value for one in variant.parameter_values}
                for variant in model.variants
                for slug in (variant.variant_string_representation, variant.legacy_slug)
                if slug and slug != model.name
            },
        )
        for model in AvailableModelsResponse.FromString(body).models
        if not model.is_hidden
    )


def read_listed(body: bytes) -> tuple[Offered, ...]:
    """The answer of ``GET /v1/models``. Raises ``ValueError`` or ``TypeError`` for what is none."""
    items = orjson.loads(body)["items"]
    return _sorted(
        Offered(
            item["id"],
            _text(item.get("displayName")),
            tuple(name for name in item.get("aliases") or () if isinstance(name, str)),
            parameters={
                _text(one.get("id")): tuple(_text(value.get("value")) for value in one.get("values") or ())
                for one in item.get("parameters") or ()
            },
        )
        for item in items
    )


def merge(lists: Iterable[Sequence[Offered]]) -> dict[str, Offered]:
    """By id; what one list leaves out another may tell."""
    found: dict[str, Offered] = {}
    for offered in (one for several in lists for one in several):
        known = found.get(offered.id)
        found[offered.id] = offered if known is None else _fill(known, offered)
    return found


def fold(offered: Mapping[str, Offered]) -> tuple[list[Offered], list[Sibling]]:
    """Base models, and the names that are one of them with parameters."""
    bases: list[Offered] = []
    siblings: dict[str, Sibling] = {}
    for model in offered.values():
        for slug, parameters in model.variants.items():
            siblings.setdefault(slug, Sibling(slug, model.id, parameters))
    for model in offered.values():
        sibling = siblings.get(model.id) or _by_suffix(model.id, offered)
        if sibling is None:
            bases.append(model)
        else:
            siblings[model.id] = sibling
    return bases, list(siblings.values())


def _by_suffix(name: str, offered: Mapping[str, Offered]) -> Sibling | None:
    """``base-high-fast`` for a base that is offered and declares what the words stand for."""
    head, words = name, list[str]()
    while "-" in head:
        head, _, word = head.rpartition("-")
        words.append(word)
        base = offered.get(head)
        if base is not None and base.parameters is not None:
            parameters = _stand_for(words, base.parameters)
            if parameters is not None:
                return Sibling(name, head, parameters)
    return None


def _stand_for(words: Iterable[str], declared: Mapping[str, tuple[str, ...]]) -> dict[str, str] | None:
    """None when a word stands for nothing that is declared, or two stand for the same."""
    found: dict[str, str] = {}
    for word in words:
        name, value = (word, "true") if word in SWITCHES else ("effort", word)
        known = declared.get(name)
        if known is None or name in found or value not in (known or (*EFFORTS, "true")):
            return None
        found[name] = value
    return found


def _fill(known: Offered, other: Offered) -> Offered:
    """What is known, with what it left open."""
    return replace(
        known,
        display_name=known.display_name or other.display_name,
        aliases=tuple(dict.fromkeys((*known.aliases, *other.aliases))),
        context_tokens=known.context_tokens or other.context_tokens,
        parameters=_with_values(known.parameters, other.parameters),
        variants={**other.variants, **known.variants},
        max_mode=other.max_mode if known.max_mode is None else known.max_mode,
    )


def _with_values(
    known: Mapping[str, tuple[str, ...]] | None, other: Mapping[str, tuple[str, ...]] | None
) -> Mapping[str, tuple[str, ...]] | None:
    if known is None or other is None:
        return known if other is None else other
    return {**other, **{name: values or other.get(name, ()) for name, values in known.items()}}


def _sorted(offered: Iterable[Offered]) -> tuple[Offered, ...]:
    return tuple(sorted({one.id: one for one in offered if one.id}.values(), key=lambda one: one.id))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
