"""One HTTP request as the data plane sees it, over plain ASGI: a body that is bounded while it is read, a head that is
sent once, and a word when the caller has gone.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from gateway.contracts import ErrorReply
from ir.errors import ApiError, Kind, invalid

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = (b"content-type", b"application/json")
SSE = (b"content-type", b"text/event-stream; charset=utf-8")
WHOLE_BODY = 10
"""A body that only trickles in has this many times the wait for one piece."""

NO_BUFFERING = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


class CallerGone(Exception):
    """The caller closed the connection; nobody is left to be answered."""


class Exchange:
    """``headers`` have lower-case names, the last value wins. ``started`` tells whether the status line is spent,
    ``ended`` whether the last byte is on its way.

    ``endpoint`` is the path as a record may show it; ``query`` may hold a key, so no record and no log may.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.endpoint = self.path
        self.query: bytes = scope.get("query_string", b"")
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.client_ip: str = (scope.get("client") or ("",))[0]
        self.request_id = request_id
        self.started = self.ended = False
        self.sent_bytes = 0
        self.extra: list[tuple[bytes, bytes]] = []
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    async def read_body(self, limit: int, timeout: float) -> bytes:
        """The whole body, decompressed. Raises 413 over ``limit`` bytes once decompressed, 408 if no piece came for
        ``timeout`` seconds or the whole took ``WHOLE_BODY`` times as long, 415 for an unknown coding, 400 for a broken
        one, ``CallerGone`` if it stopped half way."""
        length = self.headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > limit:
            raise _too_large(limit)
        decoder = _decoder(self.header(b"content-encoding").strip().lower(), limit)
        pieces: list[bytes] = []
        total = 0
        clock = asyncio.get_running_loop().time
        ends = clock() + timeout * WHOLE_BODY
        while True:
            message = await self._next_piece(min(timeout, ends - clock()))
            piece = message.get("body", b"")
            if piece:
                piece = decoder.take(piece)
                total += len(piece)
                pieces.append(piece)
            if total > limit:
                raise _too_large(limit)
            if not message.get("more_body"):
                decoder.end()
                return b"".join(pieces)

    async def _next_piece(self, timeout: float) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout(timeout):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(
                Kind.REQUEST_TIMEOUT, "request_timeout", "The request body did not arrive in time."
            ) from None
        if message["type"] == "http.disconnect":
            raise CallerGone
        return message

    async def gone(self) -> None:
        """Returns when the caller has closed the connection. To be awaited only after the body was read."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        # OpenAI's clients read the one name, Anthropic's the other.
        request_id = self.request_id.encode()
        names = ((b"x-request-id", request_id), (b"request-id", request_id))
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, *self.extra, *names],
            }
        )

    async def write(self, data: bytes, more: bool = True) -> None:
        self.sent_bytes += len(data)
        self.ended = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def respond(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """A whole JSON answer."""
        length = (b"content-length", b"%d" % len(body))
        await self.start(status, [JSON, length, *(headers or [])])
        await self.write(b"" if self.method == "HEAD" else body, more=False)

    async def respond_error(self, reply: ErrorReply) -> None:
        await self.respond(reply.status, reply.body, [(k.encode(), v.encode()) for k, v in reply.headers.items()])


def _too_large(limit: int) -> ApiError:
    return ApiError(Kind.TOO_LARGE, "request_too_large", f"The request body exceeds the limit of {limit} bytes.")


class _Identity:
    def take(self, piece: bytes) -> bytes:
        return piece

    def end(self) -> None:
        pass


class _Inflater:
    """Inflates piece by piece and never past ``limit``: a bomb costs no more memory than an honest body."""

    def __init__(self, coding: str, limit: int) -> None:
        self._coding = coding
        self._limit = limit
        self._left = limit
        self._window = zlib.MAX_WBITS | (0 if coding == "deflate" else 16)
        self._inflater = zlib.decompressobj(self._window)

    def take(self, piece: bytes) -> bytes:
        data = b""
        while piece:
            if self._inflater.eof:  # gzip data may be several members in a row (RFC 1952, section 2.2)
                self._inflater = zlib.decompressobj(self._window)
            try:
                data += self._inflater.decompress(piece, self._left + 1)
            except zlib.error:
                raise self._broken() from None
            if self._inflater.unconsumed_tail or len(data) > self._left:
                raise _too_large(self._limit)
            piece = self._inflater.unused_data
        self._left -= len(data)
        return data

    def end(self) -> None:
        """Raises unless the compressed data was whole."""
        if not self._inflater.eof:
            raise self._broken()

    def _broken(self) -> ApiError:
        return invalid("invalid_content_encoding", f"The body is not valid {self._coding} data.")


def _decoder(coding: str, limit: int) -> _Identity | _Inflater:
    if coding in ("", "identity"):
        return _Identity()
    if coding in ("gzip", "x-gzip", "deflate"):
        return _Inflater(coding, limit)
    raise ApiError(
        Kind.UNSUPPORTED_MEDIA,
        "unsupported_content_encoding",
        "The content encoding must be gzip, deflate or identity.",
    )
