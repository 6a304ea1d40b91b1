"""The switchboard: one ASGI application that hands each request to the part that serves its path.

The data plane is plain ASGI beside Django, not behind it: no Django handler, middleware or thread is on the path of
a model request. The gateway is imported when the server starts, so that a process which only serves the panel
never loads it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

from config import metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# The first segment of a path decides.
GATEWAY_SEGMENTS = frozenset({
    "v1", "v1beta", "v1alpha", "upload", "responses", "livez", "readyz",
    "agent.v1.AgentService", "aiserver.v1.BidiService",
})  # fmt: skip
# Beside those segments: what clients probe before their first request, and where they go when the base URL lacks /v1.
GATEWAY_PATHS = frozenset({
    "/api/hello", "/auth/exchange_user_api_key", "/backend-api/codex/responses/compact",
    "/chat/completions", "/messages",
})  # fmt: skip
POLICY_VIOLATION = 1008

_django = get_asgi_application()


@cache
def gateway() -> App:
    """The data plane's application, loaded on first use."""
    app: App = import_module("gateway.asgi").app
    return app


def for_gateway(method: str, path: str) -> bool:
    """Whether the data plane serves this. ``HEAD /`` is a client's reachability probe, ``GET /`` is the panel."""
    if path == "/":
        return method == "HEAD"
    return path[1:].partition("/")[0] in GATEWAY_SEGMENTS or path in GATEWAY_PATHS


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    match scope["type"]:
        case "http":
            path: str = scope["path"]
            if for_gateway(scope["method"], path):
                await gateway()(scope, receive, send)
            elif path == "/metrics":
                await metrics.serve(scope, receive, send)
            else:
                await _django(dict(scope), receive, send)
        case "lifespan":
            await gateway()(scope, receive, send)
        case "websocket":
            if for_gateway("GET", scope["path"]):
                await gateway()(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        case kind:
            raise ValueError(f"no application for {kind}")
