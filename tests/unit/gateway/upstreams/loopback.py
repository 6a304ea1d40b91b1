"""A server on a loopback socket that knows what is open, and does to each connection what a test tells it to."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]


async def read_request(reader: StreamReader) -> tuple[bytes, bytes]:
    """Head and body of a request; empty at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b"", b""
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    return head, await reader.readexactly(size)


class Server:
    """``handler`` answers each connection. ``connections`` counts all, ``open`` those whose client is still there."""

    def __init__(self, handler: Handler) -> None:
        self.connections = 0
        self._handler = handler
        self._ends: list[tuple[StreamReader, StreamWriter]] = []

    @property
    def open(self) -> int:
        return sum(not reader.at_eof() and not writer.transport.is_closing() for reader, writer in self._ends)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        self._ends.append((reader, writer))
        try:
            await self._handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def clients_left(self, at_most: int = 0, within: float = 1.0) -> None:
        """Waits until no more than so many clients are connected; raises ``TimeoutError``."""
        async with asyncio.timeout(within):
            while self.open > at_most:  # noqa: ASYNC110  # sockets tell nobody when they close
                await asyncio.sleep(0.005)

    def abort(self) -> None:
        for _, writer in self._ends:
            writer.transport.abort()


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, int]]:
    server = Server(handler)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server, listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        server.abort()
        await asyncio.sleep(0)
