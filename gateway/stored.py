"""``/v1/responses/{id}``: stored responses, read, deleted, and their input listed.

An unknown, an expired and another tenant's id have one answer.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import parse_qsl

from django.db import Error as DatabaseError

from core.encryption import SealError
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


def names_one(path: str) -> bool:
    """Whether a path is that of one stored response, or of its input."""
    return any(path.startswith(prefix) and "/" not in _rest(path, prefix) for prefix in PREFIXES)


async def serve(exchange: Exchange, services: Services) -> None:
    try:
        key = caller.authenticate(exchange.headers, services.snapshot(), services.pepper, time.time())
        await exchange.respond(200, await asyncio.to_thread(_answer, exchange, key))
    except (DatabaseError, SealError) as error:
        await exchange.respond_error(role.encode_error(unavailable(error), exchange.request_id))
    except ApiError as error:
        await exchange.respond_error(role.encode_error(error, exchange.request_id))


def _answer(exchange: Exchange, key: KeyView) -> bytes:
    path = exchange.path.rstrip("/")
    prefix = next(prefix for prefix in PREFIXES if path.startswith(prefix))
    response_id = _rest(path, prefix)
    query = dict(parse_qsl(exchange.query.decode("latin-1")))
    if path.endswith(ITEMS):
        items = store.input_items(key.team_id, response_id)
        if items is None:
            raise _not_found()
        return role.encode_items(items, role.decode_page(query))
    if exchange.method == "DELETE":
        if not store.delete(key.team_id, response_id):
            raise _not_found()
        return role.encode_deleted(response_id)
    if query.get("stream") == "true":
        raise invalid("unsupported_parameter", "stream: a stored response is not streamed again", "stream")
    found = store.envelope(key.team_id, response_id)
    if found is None:
        raise _not_found()
    return json.dump(found)


def _rest(path: str, prefix: str) -> str:
    return path.removeprefix(prefix).removesuffix(ITEMS)


def _not_found() -> ApiError:
    return ApiError(Kind.NOT_FOUND, "response_not_found", "There is no stored response with this id.", param="id")
