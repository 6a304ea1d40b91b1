"""Items that a request refers to instead of holding them: an earlier response, single items, opaque summaries.

Decoding is pure, so whoever serves a request asks ``references`` what to load, loads it for the caller's tenant, and
decodes what ``expand`` puts together. A body that refers to nothing can be decoded as it came. ``Expanded`` is a type
and not a key, so that no caller can claim to be expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from gateway.protocols.responses.compaction import COMPACTION, TRIGGER, open_summary
from ir.errors import ApiError, invalid

REFERENCE = "item_reference"


class References(Struct, frozen=True):
    """``opaque``: there are compaction items to open."""

    previous_response_id: str | None = None
    item_ids: tuple[str, ...] = ()
    opaque: bool = False

    def __bool__(self) -> bool:
        return self.previous_response_id is not None or bool(self.item_ids) or self.opaque


class Expanded(dict[str, Any]):
    """A body whose input holds everything. ``stored`` items of it came from the earlier response."""

    stored: int = 0


def references(body: object) -> References:
    """What has to be loaded before ``body`` can be decoded. Raises a 400 for a reference of a wrong type."""
    if not isinstance(body, dict):
        return References()
    previous = body.get("previous_response_id")
    items = _items(body)
    return References(
        None if previous is None else fields.identifier(previous, "previous_response_id"),
        tuple(name for item in items if (name := reference_of(item)) is not None),
        any(item.get("type") == COMPACTION for item in items),
    )


def expand(
    body: JsonObject,
    items_before: Sequence[Mapping[str, Any]],
    items_by_id: Mapping[str, Mapping[str, Any]],
    unseal: Callable[[bytes], bytes],
) -> Expanded:
    """The body with nothing left to load.

    ``items_before`` are the input and output items up to the earlier response, oldest first; ``items_by_id`` those
    that were referred to; ``unseal`` opens what ``ResponseMeta.seal`` made for the same tenant, else ``ValueError``.
    Raises a 400 for an item that is not there or a summary that cannot be opened.
    """
    items: list[object] = list(items_before)
    given = body.get("input")
    if isinstance(given, str):
        items.append({"type": "message", "role": "user", "content": given})
    elif isinstance(given, list):
        for index, item in enumerate(given):
            items.append(_resolve(item, items_by_id, f"input[{index}]"))
    expanded = Expanded(body)
    expanded.stored = len(items_before)
    expanded["input"] = [_open(item, unseal, path_of(index, expanded)) for index, item in enumerate(items)]
    return expanded


def all_items(body: JsonObject) -> list[JsonObject]:
    """Every input item of ``body``, stored ones first, messages in list form, without a trigger to compact."""
    if isinstance(body.get("input"), str):
        return [_in_list_form({"role": "user", "content": body["input"]})]
    return [_in_list_form(item) for item in _items(body) if item.get("type") != TRIGGER]


def input_items(body: JsonObject, response_id: str) -> list[JsonObject]:
    """The request's own items as they are kept and listed: no references, each with an id.

    ``body`` as it was decoded; ids of the caller are kept, others follow from ``response_id`` and the position.
    """
    own = all_items(body)[body.stored if isinstance(body, Expanded) else 0 :]
    return [{**item, "id": item.get("id") or f"in_{response_id}_{index}"} for index, item in enumerate(own)]


def path_of(index: int, body: JsonObject) -> str:
    """Where item ``index`` of the input stood in the body that the caller sent."""
    stored = body.stored if isinstance(body, Expanded) else 0
    return f"input[{index - stored}]" if index >= stored else "previous_response_id"


def previous_not_found(previous_id: str) -> ApiError:
    """One answer for an id that is unknown, expired or another tenant's."""
    return invalid(
        "previous_response_not_found",
        f"previous_response_id '{previous_id[:80]}' cannot be resolved and the request has no conversation",
        "previous_response_id",
    )


def reference_not_found(path: str) -> ApiError:
    return invalid("item_not_found", f"{path}: the item referred to cannot be resolved", f"{path}.id")


def reference_of(item: JsonObject) -> str | None:
    """The id that an ``item_reference`` names; its type may be missing."""
    kind = item.get("type")
    if kind != REFERENCE and (kind is not None or set(item) != {"id"}):
        return None
    return fields.text_or_empty(item.get("id"))


def _items(body: JsonObject) -> list[JsonObject]:
    items = body.get("input")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _resolve(item: object, items_by_id: Mapping[str, Mapping[str, Any]], path: str) -> object:
    name = reference_of(item) if isinstance(item, dict) else None
    if name is None:
        return item
    found = items_by_id.get(name)
    if found is None:
        raise reference_not_found(path)
    return found


def _open(item: object, unseal: Callable[[bytes], bytes], path: str) -> object:
    if not isinstance(item, dict) or item.get("type") != COMPACTION:
        return item
    opaque = fields.text(item.get("encrypted_content"), f"{path}.encrypted_content")
    return {**item, "summary": open_summary(opaque, unseal, path)}


def _in_list_form(item: JsonObject) -> JsonObject:
    item = {"type": "message", **item}
    if item["type"] == COMPACTION:
        item.pop("summary", None)  # the opaque form says it
    if item["type"] == "message":
        item.setdefault("status", "completed")
        if isinstance(item.get("content"), str):
            kind = "output_text" if item.get("role") == "assistant" else "input_text"
            item["content"] = [{"type": kind, "text": item["content"]}]
    return item
