"""Small proxies on loopback, as strict as a test needs: they lead to where they are asked to."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Way:
    """A proxy that listens; ``asked`` are the hosts and ports it led to, ``signed_in`` what it was told."""

    def __init__(self, scheme: str, *, named: bool = False) -> None:
        self.scheme = scheme
        self.named = named
        self.asked: list[str] = []
        self.signed_in: list[bytes] = []
        self.url = ""

    async def handle(self, reader: Reader, writer: Writer) -> None:
        await (self._socks(reader, writer) if self.scheme == "socks5" else self._http(reader, writer))

    async def _http(self, reader: Reader, writer: Writer) -> None:
        """Plain requests come with a whole address, as RFC 9112 has it."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].split(b" ")
        lines = [line for line in head.split(b"\r\n")[1:] if line]
        self.signed_in += [line for line in lines if line.lower().startswith(b"proxy-authorization")]
        parts = urlsplit(target.decode())
        self.asked.append(parts.netloc)
        inner, outer = await asyncio.open_connection(parts.hostname, parts.port)
        kept = [line for line in lines if not line.lower().startswith((b"proxy-", b"connection"))]
        path = (parts.path or "/").encode()
        outer.write(b"\r\n".join([method + b" " + path + b" HTTP/1.1", *kept, b"connection: close", b"", b""]))
        await _relay(reader, writer, inner, outer)

    async def _socks(self, reader: Reader, writer: Writer) -> None:
        """RFC 1928 and 1929."""
        count = (await reader.readexactly(2))[1]
        await reader.readexactly(count)
        writer.write(b"\x05\x02" if self.named else b"\x05\x00")
        if self.named:
            user = await reader.readexactly((await reader.readexactly(2))[1])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            self.signed_in.append(user + b":" + password)
            writer.write(b"\x01\x00")
        kind = (await reader.readexactly(4))[3]
        size = (await reader.readexactly(1))[0] if kind == 3 else 4
        raw = await reader.readexactly(size)
        host = raw.decode() if kind == 3 else ".".join(map(str, raw))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"{host}:{port}")
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        await _relay(reader, writer, inner, outer)


@asynccontextmanager
async def listening(handle: Callable[[Reader, Writer], Awaitable[None]]) -> AsyncIterator[int]:
    """A server on a free port; whoever still talks to it at the end is cut off."""
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: Reader, writer: Writer) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await handle(reader, writer)
                await writer.drain()
        finally:
            writer.close()

    def accept(reader: Reader, writer: Writer) -> None:
        task = asyncio.get_running_loop().create_task(talk(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    for task in list(talks):
        task.cancel()
    await asyncio.gather(*talks, return_exceptions=True)
    await asyncio.sleep(0)  # what was closed goes


@asynccontextmanager
async def serving(way: Way) -> AsyncIterator[Way]:
    async with listening(way.handle) as port:
        way.url = f"{way.scheme}://127.0.0.1:{port}"
        yield way


@asynccontextmanager
async def answering(status: bytes = b"404 Not Found", kind: bytes = b"application/json") -> AsyncIterator[str]:
    """An upstream that answers everything alike; gives its base URL."""

    async def handle(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 " + status + b"\r\ncontent-type: " + kind
        writer.write(head + b"\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")

    async with listening(handle) as port:
        yield f"http://127.0.0.1:{port}"


async def _relay(reader: Reader, writer: Writer, inner: Reader, outer: Writer) -> None:
    """Until the upstream has said everything."""
    asking = asyncio.ensure_future(_pump(reader, outer))
    try:
        await _pump(inner, writer)
    finally:
        asking.cancel()
        outer.transport.abort()


async def _pump(reader: Reader, writer: Writer) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
