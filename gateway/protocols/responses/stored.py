"""Answers about stored responses: their input items page by page, and their deletion.

Source: OpenAI's Responses reference, "List input items" and "Delete a model response".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gateway.wire.json import dump
from ir.errors import invalid

MOST = 100


class Page(Struct, frozen=True):
    """``after`` is the id of the item before the page, "" for the first page."""

    limit: int = 20
    newest_first: bool = True
    after: str = ""


def decode_page(query: Mapping[str, str]) -> Page:
    """The query of ``GET /v1/responses/{id}/input_items``. Raises a 400 that names the parameter."""
    limit, order = query.get("limit", "20"), query.get("order", "desc")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 4 and 1 <= int(limit) <= MOST):
        raise invalid("invalid_value", f"limit: must be between 1 and {MOST}", "limit")
    if order not in ("asc", "desc"):
        raise invalid("invalid_value", "order: must be asc or desc", "order")
    return Page(int(limit), order == "desc", query.get("after", ""))


def encode_items(items: Sequence[Mapping[str, Any]], page: Page) -> bytes:
    """One page of ``items``, which come oldest first. Raises a 400 when ``page.after`` is none of them."""
    ordered = list(reversed(items) if page.newest_first else items)
    if page.after:
        ids = [item.get("id") for item in ordered]
        if page.after not in ids:
            raise invalid("invalid_value", "after: no item of this response has this id", "after")
        ordered = ordered[ids.index(page.after) + 1 :]
    data = ordered[: page.limit]
    return dump(
        {
            "object": "list",
            "data": data,
            "first_id": data[0].get("id") if data else None,
            "last_id": data[-1].get("id") if data else None,
            "has_more": len(ordered) > len(data),
        }
    )


def encode_deleted(response_id: str) -> bytes:
    """``response_id`` as the caller knows it."""
    return dump({"id": response_id, "object": "response", "deleted": True})
