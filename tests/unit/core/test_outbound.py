from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from core.outbound import AllowList, Broken, Outbound, Refused

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server on loopback that gives every connection to ``handler``; yields its address."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def answering(answer: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    return handle


def local(timeout: float = 5.0) -> Outbound:
    return Outbound(timeout=timeout, allowed=AllowList(["127.0.0.1"]))


@pytest.mark.parametrize(
    "url",
    ["https://api2.cursor.sh", "https://api2.cursor.sh:443/auth", "https://API.cursor.com/v1", "https://cursor.com./x"],
)
def test_the_official_hosts_may_be_called(url: str) -> None:
    AllowList([]).check(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://api2.cursor.sh",
        "https://api2.cursor.sh:8443",
        "https://evil.example",
        "https://api2.cursor.sh.evil.example",
        "https://api2.cursor.sh@evil.example/",
        "https://user:pw@api2.cursor.sh/",
        "http://127.0.0.1:9000",
        "http://[::1]:9000",
        "http://localhost",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "https://",
        "https://[",
        "https://api2.cursor.sh:port",
        "",
    ],
)
def test_everything_else_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        AllowList([]).check(url)


def test_a_named_host_and_port_allows_that_port_only() -> None:
    named = AllowList(["127.0.0.1:9000", "Gateway.internal"])
    named.check("http://127.0.0.1:9000/x")
    named.check("http://gateway.internal:1234")
    with pytest.raises(Refused, match=r"127.0.0.1 is not allowed. Name it in POOLGATE_UPSTREAM_HOSTS"):
        named.check("http://127.0.0.1:9001/x")


async def test_a_whole_answer_comes_back() -> None:
    answer = b"HTTP/1.1 418 Teapot\r\nX-Kind: pot\r\ncontent-length: 2\r\n\r\nhi"
    async with serving(answering(answer)) as url, local() as outbound:
        reply = await outbound.call("POST", f"{url}/brew", content=b"{}")
    assert (reply.status, reply.headers["x-kind"], reply.body) == (418, "pot", b"hi")


async def test_a_reply_does_not_show_its_body() -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret")) as url, local() as outbound:
        assert "secret" not in repr(await outbound.call("GET", url))


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"
    async with serving(answering(answer)) as url, local() as outbound:
        assert (await outbound.call("GET", url)).status == 302


async def test_a_refused_host_is_never_connected_to() -> None:
    connections = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(reader)

    async with serving(handle) as url, Outbound(allowed=AllowList([])) as outbound:
        with pytest.raises(Refused):
            await outbound.call("GET", url)
    assert connections == []


async def test_the_proxy_variables_are_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with serving(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")) as url, local() as outbound:
        assert (await outbound.call("GET", url)).status == 200


async def test_an_oversize_body_is_cut_off() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 1000)
            try:
                await writer.drain()
            except ConnectionError:
                return

    async with serving(endless) as url, local() as outbound:
        with pytest.raises(Broken, match="too_large"):
            await outbound.call("GET", url, max_body=10_000)


async def test_a_trickle_ends_at_the_time_limit() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100):
            writer.write(b"x")
            await asyncio.sleep(0.05)
            if writer.is_closing():
                return

    async with serving(trickle) as url, local(timeout=0.3) as outbound:
        with pytest.raises(Broken, match="timeout"):
            await outbound.call("GET", url)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(b"", "broken"), (b"nonsense\r\n\r\n", "broken"), (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "broken")],
)
async def test_half_an_answer_is_none(answer: bytes, kind: str) -> None:
    async with serving(answering(answer)) as url, local() as outbound:
        with pytest.raises(Broken, match=kind):
            await outbound.call("GET", url)


async def test_nobody_listening_is_a_connection_failure() -> None:
    async with serving(answering(b"")) as url:
        pass
    async with local() as outbound:
        with pytest.raises(Broken, match="connect"):
            await outbound.call("GET", url)
