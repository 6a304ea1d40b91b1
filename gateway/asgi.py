"""The HTTP edge of the data plane: plain ASGI, no Django on the path.

A table of routes, the life of the process's shared services, and the rule that every error, also for a path that does
not exist, has the shape of the protocol whose prefix it has.
"""

from __future__ import annotations

import gc
import logging
import secrets
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from gateway import catalogue, counting, pipeline, stored
from gateway.exchange import Exchange, Receive, Scope, Send
from gateway.protocols.chat import server as chat
from gateway.protocols.gemini import server as gemini
from gateway.protocols.messages import server as messages
from gateway.protocols.responses import compact
from gateway.protocols.responses import server as responses
from gateway.registry import Services
from gateway.wire import json
from ir.errors import ApiError, Culprit, Kind

log = logging.getLogger(__name__)

Endpoint = Callable[[Exchange], Awaitable[None]]

SERVICES = Services()
"""The one mutable global of the data plane: what the requests of a process share, between startup and shutdown."""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application for every data-plane path, and for the lifespan of the process."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    if scope["type"] == "websocket":
        await _deny_upgrade(receive, send)
        return
    exchange = Exchange(scope, receive, send, "req_" + secrets.token_hex(12))
    try:
        await _endpoint(exchange)(exchange)
    except Exception as error:  # the pipeline answers its own bugs; this is the net below everything else
        log.exception("request %s failed: %s", exchange.request_id, type(error).__name__)
        if exchange.started:
            raise
        await _refuse(
            exchange, ApiError(Kind.INTERNAL, "internal_error", "The gateway failed.", culprit=Culprit.GATEWAY)
        )


async def _deny_upgrade(receive: Receive, send: Send) -> None:
    """426 is the one answer that makes a client which tries WebSockets first go straight to HTTP."""
    await receive()
    error = ApiError(Kind.INVALID_REQUEST, "websocket_unsupported", "WebSockets are not served here. Use HTTP POST.")
    body = responses.encode_error(error, "").body
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": 426, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    await receive()
    try:
        await SERVICES.start()
    except Exception as error:
        log.exception("the data plane did not start")
        await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
        return
    # What was loaded so far lives as long as the process: no collection has to look at it again.
    gc.collect()
    gc.freeze()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await SERVICES.stop()
    await send({"type": "lifespan.shutdown.complete"})


def _endpoint(exchange: Exchange) -> Endpoint:
    path = exchange.path.rstrip("/") or "/"
    methods = ROUTES.get(path)
    shared = methods is None or path == "/v1/models"
    if shared and gemini.is_gemini(exchange.method, path, exchange.headers):
        return _gemini
    methods = methods or _methods_of(path)
    if methods is None:
        return _not_found
    return methods.get(exchange.method) or _wrong_method


def _methods_of(path: str) -> dict[str, Endpoint] | None:
    """The paths that name something."""
    if path.startswith("/v1/models/"):
        return {"GET": _model}
    if stored.names_one(path):
        return {"GET": _stored} if path.endswith(stored.ITEMS) else {"GET": _stored, "DELETE": _stored}
    return None


async def _chat(exchange: Exchange) -> None:
    await pipeline.serve(exchange, chat, SERVICES)


async def _messages(exchange: Exchange) -> None:
    await pipeline.serve(exchange, messages, SERVICES)


async def _count(exchange: Exchange) -> None:
    await counting.serve(exchange, messages, SERVICES)


async def _gemini(exchange: Exchange) -> None:
    """The whole of Google's API: two actions while the gate is open, and refusals in its shape."""
    try:
        enabled = SERVICES.snapshot().settings.gemini_native_enabled
        role = gemini.admit(exchange.method, exchange.path.rstrip("/"), exchange.query, enabled)
    except ApiError as error:
        await _refuse(exchange, error)
        return
    exchange.endpoint = role.endpoint
    if role.key and b"x-goog-api-key" not in exchange.headers:
        exchange.headers = {**exchange.headers, b"x-goog-api-key": role.key.encode("latin-1", "replace")}
    await pipeline.serve(exchange, role, SERVICES)


async def _responses(exchange: Exchange) -> None:
    await pipeline.serve(exchange, responses, SERVICES)


async def _compact(exchange: Exchange) -> None:
    await pipeline.serve(exchange, compact, SERVICES)


async def _stored(exchange: Exchange) -> None:
    await stored.serve(exchange, SERVICES)


async def _models(exchange: Exchange) -> None:
    await catalogue.serve(exchange, _models_role(exchange), SERVICES)


async def _model(exchange: Exchange) -> None:
    await catalogue.serve(exchange, _models_role(exchange), SERVICES, exchange.path.removeprefix("/v1/models/"))


async def _alive(exchange: Exchange) -> None:
    await exchange.respond(200, b'{"status":"ok"}')


async def _ready(exchange: Exchange) -> None:
    """200 while this process can take a request, else 503; each part says what is wrong with it."""
    problems = SERVICES.problems()
    status = "ok" if not problems else "unavailable"
    await exchange.respond(503 if problems else 200, json.dump({"status": status, "problems": problems}))


async def _not_found(exchange: Exchange) -> None:
    sentence = f"There is nothing at {_shown(exchange.path)}.{_likely(exchange.path.rstrip('/'))}"
    await _refuse(exchange, ApiError(Kind.NOT_FOUND, "not_found", sentence))


async def _wrong_method(exchange: Exchange) -> None:
    error = ApiError(
        Kind.METHOD_NOT_ALLOWED, "method_not_allowed", f"{exchange.method} is not allowed at {_shown(exchange.path)}."
    )
    path = exchange.path.rstrip("/")
    methods = ROUTES.get(path) or _methods_of(path) or {}
    exchange.extra.append((b"allow", ", ".join(methods).encode()))
    await _refuse(exchange, error)


async def _refuse(exchange: Exchange, error: ApiError) -> None:
    await exchange.respond_error(_role_of(exchange).encode_error(error, exchange.request_id))


def _role_of(exchange: Exchange) -> Any:
    path = exchange.path
    if gemini.is_gemini(exchange.method, path, exchange.headers):
        return gemini
    if path.startswith(("/v1/messages", "/messages")):
        return messages
    if path.startswith("/v1/models"):
        return _models_role(exchange)
    return chat


def _likely(path: str) -> str:
    """What a client with the other vendor's base URL meant, as a sentence; "" for paths that it does not explain."""
    if f"/v1{path}" in ROUTES:
        return f" The base URL lacks /v1: this is at /v1{path}."
    if path.startswith("/v1/") and path.removeprefix("/v1") in ROUTES:
        return f" The base URL has one /v1 too many: this is at {path.removeprefix('/v1')}."
    return ""


def _models_role(exchange: Exchange) -> ModuleType:
    """``/v1/models`` has a dialect per client: Anthropic's send their version, all others get OpenAI's."""
    return messages if b"anthropic-version" in exchange.headers else chat


def _shown(path: str) -> str:
    """A path fit for an error message: printable ASCII and short."""
    plain = "".join(character if " " < character <= "~" else "?" for character in path)
    return plain if len(plain) <= 80 else plain[:77] + "..."


ROUTES: dict[str, dict[str, Endpoint]] = {
    "/": {"HEAD": _alive},
    "/api/hello": {"HEAD": _alive, "GET": _alive},
    "/livez": {"GET": _alive, "HEAD": _alive},
    "/readyz": {"GET": _ready, "HEAD": _ready},
    "/v1/chat/completions": {"POST": _chat},
    "/v1/messages": {"POST": _messages},
    "/v1/messages/count_tokens": {"POST": _count},
    "/v1/models": {"GET": _models},
    "/v1/responses": {"POST": _responses},
    "/responses": {"POST": _responses},
    "/v1/responses/compact": {"POST": _compact},
    "/responses/compact": {"POST": _compact},
    "/backend-api/codex/responses/compact": {"POST": _compact},
}
