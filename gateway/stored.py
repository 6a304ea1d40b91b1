"""``/v1/responses/{id}``: stored responses, read, deleted, and their input listed.

An unknown, an expired and another tenant's id have one answer.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import parse_qs

from django.db import Error as DatabaseError

from gateway import caller
from gateway.continuity import unavailable
from gateway.conversations import store
from gateway.exchange import Exchange
from gateway.protocols.responses import server as role
from gateway.registry import Services
from gateway.wire import json
from ir.errors import ApiError, Kind, invalid
from tenants.compile import KeyView

PREFIXES = ("/v1/responses/", "/responses/")
ITEMS = "/input_items"
MOST_ITEMS = 100


def names_one(path: str) -> bool:
    """Whether a path is that of one stored response, or of its input."""
    return any(path.startswith(prefix) and "/" not in _rest(path, prefix) for prefix in PREFIXES)


async def serve(exchange: Exchange, services: Services) -> None:
    try:
        key = caller.authenticate(exchange.headers, services.snapshot(), services.pepper, time.time())
        answer = await asyncio.to_thread(_answer, exchange, key)
        await exchange.respond(200, json.dump(answer))
    except DatabaseError:
        await exchange.respond_error(role.encode_error(unavailable(), exchange.request_id))
    except ApiError as error:
        await exchange.respond_error(role.encode_error(error, exchange.request_id))


def _answer(exchange: Exchange, key: KeyView) -> dict[str, Any]:
    path = exchange.path.rstrip("/")
    prefix = next(prefix for prefix in PREFIXES if path.startswith(prefix))
    response_id = _rest(path, prefix)
    query = parse_qs(exchange.query.decode("latin-1"))
    if path.endswith(ITEMS):
        items = store.input_items(key.team_id, response_id)
        if items is None:
            raise _not_found()
        return _page([dict(item) for item in items], query)
    if exchange.method == "DELETE":
        if not store.delete(key.team_id, response_id):
            raise _not_found()
        return {"id": response_id, "object": "response", "deleted": True}
    found = store.envelope(key.team_id, response_id)
    if found is None:
        raise _not_found()
    if query.get("stream", ["false"])[-1] == "true":
        raise invalid("unsupported_parameter", "stream: a stored response is not streamed again", "stream")
    return found


def _page(items: list[dict[str, Any]], query: dict[str, list[str]]) -> dict[str, Any]:
    order = query.get("order", ["desc"])[-1]
    if order not in ("asc", "desc"):
        raise invalid("invalid_value", "order: must be asc or desc", "order")
    text = query.get("limit", ["20"])[-1]
    if not text.isdecimal() or not 1 <= int(text) <= MOST_ITEMS:
        raise invalid("invalid_value", f"limit: must be from 1 to {MOST_ITEMS}", "limit")
    if order == "desc":
        items.reverse()
    after = query.get("after", [""])[-1]
    if after:
        place = next((index for index, item in enumerate(items) if item.get("id") == after), None)
        if place is None:
            raise invalid("invalid_value", "after: there is no such item", "after")
        items = items[place + 1 :]
    page = items[: int(text)]
    first, last = (page[0].get("id"), page[-1].get("id")) if page else (None, None)
    return {"object": "list", "data": page, "first_id": first, "last_id": last, "has_more": len(items) > len(page)}


def _rest(path: str, prefix: str) -> str:
    return path.removeprefix(prefix).removesuffix(ITEMS)


def _not_found() -> ApiError:
    return ApiError(Kind.NOT_FOUND, "response_not_found", "There is no stored response with this id.", param="id")
