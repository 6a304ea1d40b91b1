from __future__ import annotations

import asyncio
import base64
import datetime as dt
import errno
import ssl
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httptools
import httptools.parser.errors
import pytest

from accounts.failures import is_tentative
from core.outbound import AllowList, Reach
from gateway.upstreams import http, tunnel
from gateway.upstreams.faults import as_fault
from gateway.upstreams.http import Answer, Door, header_lines
from gateway.upstreams.tunnel import Origin, ProxyError, ResolveError, parse_origin
from ir.errors import Culprit, Fault, Reason, Stage
from tests.unit.gateway.upstreams.loopback import Handler, read_request, serving

HEAD = header_lines({"authorization": "Bearer t"})
ANYWHERE = Reach(public=False)
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


@asynccontextmanager
async def opened(port: int, **options: Any) -> AsyncIterator[tuple[Door, Origin]]:
    door = Door(AllowList([f"127.0.0.1:{port}"]), **options)
    try:
        yield door, door.origin(f"http://127.0.0.1:{port}")
    finally:
        await door.close()


async def post(door: Door, origin: Origin, body: bytes = b"", *, limit: float = 2, **more: Any) -> Answer:
    async with asyncio.timeout(10):
        return await door.post(origin, "/x", HEAD, body, connect_timeout=limit, **more)


async def echo(reader: Reader, writer: Writer) -> None:
    while True:
        head, body = await read_request(reader)
        if not head:
            return
        reply = head + body
        writer.write(OK + b"content-length: %d\r\n\r\n" % len(reply) + reply)


async def test_a_request_says_what_it_must_and_nothing_else() -> None:
    async with serving(echo) as (_, port), opened(port) as (door, origin):
        answer = await post(door, origin, b"body")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain")
        expected = (
            f"POST /x HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 4\r\nauthorization: Bearer t\r\n\r\nbody"
        )
        assert await answer.read_all(10_000) == expected.encode()
        assert await answer.read() == b""


async def test_a_connection_is_used_again_after_its_answer_was_read() -> None:
    async with serving(echo) as (server, port), opened(port) as (door, origin):
        for _ in range(5):
            await (await post(door, origin)).read_all(10_000)
        assert server.connections == 1
        answers = [await post(door, origin) for _ in range(3)]
        assert server.connections == 3
        for answer in answers:
            await answer.read_all(10_000)
    await server.clients_left()


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000
    async with serving(echo) as (_, port), opened(port) as (door, origin):
        assert (await (await post(door, origin, body)).read_all(10**7)).endswith(body)


async def test_a_body_over_the_limit_is_cut_and_its_connection_dropped() -> None:
    async with serving(echo) as (server, port), opened(port) as (door, origin):
        assert len(await (await post(door, origin, b"x" * 5000)).read_all(100)) == 100
        await server.clients_left()


async def streaming(reader: Reader, writer: Writer) -> None:
    """Chunks for ever, one every 10 ms."""
    await read_request(reader)
    writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"5\r\nhello\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_the_first_chunk_is_there_before_the_second_is_sent() -> None:
    gate = asyncio.Event()

    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await gate.wait()
        writer.write(b"1\r\nb\r\n0\r\n\r\n")

    async with serving(handler) as (_, port), opened(port) as (door, origin):
        answer = await post(door, origin)
        assert await asyncio.wait_for(answer.read(), 1) == b"a"
        gate.set()
        assert [await answer.read(), await answer.read()] == [b"b", b""]


async def test_all_chunks_that_came_together_are_read_together() -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 100 + b"0\r\n\r\n")
        await read_request(reader)

    async with serving(handler) as (_, port), opened(port) as (door, origin):
        answer = await post(door, origin)
        assert [await answer.read(), await answer.read()] == [b"a" * 100, b""]


async def test_closing_an_answer_closes_its_socket_at_once() -> None:
    async with serving(streaming) as (server, port), opened(port) as (door, origin):
        answer = await post(door, origin)
        await answer.read()
        answer.close()
        answer.close()
        await server.clients_left()
        assert await answer.read() == b""


@pytest.mark.parametrize("handler", [streaming, echo])
async def test_cancelling_a_read_or_a_wait_closes_the_socket(handler: Handler) -> None:
    async def silent(reader: Reader, writer: Writer) -> None:
        if handler is streaming:
            writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        await reader.read()
        await reader.read()

    async with serving(silent) as (server, port), opened(port) as (door, origin):

        async def use() -> None:
            await (await post(door, origin)).read()

        task = asyncio.create_task(use())
        await asyncio.sleep(0.05)
        assert server.open == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.clients_left()
        assert server.open == 0


async def test_a_waiting_read_ends_when_the_answer_is_closed_elsewhere() -> None:
    async def silent(reader: Reader, writer: Writer) -> None:
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        await reader.read()

    async with serving(silent) as (_, port), opened(port) as (door, origin):
        answer = await post(door, origin)
        read = asyncio.create_task(answer.read())
        await asyncio.sleep(0.01)
        answer.close()
        assert await asyncio.wait_for(read, 1) == b""


async def test_a_reader_that_does_not_read_stops_the_sender() -> None:
    sent = 0

    async def flood(reader: Reader, writer: Writer) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        while sent < 200_000_000:
            writer.write(chunk)
            await writer.drain()
            sent += 65536

    async with serving(flood) as (_, port), opened(port) as (door, origin):
        answer = await post(door, origin)
        await asyncio.sleep(0.3)
        held = sent
        await asyncio.sleep(0.2)
        assert sent == held < 50_000_000
        for _ in range(20):
            assert await answer.read()
        await asyncio.sleep(0.1)
        assert sent > held
        answer.close()


@pytest.mark.parametrize("rest", [b"", b"0\r\n\r\n"])
async def test_a_released_answer_keeps_its_connection_when_its_end_comes_soon(rest: bytes) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        for _ in range(2):
            await read_request(reader)
            writer.write(OK + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n")
            await asyncio.sleep(0.05)
            writer.write(b"1\r\nb\r\n" + rest)
        await reader.read()

    async with serving(handler) as (server, port), opened(port) as (door, origin):
        answer = await post(door, origin)
        assert await answer.read() == b"a"
        answer.release()
        await asyncio.sleep(0.2)
        if rest:
            assert await (await post(door, origin)).read() == b"a"
            assert server.connections == 1
        else:
            await server.clients_left(within=2)


async def test_a_stale_connection_is_replaced_for_a_call_that_may_be_repeated() -> None:
    async def once(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(OK + b"content-length: 0\r\n\r\n")
        await read_request(reader)  # the second request of a connection is never answered

    async with serving(once) as (server, port), opened(port) as (door, origin):
        await (await post(door, origin)).read()
        answer = await post(door, origin, repeatable=True)
        assert (answer.status, server.connections) == (200, 2)
        await answer.read()
        with pytest.raises(Fault) as caught:
            await post(door, origin)
        assert (caught.value.reason, caught.value.stage) == (Reason.TRANSIENT, Stage.HEADERS)


async def test_an_idle_connection_that_is_too_old_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(echo) as (server, port), opened(port) as (door, origin):
        await (await post(door, origin)).read_all(1000)
        monkeypatch.setattr(http, "IDLE_SECONDS", -1.0)
        await (await post(door, origin)).read_all(1000)
        assert server.connections == 2


@pytest.mark.parametrize(
    ("reply", "reason", "stage"),
    [
        (b"", Reason.TRANSIENT, Stage.HEADERS),
        (b"HTTP/1.1 200", Reason.TRANSIENT, Stage.HEADERS),
        (b"SSH-2.0-x\r\n", Reason.PROTOCOL, Stage.HEADERS),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", Reason.PROTOCOL, Stage.HEADERS),
        (OK + b"content-length: 10\r\n\r\nhalf", Reason.CUT, Stage.CONTENT),
        (OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhe", Reason.CUT, Stage.CONTENT),
        (OK + b"transfer-encoding: chunked\r\n\r\nnonsense", Reason.PROTOCOL, Stage.CONTENT),
    ],
)
async def test_broken_answers_are_faults(reply: bytes, reason: Reason, stage: Stage) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(reply)

    async def use(door: Door, origin: Origin) -> None:
        await (await post(door, origin)).read_all(1000)

    async with serving(handler) as (_, port), opened(port) as (door, origin):
        with pytest.raises(Fault) as caught:
            await use(door, origin)
        assert caught.value.reason is reason
        assert caught.value.stage in (stage, Stage.HEADERS)


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(OK + b"\r\nall of it")

    async with serving(handler) as (_, port), opened(port) as (door, origin):
        assert await (await post(door, origin)).read_all(1000) == b"all of it"


async def test_interim_answers_are_skipped_and_trailers_ignored() -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + OK)
        writer.write(b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nstatus: late\r\n\r\n")
        await reader.read()

    async with serving(handler) as (_, port), opened(port) as (door, origin):
        answer = await post(door, origin)
        assert (answer.status, "link" in answer.headers) == (200, False)
        assert await answer.read_all(100) == b"hi"
        assert "status" not in answer.headers


async def test_bytes_that_nobody_asked_for_spoil_a_kept_connection() -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        while (await read_request(reader))[0]:
            writer.write(OK + b"content-length: 0\r\n\r\n")
            await asyncio.sleep(0.02)
            writer.write(OK + b"content-length: 4\r\n\r\nevil")

    async with serving(handler) as (server, port), opened(port) as (door, origin):
        await (await post(door, origin)).read()
        await asyncio.sleep(0.05)
        answer = await post(door, origin)
        assert (await answer.read(), server.connections) == (b"", 2)


async def test_a_refused_connection_is_the_upstreams_fault() -> None:
    async with serving(echo) as (_, port):
        pass
    async with opened(port) as (door, origin):
        with pytest.raises(Fault) as caught:
            await post(door, origin)
        assert (caught.value.reason, caught.value.stage) == (Reason.TRANSIENT, Stage.CONNECT)


async def test_a_connection_that_is_not_made_in_time_is_given_up() -> None:
    async def silent(reader: Reader, writer: Writer) -> None:
        await reader.read()

    async with serving(silent) as (server, port), opened(port) as (door, _):
        origin = Origin("https", "127.0.0.1", port, reach=ANYWHERE)  # the handshake is never answered
        with pytest.raises(Fault) as caught:
            await post(door, origin, limit=0.1)
        assert (caught.value.reason, caught.value.stage) == (Reason.TIMEOUT, Stage.CONNECT)
        await server.clients_left()


async def test_cancelling_while_connecting_leaves_no_socket() -> None:
    async def silent(reader: Reader, writer: Writer) -> None:
        await reader.read()

    async with serving(silent) as (server, port), opened(port) as (door, _):
        task = asyncio.create_task(post(door, Origin("https", "127.0.0.1", port, reach=ANYWHERE)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.clients_left()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://api2.cursor.sh", "ftp://api2.cursor.sh", "https://evil.test", "https://", "x"]
)
def test_addresses_outside_the_list_are_refused(url: str) -> None:
    with pytest.raises(Fault) as caught:
        Door(AllowList(["127.0.0.1:2"])).origin(url)
    assert (caught.value.reason, caught.value.upstream_code) == (Reason.INTERNAL, "address_refused")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "192.168.1.1", "::1", "fd00::1"])
async def test_an_official_name_that_points_inwards_is_not_called(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(*args: object, **more: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("93.184.216.34", 443)), (2, 1, 6, "", (address, 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    door = Door(AllowList([]))
    with pytest.raises(Fault) as caught:
        await post(door, door.origin("https://api2.cursor.sh"))
    assert (caught.value.reason, caught.value.upstream_code) == (Reason.EGRESS, "ResolveError")


async def test_a_name_that_does_not_resolve_is_an_egress_fault() -> None:
    door = Door(AllowList(["nowhere.invalid"]))
    with pytest.raises(Fault) as caught:
        await post(door, door.origin("http://nowhere.invalid"))
    assert caught.value.reason is Reason.EGRESS


# TLS.


async def test_tls_is_checked_and_used(tmp_path: Any) -> None:
    certificate, trusting, foreign = make_tls(tmp_path)
    async with serving(echo, certificate) as (_, port):
        base_url = f"https://localhost:{port}"
        allowed = AllowList([f"localhost:{port}"])
        door = Door(allowed, tls=trusting)
        for _ in range(2):
            assert b"host: localhost" in await (await post(door, door.origin(base_url))).read_all(1000)
        await door.close()
        stranger = Door(allowed, tls=foreign)
        with pytest.raises(Fault) as caught:
            await post(stranger, stranger.origin(base_url))
        assert (caught.value.reason, caught.value.culprit) == (Reason.EGRESS, Culprit.EGRESS)


def make_tls(folder: Any) -> tuple[ssl.SSLContext, ssl.SSLContext, ssl.SSLContext]:
    """A server's context, a client's that trusts it, and one that does not."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, secret)
    return server, ssl.create_default_context(cafile=str(pem)), ssl.create_default_context()


# Proxies.


async def pump(reader: Reader, writer: Writer) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def relay(reader: Reader, writer: Writer, port: int) -> None:
    inner, outer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asyncio.gather(pump(reader, outer), pump(inner, writer))
    finally:
        outer.transport.abort()


def http_proxy(seen: list[bytes], status: bytes = b"200 OK") -> Handler:
    async def handler(reader: Reader, writer: Writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        writer.write(b"HTTP/1.1 " + status + b"\r\nvia: x\r\n\r\n")
        if status.startswith(b"200"):
            await relay(reader, writer, int(head.split(b" ")[1].rpartition(b":")[2]))

    return handler


def socks_proxy(seen: list[bytes], *, named: bool = False, code: int = 0) -> Handler:
    async def handler(reader: Reader, writer: Writer) -> None:
        seen.append(await reader.readexactly(3))
        writer.write(b"\x05\x02" if named else b"\x05\x00")
        if named:
            seen.append(await reader.readexactly(1 + 1 + 2 + 1 + 4))
            writer.write(b"\x01\x00")
        start = await reader.readexactly(5)
        host = await reader.readexactly(start[4])
        port = int.from_bytes(await reader.readexactly(2), "big")
        seen.append(host)
        writer.write(bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0]))
        if not code:
            await relay(reader, writer, port)

    return handler


@pytest.mark.parametrize("secure", [False, True])
async def test_an_http_proxy_gets_the_name_and_its_own_credentials_alone(secure: bool, tmp_path: Any) -> None:
    certificate, trusting, _ = make_tls(tmp_path)
    seen: list[bytes] = []
    async with serving(echo, certificate if secure else None) as (_, port), serving(http_proxy(seen)) as (proxy, at):
        door = Door(AllowList([f"localhost:{port}"]), tls=trusting)
        base_url = f"{'https' if secure else 'http'}://localhost:{port}"
        origin = door.origin(base_url, f"http://me:p%40ss@127.0.0.1:{at}")
        for _ in range(2):
            assert b"Bearer t" in await (await post(door, origin)).read_all(1000)
        await door.close()
    assert proxy.connections == 1
    pair = base64.b64encode(b"me:p@ss")
    target = f"localhost:{port}".encode()
    assert seen == [
        b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\nProxy-Authorization: Basic " + pair + b"\r\n\r\n"
    ]


async def test_a_proxy_may_itself_speak_tls(tmp_path: Any) -> None:
    certificate, trusting, _ = make_tls(tmp_path)
    async with serving(echo, certificate) as (_, port), serving(http_proxy([]), certificate) as (_, at):
        door = Door(AllowList([f"localhost:{port}"]), tls=trusting)
        origin = door.origin(f"https://localhost:{port}", f"https://localhost:{at}")
        assert b"Bearer t" in await (await post(door, origin)).read_all(1000)
        await door.close()


@pytest.mark.parametrize("named", [False, True])
async def test_a_socks_proxy_resolves_the_name(named: bool) -> None:
    seen: list[bytes] = []
    async with serving(echo) as (_, port), serving(socks_proxy(seen, named=named)) as (_, at):
        door = Door(AllowList([f"localhost:{port}"]))
        user = "me:pass@" if named else ""
        origin = door.origin(f"http://localhost:{port}", f"socks5://{user}127.0.0.1:{at}")
        assert b"Bearer t" in await (await post(door, origin)).read_all(1000)
        await door.close()
    assert seen == [b"\x05\x01\x02", b"\x01\x02me\x04pass", b"localhost"] if named else [b"\x05\x01\x00", b"localhost"]


@pytest.mark.parametrize(
    ("scheme", "handler"),
    [
        ("http", http_proxy([], b"407 Proxy Authentication Required")),
        ("http", http_proxy([], b"503 No")),
        ("socks5", socks_proxy([], code=5)),
    ],
)
async def test_a_proxy_that_refuses_is_an_egress_fault(scheme: str, handler: Handler) -> None:
    async with serving(handler) as (proxy, at):
        door = Door(AllowList(["localhost:9"]))
        with pytest.raises(Fault) as caught:
            await post(door, door.origin("http://localhost:9", f"{scheme}://127.0.0.1:{at}"))
        assert (caught.value.reason, caught.value.stage) == (Reason.EGRESS, Stage.CONNECT)
        await proxy.clients_left()


async def test_a_proxy_that_is_not_there_is_an_egress_fault() -> None:
    async with serving(echo) as (_, at):
        pass
    door = Door(AllowList(["localhost:9"]))
    with pytest.raises(Fault) as caught:
        await post(door, door.origin("http://localhost:9", f"http://127.0.0.1:{at}"))
    assert (caught.value.reason, caught.value.upstream_code) == (Reason.EGRESS, "ProxyError")


async def test_two_accounts_with_two_proxies_share_no_connection() -> None:
    async with (
        serving(echo) as (_, port),
        serving(http_proxy([])) as (one, at),
        serving(http_proxy([])) as (two, other),
    ):
        door = Door(AllowList([f"localhost:{port}"]))
        for proxy in (at, other, at):
            origin = door.origin(f"http://localhost:{port}", f"http://127.0.0.1:{proxy}")
            await (await post(door, origin)).read_all(1000)
        assert (one.connections, two.connections) == (1, 1)
        await door.close()


# Errors.


def subclasses(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(subclasses(child) for child in kind.__subclasses__()))


PARSER_ERRORS = [
    one
    for one in vars(httptools.parser.errors).values()
    if isinstance(one, type) and issubclass(one, httptools.HttpParserError)
]
OS_ERRORS = sorted(
    (one for one in subclasses(OSError) if one.__module__ in ("builtins", "ssl", "socket", tunnel.__name__)),
    key=lambda one: one.__name__,
)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("kind", [*OS_ERRORS, *PARSER_ERRORS, TimeoutError, ValueError, RuntimeError])
@pytest.mark.parametrize("proxied", [False, True])
def test_no_error_of_the_client_rests_an_account_by_itself(
    kind: type[BaseException], stage: Stage, proxied: bool
) -> None:
    fault = as_fault(kind("text with a secret"), stage, proxied=proxied)
    assert fault.culprit in (Culprit.EGRESS, Culprit.UPSTREAM, Culprit.GATEWAY) or is_tentative(fault)
    assert (fault.stage, fault.upstream_code) == (stage, kind.__name__)
    assert "secret" not in repr((fault, vars(fault), fault.args))


def test_the_list_of_errors_is_not_empty() -> None:
    assert len(PARSER_ERRORS) >= 5
    assert {ConnectionResetError, ssl.SSLCertVerificationError, ProxyError, ResolveError} <= set(OS_ERRORS)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ECONNREFUSED, Reason.TRANSIENT),
        (errno.ENETUNREACH, Reason.EGRESS),
        (errno.EMFILE, Reason.INTERNAL),
    ],
)
def test_the_number_of_a_system_error_tells_whose_it_is(number: int, reason: Reason) -> None:
    assert as_fault(OSError(number, "x"), Stage.CONNECT).reason is reason


def test_a_fault_stays_itself() -> None:
    fault = Fault(Reason.CUT, Stage.END)
    assert as_fault(fault, Stage.CONNECT) is fault


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0b"])
def test_a_header_cannot_hold_a_line_end(value: str) -> None:
    for headers in ({"x": value}, {value: "x"}):
        with pytest.raises(ValueError, match="line end"):
            header_lines(headers)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://api2.cursor.sh/x", "api2.cursor.sh"),
        ("https://a:443", "a"),
        ("http://a:8080", "a:8080"),
        ("http://[::1]:80", "[::1]"),
    ],
)
def test_the_host_header_leaves_the_default_port_out(url: str, authority: str) -> None:
    assert parse_origin(url).authority == authority
