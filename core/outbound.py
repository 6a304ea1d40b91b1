"""The way out for everything that is not the hot path: key exchange, catalogue and usage calls.

What it will not do: leave the allow-list, follow a redirect, speak plain HTTP to a host that the operator did not
name, send a user name from an address, obey proxy variables, wait or read without bound. The list is Cursor's own
hosts plus those of ``POOLGATE_UPSTREAM_HOSTS`` (``host`` or ``host:port``); loopback is not on it unless named there.

Provider channels are the admins' to add, so they may lead to any host, but only to public addresses: what a name
resolves to is checked when the connection is made (``gateway.upstreams.tunnel``). The operator of the machine opens
inner networks by ``POOLGATE_PRIVATE_NETWORKS`` (CIDR), or one host by ``POOLGATE_UPSTREAM_HOSTS``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import SplitResult, urlsplit

import httpx2
from django.conf import settings
from msgspec import Struct
from socksio import SOCKSError

from core import addresses
from core.addresses import Network
from core.hosts import OFFICIAL_HOSTS

USER_AGENT = "poolgate"
MAX_BODY = 4 * 1024 * 1024


class Refused(ValueError):
    """An address that we will not call. The message is a sentence for the admin."""


class Broken(Exception):
    """A call that did not give a whole answer. ``kind``: connect, timeout, too_large or broken; never upstream text."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Reply(Struct, frozen=True):
    """A whole answer of any status. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Reply(status={self.status}, {len(self.body)} bytes)"


class Reach(Struct, frozen=True):
    """Where a connection may end. ``public``: at public addresses only, or inside ``private``; else anywhere."""

    public: bool
    private: tuple[Network, ...] = ()


class Destinations(Protocol):
    """A rule for base URLs."""

    def admit(self, url: str) -> Reach:
        """Raises ``Refused``."""
        ...


class AllowList:
    """``host`` allows every port of it, ``host:port`` the one."""

    def __init__(self, named: Iterable[str]) -> None:
        self._named = _Named(named)

    def check(self, url: str) -> None:
        """Raises ``Refused``."""
        self.admit(url)

    def admit(self, url: str) -> Reach:
        parts, host = _split(url)
        public = host in OFFICIAL_HOSTS
        if parts in self._named:
            return Reach(public)
        if not public or parts.port not in (None, 443):
            raise Refused(f"{host} is not allowed. Name it in POOLGATE_UPSTREAM_HOSTS if it is yours.")
        if parts.scheme != "https":
            raise Refused(f"{host} must be called by https.")
        return Reach(public)


class ProviderHosts:
    """Any host by https, as long as it leads to public addresses or into ``networks``; by http into those alone."""

    def __init__(self, named: Iterable[str], networks: Iterable[str] = ()) -> None:
        self._named = _Named(named)
        self._networks = addresses.parse_networks(networks)

    def admit(self, url: str) -> Reach:
        parts, host = _split(url)
        if parts in self._named:
            return Reach(public=False)
        if parts.scheme != "https" and not self._networks:
            raise Refused(f"{host} must be called by https.")
        reach = Reach(public=True, private=self._networks)
        if _is_address(host) and not may_connect(host, reach, secure=parts.scheme == "https"):
            raise Refused(f"{host} is no public address. Open its network in POOLGATE_PRIVATE_NETWORKS if it is yours.")
        return reach


def may_connect(address: str, reach: Reach, *, secure: bool) -> bool:
    """Whether a connection to a resolved address is within reach; without TLS only the operator's own networks are."""
    if not reach.public:
        return True
    found = addresses.read(address)
    return addresses.is_within(found, reach.private) or (secure and addresses.is_public(found))


def allow_list() -> AllowList:
    """The list in force."""
    return AllowList(settings.POOLGATE_UPSTREAM_HOSTS)


def provider_hosts() -> ProviderHosts:
    """The rule in force for provider channels."""
    return ProviderHosts(settings.POOLGATE_UPSTREAM_HOSTS, settings.POOLGATE_PRIVATE_NETWORKS)


class Outbound:
    """A guarded HTTP client; an async context manager. ``timeout`` bounds a whole call, in seconds."""

    def __init__(self, *, timeout: float = 15.0, proxy_url: str = "", allowed: AllowList | None = None) -> None:
        self._allowed = allowed or allow_list()
        self._timeout = timeout
        self._client = httpx2.AsyncClient(
            headers={"user-agent": USER_AGENT, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
            limits=httpx2.Limits(max_connections=20, max_keepalive_connections=5),
            proxy=proxy_url or None,
            follow_redirects=False,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        max_body: int = MAX_BODY,
    ) -> Reply:
        """One call, whole answer, any status (a redirect is an answer). Raises ``Refused`` or ``Broken``."""
        self._allowed.check(url)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._read(
                    self._client.build_request(method, url, headers=headers, content=content), max_body
                )
        except (TimeoutError, httpx2.TimeoutException):
            raise Broken("timeout") from None
        except (httpx2.ConnectError, httpx2.ProxyError, SOCKSError, AssertionError):
            raise Broken("connect") from None  # the last two: a SOCKS proxy that talks nonsense
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
            raise Broken("broken") from None

    async def _read(self, request: httpx2.Request, max_body: int) -> Reply:
        response = await self._client.send(request, stream=True)
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > max_body:
                    raise Broken("too_large")
            return Reply(response.status_code, dict(response.headers), bytes(body))
        finally:
            await response.aclose()


class _Named:
    """Hosts that the operator named, each with one port or with all."""

    def __init__(self, named: Iterable[str]) -> None:
        self._named = frozenset(name.strip().lower() for name in named)

    def __contains__(self, parts: SplitResult) -> bool:
        host = (parts.hostname or "").rstrip(".")
        return host in self._named or f"{host}:{parts.port or _port(parts.scheme)}" in self._named


def _split(url: str) -> tuple[SplitResult, str]:
    """The parts, and the host without a dot at its end. Raises ``Refused`` for what is no address to call."""
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise Refused("That is not an address.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Refused("Only http and https addresses can be called.")
    if parts.username is not None or parts.password is not None:
        raise Refused("An address must hold no user name or password.")
    return parts, host


def _is_address(host: str) -> bool:
    try:
        addresses.read(host)
    except ValueError:
        return False
    return True


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
