"""From an address to an open connection: checked names, a proxy when the account has one, TLS.

A name must resolve to addresses within its reach (``core.outbound.Reach``): for an official host or a provider's only
to public ones, since a poisoned answer, or an admin's slip, that points inwards would otherwise get the account's
token. The check and the connection use the same answer, so there is nothing to change in between. A proxy
(``http``, ``https`` or ``socks5``) gets the name, never an address of ours, and TLS runs through it end to end.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import cast
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from core.outbound import Reach, may_connect

_ADDRESSES_TRIED = 4
_REPLY_LIMIT = 16 * 1024
_SOCKS_PORT = 1080


PUBLIC = Reach(public=True)


class ProxyError(OSError):
    """The proxy did not open the way. The message is a status, never the proxy's text."""


class ResolveError(OSError):
    """The name led nowhere, or to an address that it must not lead to."""


class Origin(Struct, frozen=True):
    """Where a connection ends. ``reach`` is what its name may resolve to."""

    scheme: str
    host: str
    port: int
    proxy_url: str = ""
    reach: Reach = PUBLIC

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _default_port(self.scheme) else f"{host}:{self.port}"


def parse_origin(base_url: str, proxy_url: str = "", *, reach: Reach = PUBLIC) -> Origin:
    """Raises ``ValueError`` for what is no http or https address."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http address")
    return Origin(parts.scheme, parts.hostname, parts.port or _default_port(parts.scheme), proxy_url, reach)


async def connect(protocol: asyncio.Protocol, origin: Origin, tls: ssl.SSLContext) -> None:
    """Connects ``protocol``. Raises ``OSError`` or ``ssl.SSLError``; cancelling it leaves no socket open."""
    loop = asyncio.get_running_loop()
    secure = tls if origin.scheme == "https" else None
    server_hostname = origin.host if secure else None
    if origin.proxy_url and origin.reach.public and secure is None:
        raise ResolveError("without TLS a proxy could be led anywhere")
    if not origin.proxy_url:
        await _connect_any(loop, lambda: protocol, await _resolve(loop, origin), secure, server_hostname)
        return
    transport = await _open_tunnel(loop, urlsplit(origin.proxy_url), origin, tls)
    try:
        if secure:
            upgraded = await loop.start_tls(transport, protocol, secure, server_hostname=server_hostname)
            transport = cast("asyncio.Transport", upgraded)
        else:
            transport.set_protocol(protocol)
    except BaseException:
        transport.abort()
        raise
    protocol.connection_made(transport)


async def _resolve(loop: asyncio.AbstractEventLoop, origin: Origin) -> list[tuple[str, int]]:
    """Addresses to try. Raises ``ResolveError``."""
    try:
        found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise ResolveError("the name does not resolve") from None
    addresses = [(str(entry[4][0]), origin.port) for entry in found]
    secure = origin.scheme == "https"
    if not all(may_connect(host, origin.reach, secure=secure) for host, _ in addresses):
        raise ResolveError("the name resolves to an address that is not public")
    return addresses[:_ADDRESSES_TRIED]


async def _connect_any(
    loop: asyncio.AbstractEventLoop,
    factory: Callable[[], asyncio.Protocol],
    addresses: Sequence[tuple[str, int]],
    tls: ssl.SSLContext | None,
    server_hostname: str | None,
) -> asyncio.Transport:
    """The first address that answers; the error of the last one when none does."""
    last: OSError = ResolveError("the name has no address")
    for host, port in addresses:
        try:
            transport, _ = await loop.create_connection(factory, host, port, ssl=tls, server_hostname=server_hostname)
            return transport
        except ssl.SSLError:
            raise
        except OSError as error:
            last = error
    raise last


async def _open_tunnel(
    loop: asyncio.AbstractEventLoop, proxy: SplitResult, origin: Origin, tls: ssl.SSLContext
) -> asyncio.Transport:
    secure = tls if proxy.scheme == "https" else None
    port = proxy.port or (_SOCKS_PORT if proxy.scheme == "socks5" else _default_port(proxy.scheme))
    dialogue = _Dialogue()
    try:
        transport = await _connect_any(
            loop, lambda: dialogue, [(proxy.hostname or "", port)], secure, proxy.hostname if secure else None
        )
    except OSError as error:
        raise ProxyError("the proxy cannot be reached") from error
    try:
        if proxy.scheme == "socks5":
            await _ask_socks(dialogue, transport, proxy, origin)
        else:
            await _ask_http(dialogue, transport, proxy, origin)
    except BaseException:
        transport.abort()
        raise
    return transport


async def _ask_http(dialogue: _Dialogue, transport: asyncio.Transport, proxy: SplitResult, origin: Origin) -> None:
    """RFC 9110, section 9.3.6."""
    target = f"{f'[{origin.host}]' if ':' in origin.host else origin.host}:{origin.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    transport.write("\r\n".join([*lines, "", ""]).encode())
    status = (await dialogue.read_head()).split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise ProxyError(f"the proxy answered {status[0][:3].decode('ascii', 'replace') if status else 'nonsense'}")


async def _ask_socks(dialogue: _Dialogue, transport: asyncio.Transport, proxy: SplitResult, origin: Origin) -> None:
    """RFC 1928 with the name resolved by the proxy, and RFC 1929 when the address has a user name."""
    named = proxy.username is not None
    transport.write(b"\x05\x01\x02" if named else b"\x05\x01\x00")
    method = await dialogue.read(2)
    if method != (b"\x05\x02" if named else b"\x05\x00"):
        raise ProxyError("the proxy refused to talk")
    if named:
        user, password = unquote(proxy.username or "").encode(), unquote(proxy.password or "").encode()
        transport.write(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
        if await dialogue.read(2) != b"\x01\x00":
            raise ProxyError("the proxy refused the sign-in")
    host = origin.host.encode("idna")
    transport.write(b"\x05\x01\x00\x03" + bytes([len(host)]) + host + origin.port.to_bytes(2, "big"))
    version, code, _, kind = await dialogue.read(4)
    if version != 5 or code != 0:
        raise ProxyError(f"the proxy answered {code}")
    bound = {1: 4, 4: 16}.get(kind) or (await dialogue.read(1))[0]
    await dialogue.read(bound + 2)


class _Dialogue(asyncio.Protocol):
    """The few words that are changed with a proxy before the connection belongs to somebody else."""

    def __init__(self) -> None:
        self._buffer = b""
        self._lost = False
        self._waiter: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._wake()

    async def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    async def read_head(self) -> bytes:
        """Everything up to an empty line."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            await self._more()
        return await self.read(end + 4)

    async def _more(self) -> None:
        if self._lost or len(self._buffer) > _REPLY_LIMIT:
            raise ProxyError("the proxy hung up")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
