from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from config import connection
from config.connection import Connection

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEADERS: list[tuple[bytes, bytes]] = []


async def hello(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    HEADERS[:] = scope["headers"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    config = uvicorn.Config(hello, log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    yield reader, writer
    writer.close()
    server.close()
    await server.wait_closed()


async def read_answer(streams: Streams) -> bytes:
    return await asyncio.wait_for(streams[0].readuntil(b"hi"), 5)


async def test_requests_with_heads_within_the_limit_are_served_one_after_the_other(streams: Streams) -> None:
    for _ in range(3):
        streams[1].write(b"GET / HTTP/1.1\r\nx-big: " + b"a" * 50_000 + b"\r\n\r\n")
        assert (await read_answer(streams)).startswith(b"HTTP/1.1 200")


async def test_a_head_without_end_is_refused(streams: Streams) -> None:
    streams[1].write(b"GET / HTTP/1.1\r\nx-big: ")
    for _ in range(7):
        streams[1].write(b"a" * 10_000)
        await asyncio.sleep(0.005)
    answer = await asyncio.wait_for(streams[0].read(), 5)
    assert answer == connection.TOO_LARGE


async def test_a_body_is_no_head(streams: Streams) -> None:
    streams[1].write(b"POST / HTTP/1.1\r\ncontent-length: 200000\r\n\r\n")
    for _ in range(20):
        streams[1].write(b"a" * 10_000)
        await asyncio.sleep(0.001)
    assert (await read_answer(streams)).startswith(b"HTTP/1.1 200")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)


async def test_a_connection_that_says_nothing_is_closed(impatient: None, streams: Streams) -> None:
    assert await asyncio.wait_for(streams[0].read(), 5) == b""


async def test_a_head_that_only_trickles_in_is_not_waited_for(impatient: None, streams: Streams) -> None:
    for _ in range(2):  # the second request of a connection is no exception
        streams[1].write(b"GET / HTTP/1.1\r\n")
        await asyncio.sleep(0.05)
        streams[1].write(b"\r\n")
        await read_answer(streams)
    streams[1].write(b"GET / HTTP/1.1\r\n")
    ended = asyncio.ensure_future(streams[0].read())
    for _ in range(20):
        await asyncio.sleep(0.05)
        if ended.done():
            break
        streams[1].write(b"x: y\r\n")
    assert ended.done()
    await asyncio.wait([ended])


async def test_an_answer_may_take_longer_than_its_head(impatient: None, streams: Streams) -> None:
    streams[1].write(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\na")
    await asyncio.sleep(0.4)
    streams[1].write(b"a")
    assert (await read_answer(streams)).startswith(b"HTTP/1.1 200")


async def test_who_sends_empty_lines_instead_of_a_request_is_not_waited_for(impatient: None, streams: Streams) -> None:
    streams[1].write(b"GET / HTTP/1.1\r\n\r\n")
    await read_answer(streams)
    ended = asyncio.ensure_future(streams[0].read())
    for _ in range(20):
        streams[1].write(b"\r\n")
        await asyncio.sleep(0.05)
        if ended.done():
            break
    assert ended.done()
    await asyncio.wait([ended])


CHUNKED = b"POST / HTTP/1.1\r\nauthorization: Bearer mine\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"


async def test_trailers_of_a_body_are_no_headers_of_the_request(streams: Streams) -> None:
    streams[1].write(CHUNKED + b"authorization: Bearer other\r\nx-new: 1\r\n\r\n")
    await read_answer(streams)
    assert HEADERS == [(b"authorization", b"Bearer mine"), (b"transfer-encoding", b"chunked")]


async def test_trailers_without_end_are_not_waited_for(streams: Streams) -> None:
    streams[1].write(CHUNKED + b"x-big: ")
    ended = asyncio.ensure_future(streams[0].read())
    for _ in range(20):
        await asyncio.sleep(0.005)
        if ended.done():
            break
        streams[1].write(b"a" * 10_000)
    assert ended.done()
    await asyncio.wait([ended])
