"""``GET /metrics``: what all processes of this installation counted, for Prometheus, behind a bearer token."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector


async def serve(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """The ASGI application of the one path. Without a configured token nobody may read."""
    if scope["method"] not in ("GET", "HEAD"):
        await _answer(send, 405, b"GET only\n", (b"allow", b"GET, HEAD"))
    elif not allowed(scope["headers"]):
        await _answer(send, 401, b"a bearer token is needed\n", (b"www-authenticate", b"Bearer"))
    else:
        # Reading the files of every process may take a while: not on the event loop.
        body = await asyncio.to_thread(exposition)
        await _answer(send, 200, b"" if scope["method"] == "HEAD" else body)


def allowed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the request carries the metrics token."""
    token = settings.POOLGATE_METRICS_TOKEN.encode()
    given = b"".join(value for name, value in headers if name == b"authorization")
    scheme, _, credential = given.partition(b" ")
    return bool(token) and scheme.lower() == b"bearer" and hmac.compare_digest(credential.strip(), token)


def exposition() -> bytes:
    """All metrics in the text format: summed over processes when they share a directory, else this process's."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


async def _answer(
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]], status: int, body: bytes, *extra: tuple[bytes, bytes]
) -> None:
    kind = CONTENT_TYPE_LATEST.encode() if status == 200 else b"text/plain; charset=utf-8"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
