"""The door: the only way from the data plane to the network.

A small HTTP/1.1 client: ``asyncio.Protocol`` and httptools' parser, for what an upstream needs and nothing else:
requests with whole bodies, answers that stream, kept-alive connections per origin and proxy.
``docs/adr/0006-http-door.md`` tells why it is no library (cost per call and per chunk). Redirects, cookies, proxy
variables and content codings do not exist here.
An answer belongs to whoever opened it: ``close`` drops the connection at once unless the answer was read to its end.

Every error of the socket, TLS and the parser leaves as a ``Fault`` (``as_fault``).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import httptools

from core.outbound import Destinations, Refused
from gateway.upstreams.faults import CalledOff, as_fault
from gateway.upstreams.tunnel import Origin, connect, parse_origin
from ir.errors import Fault, Reason, Stage

HIGH_WATER = 256 * 1024  # unread bytes of one answer at which reading from its socket pauses
HEAD_LIMIT = 64 * 1024
IDLE_SECONDS = 30.0
DRAIN_SECONDS = 1.0
MAX_IDLE = 256  # connections kept for one origin

_ILLEGAL = re.compile(r"[\r\n\0]")


class Answer:
    """The answer to one call: ``status`` and ``headers`` (lower-case names) are there, the body is read."""

    __slots__ = ("_connection", "_door", "headers", "status")

    def __init__(self, connection: _Connection, door: Door) -> None:
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        self._connection: _Connection | None = connection
        self._door = door

    async def read(self) -> bytes:
        """Everything that has come since the last read, waiting for the first byte; empty at the end."""
        connection = self._connection
        if connection is None:
            return b""
        try:
            data = await connection.read()
        except asyncio.CancelledError:
            self.close()
            raise
        except Exception as error:
            if self._connection is None:  # closed meanwhile
                return b""
            self.close()
            raise as_fault(error, Stage.CONTENT) from None
        if not data and self._connection is not None:
            self._connection = None
            self._door.keep(connection)
        return data

    async def read_all(self, limit: int) -> bytes:
        """The whole body, cut off after ``limit`` bytes (then the connection is dropped)."""
        pieces: list[bytes] = []
        size = 0
        while data := await self.read():
            pieces.append(data)
            size += len(data)
            if size > limit:
                self.close()
                break
        return b"".join(pieces)[:limit]

    @property
    def pending(self) -> bool:
        """Whether a read would give something at once."""
        return self._connection is not None and self._connection.pending

    def call_off(self) -> None:
        """A waiting read raises ``CalledOff``; the answer stays as it is."""
        if self._connection is not None:
            self._connection.wake(CalledOff())

    def close(self) -> None:
        """Drops the connection unless the body was read to its end; a waiting read then gives the end. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def release(self) -> None:
        """Nobody needs the rest of the body: the connection is kept if the rest comes soon, else dropped."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drain(self._door.keep)


class Door:
    """A pool of connections; one a process. ``tls`` replaces the system's trust in tests."""

    def __init__(self, allowed: Destinations, *, tls: ssl.SSLContext | None = None) -> None:
        self._allowed = allowed
        self._tls = tls or ssl.create_default_context()
        self._tls.set_alpn_protocols(["http/1.1"])
        self._idle: dict[Origin, list[_Connection]] = {}
        self._origins: dict[tuple[str, str], Origin] = {}

    def origin(self, base_url: str, proxy_url: str = "") -> Origin:
        """Raises ``Fault`` for an address that the door does not lead to."""
        key = base_url, proxy_url
        origin = self._origins.get(key)
        if origin is None:
            try:
                origin = parse_origin(base_url, proxy_url, reach=self._allowed.admit(base_url))
            except (Refused, ValueError):
                raise Fault(Reason.INTERNAL, Stage.CONNECT, upstream_code="address_refused") from None
            self._origins[key] = origin
        return origin

    def post(
        self, origin: Origin, path: str, head: bytes, body: bytes, *, connect_timeout: float, repeatable: bool = False
    ) -> Coroutine[Any, Any, Answer]:
        """``call`` with POST."""
        return self.call("POST", origin, path, head, body, connect_timeout=connect_timeout, repeatable=repeatable)

    async def call(
        self,
        method: str,
        origin: Origin,
        path: str,
        head: bytes,
        body: bytes = b"",
        *,
        connect_timeout: float,
        repeatable: bool = False,
    ) -> Answer:
        """Sends a request and waits for the answer's headers; the wait is the caller's to bound.

        ``head`` is made by ``header_lines``; ``connect_timeout`` in seconds. A kept connection may have been closed
        by the other side just now: then a ``repeatable`` call is made again on a new one.
        """
        start = f"{method} {path} HTTP/1.1\r\nhost: {origin.authority}\r\ncontent-length: {len(body)}\r\n".encode()
        connection = self._take(origin)
        reused = connection is not None
        while True:
            if connection is None:
                connection = await self._connect(origin, connect_timeout)
            try:
                connection.send(start + head + b"\r\n", body)
                await connection.wait_for_head()
                return Answer(connection, self)
            except asyncio.CancelledError:
                connection.abort()
                raise
            except Exception as error:
                untouched = connection.untouched
                connection.abort()
                connection = None
                if not (reused and repeatable and untouched):
                    raise as_fault(error, Stage.HEADERS, proxied=bool(origin.proxy_url)) from None
                reused = False

    async def close(self) -> None:
        """Drops every idle connection, and gives the loop the turn in which it closes the sockets."""
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)

    def keep(self, connection: _Connection) -> None:
        """Takes back a connection whose answer was read to its end."""
        idle = self._idle.setdefault(connection.origin, [])
        if connection.reusable and len(idle) < MAX_IDLE:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        else:
            connection.abort()

    def _take(self, origin: Origin) -> _Connection | None:
        """The connection used last, as it is the least likely to be stale; the old ones go when they are met."""
        idle = self._idle.get(origin)
        if not idle:
            return None
        deadline = asyncio.get_running_loop().time() - IDLE_SECONDS
        while idle:
            connection = idle.pop()
            if connection.idle_since < deadline:
                for old in (connection, *idle):
                    old.abort()
                idle.clear()
            elif connection.reusable:
                connection.begin()
                return connection
            else:
                connection.abort()
        return None

    async def _connect(self, origin: Origin, limit: float) -> _Connection:
        connection = _Connection(origin)
        try:
            async with asyncio.timeout(limit):
                await connect(connection, origin, self._tls)
        except asyncio.CancelledError:
            connection.abort()
            raise
        except Exception as error:
            connection.abort()
            raise as_fault(error, Stage.CONNECT, proxied=bool(origin.proxy_url)) from None
        return connection


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Encoded header lines for ``Door.post``. Raises ``ValueError`` for a value that would break out of its line."""
    for name, value in headers.items():
        if _ILLEGAL.search(name) or _ILLEGAL.search(value):
            raise ValueError(f"the header {name!r} holds a line end")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


class _Connection(asyncio.Protocol):
    """One socket and the answer that is coming in on it. At most one reader waits at a time."""

    __slots__ = (
        "_complete", "_drained", "_error", "_head_done", "_head_size", "_keep_alive", "_parser", "_paused", "_pieces",
        "_size", "_transport", "_until_close", "_waiter", "headers", "idle_since", "origin", "status",
    )  # fmt: skip

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self.begin()

    def begin(self) -> None:
        """Ready for the next answer."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._head_done = self._complete = self._until_close = self._paused = False
        self._keep_alive = True
        self._drained: Callable[[_Connection], None] | None = None

    @property
    def reusable(self) -> bool:
        return self._complete and self._keep_alive and self._error is None and not self._pieces

    @property
    def untouched(self) -> bool:
        """Nothing of an answer has come."""
        return not self._head_size and not self.status

    def send(self, head: bytes, body: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        transport.write(head + body if len(body) < HEAD_LIMIT else head)
        if len(body) >= HEAD_LIMIT:
            transport.write(body)

    async def wait_for_head(self) -> None:
        while not self._head_done:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def read(self) -> bytes:
        while not self._pieces:
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces = []
        self._size = 0
        self._resume()
        return data

    @property
    def pending(self) -> bool:
        return bool(self._pieces) or self._complete or self._error is not None

    def drain(self, keep: Callable[[_Connection], None]) -> None:
        """Throws away what is left of the answer, for a short while."""
        self._pieces.clear()
        if self._complete or self._error is not None:
            keep(self)
            return
        self._drained = keep
        self._resume()
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._stop_draining)

    def _stop_draining(self) -> None:
        if self._drained is not None:
            self._drained = None
            self.abort()

    def abort(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def wake(self, error: BaseException | None = None) -> None:
        """Whoever waits goes on, or meets ``error``."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self._complete:  # nobody asked for this
            self._fail(ConnectionResetError("bytes after the answer"))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(error)
        if self._drained is not None:
            self._drain_on()
        else:
            self.wake()

    def _drain_on(self) -> None:
        self._pieces.clear()
        self._size = 0
        if self._complete and self._drained is not None:
            keep, self._drained = self._drained, None
            keep(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._head_done and self._until_close and not self._complete and error is None:
            self._complete = True
        self._keep_alive = False
        if self._error is None:
            self._error = error or ConnectionResetError("the connection was closed")
        self.wake()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._keep_alive = False
        self.abort()

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > HEAD_LIMIT:
            raise ValueError("the head of the answer is too large")
        if not self._head_done:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer: the real one follows
            self.headers.clear()
            return
        self.status = status
        self._head_done = True
        self._keep_alive = self._parser.should_keep_alive()
        self._until_close = "content-length" not in self.headers and "transfer-encoding" not in self.headers

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._head_done:
            self._complete = True
