"""Bearers: the short-lived token that an account's API key is exchanged for, or the session token of its login.

A token is looked up in this process, then in Redis (sealed, so that all processes share one exchange), and only then
fetched. Exchanges are single flight twice: callers in one process wait for the same task, and processes for whoever
holds a short lock in Redis. A token near its end is renewed behind the caller's back, and by a job before that
(``ahead``). A credential that is replaced gets a new id, so nothing cached for the old one is ever used again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec
import redis
from msgspec import Struct

from accounts import cursor
from accounts.compile import AccountView
from accounts.cursor import Token
from accounts.logins import Database, Vault
from accounts.sessions import Sessions, open_login
from core.encryption import SealError, open_sealed, seal
from core.outbound import Outbound
from core.redis_pipe import Pipe, PipeDown, PipeError, Script
from ir.errors import Fault, Reason, Stage

log = logging.getLogger(__name__)

AHEAD = 300.0
"""Seconds before its end from which a token is renewed, or the last fifth of its life where that is shorter."""

LOCK_LIFE = 20.0
"""Seconds for which one process may be busy with an exchange before another tries its own."""

LOOK_EVERY = 0.05
REFUSED_WHEN_NEW = 60.0
"""A token that answered a 401 and is refused within this many seconds: it is the account, not the token."""

UNLOCK = Script("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")


class Held(Struct, frozen=True):
    """A token and what is known of it. ``answered_401``: it was fetched because another was refused. Unix seconds."""

    jwt: str
    expires_at: float
    fetched_at: float
    answered_401: bool = False

    def __repr__(self) -> str:
        return f"Held(expires_at={self.expires_at})"

    def is_due(self, now: float) -> bool:
        return self.expires_at - now < min(AHEAD, (self.expires_at - self.fetched_at) / 5)


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Held)


class Bearers:
    """The bearers of all accounts, for one process. ``now`` gives Unix seconds, ``client_id`` the operator's OAuth
    client."""

    def __init__(
        self,
        pipe: Pipe,
        outbound: Outbound,
        *,
        now: Callable[[], float] = time.time,
        client_id: Callable[[], str] = str,
        vault: Vault | None = None,
    ) -> None:
        self._pipe = pipe
        self._outbound = outbound
        self._now = now
        self._sessions = Sessions(pipe, vault or Database(), self._ask_refresh, client_id=client_id, now=now)
        self._held: dict[int, Held] = {}
        self._keys: dict[int, str] = {}
        self._flights: dict[int, asyncio.Task[Held]] = {}

    async def get(self, account: AccountView, sealed: bytes) -> str:
        """A bearer that has not expired. ``sealed`` is the account's credential at rest. Raises ``Fault``."""
        held = self._held.get(account.credential_id)
        now = self._now()
        if held is None or held.expires_at <= now:
            return (await self._fly(account, sealed, stale="")).jwt
        if held.is_due(now) and (not account.login or self._sessions.can_refresh()):
            self._start(account, sealed, held.jwt)
        return held.jwt

    async def ahead(self, account: AccountView, sealed: bytes, login_ahead: float) -> bool:
        """Renews what would end soon: a login ``login_ahead`` seconds before, a token that is shared as ``get`` does.

        Returns whether it was due. Raises ``Fault``; what is in use is good until its end all the same.
        """
        if account.login:
            kept = await self._sessions.due(account, login_ahead)
            if kept is not None:
                await self._fly(account, kept, stale=open_login(kept).access)
            return kept is not None
        held = await self._peek(account.credential_id)
        if held is None or not held.is_due(self._now()):
            return False
        await self._fly(account, sealed, stale=held.jwt)
        return True

    def key(self, account: AccountView, sealed: bytes) -> str:
        """The credential itself, for upstreams that take it as it is. Raises ``Fault`` when it cannot be opened."""
        key = self._keys.get(account.credential_id)
        if key is None:
            key = self._keys[account.credential_id] = open_key(sealed)
        return key

    async def renew(self, account: AccountView, sealed: bytes, stale: str) -> str:
        """A bearer other than ``stale``, which upstream refused with a 401: one exchange for however many callers.

        Raises ``Fault``: AUTH_REVOKED when ``stale`` was itself the fresh answer to a 401.
        """
        held = self._held.get(account.credential_id)
        if held is not None and held.jwt != stale and held.expires_at > self._now():
            return held.jwt
        if self._was_refused_when_new(held, stale):
            raise Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="refused_when_new")
        for _ in range(2):  # a flight that was already under way may bring the stale one
            fresh = await self._fly(account, sealed, stale=stale, refused=True)
            if fresh.jwt != stale:
                return fresh.jwt
        raise Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="same_token_again")

    async def close(self) -> None:
        """Ends exchanges that nobody waits for any more."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        if flights:
            await asyncio.wait(flights)

    async def _fly(self, account: AccountView, sealed: bytes, *, stale: str, refused: bool = False) -> Held:
        # Shielded: one caller that leaves must not end it for the others.
        return await asyncio.shield(self._start(account, sealed, stale, refused))

    def _start(self, account: AccountView, sealed: bytes, stale: str, refused: bool = False) -> asyncio.Task[Held]:
        flight = self._flights.get(account.credential_id)
        if flight is None:
            flight = asyncio.create_task(self._fetch(account, sealed, stale, refused))
            self._flights[account.credential_id] = flight
            flight.add_done_callback(lambda done: self._landed(account.credential_id, done))
        return flight

    def _landed(self, credential_id: int, flight: asyncio.Task[Held]) -> None:
        del self._flights[credential_id]
        if not flight.cancelled() and (error := flight.exception()) is not None:
            log.info("no bearer for credential %d: %s", credential_id, error)

    async def _fetch(self, account: AccountView, sealed: bytes, stale: str, refused: bool) -> Held:
        held = await self._shared(account.credential_id, stale)
        if held is None:
            held = await self._exchange_locked(account, sealed, stale, refused)
        self._held[account.credential_id] = held
        return held

    async def _exchange_locked(self, account: AccountView, sealed: bytes, stale: str, refused: bool) -> Held:
        lock, mine = f"poolgate:bearer-lock:{account.credential_id}", secrets.token_hex(8)
        gives_up = asyncio.get_running_loop().time() + LOCK_LIFE
        while asyncio.get_running_loop().time() < gives_up:
            if await self._lock(lock, mine):
                try:
                    # Who had the lock before may have left a token.
                    return await self._shared(account.credential_id, stale) or await self._exchange(
                        account, sealed, stale, refused
                    )
                finally:
                    self._pipe.send("EVAL", UNLOCK.text, 1, lock, mine)
            await asyncio.sleep(LOOK_EVERY)
            if (held := await self._shared(account.credential_id, stale)) is not None:
                return held
        raise Fault(Reason.TIMEOUT, Stage.AUTH, upstream_code="bearer_lock")

    async def _exchange(self, account: AccountView, sealed: bytes, stale: str, refused: bool) -> Held:
        if account.login:
            login = await self._sessions.good(account, sealed, stale)
            held = Held(login.access, login.expires_at, login.at, answered_401=refused)
            await self._share(account.credential_id, held)
            return held
        token = await self._ask(account, open_key(sealed))
        now = self._now()
        if token.expires_at <= now:
            raise Fault(Reason.PROTOCOL, Stage.AUTH, upstream_code="expired_on_arrival")
        held = Held(token.jwt, token.expires_at, now, answered_401=refused)
        await self._share(account.credential_id, held)
        return held

    async def _ask(self, account: AccountView, api_key: str) -> Token:
        async with self._way_out(account) as way_out:
            return await cursor.exchange(way_out, account.base_url, api_key)

    async def _ask_refresh(self, account: AccountView, client_id: str, refresh_token: str) -> tuple[str, str]:
        async with self._way_out(account) as way_out:
            return await cursor.refresh(way_out, account.base_url, client_id, refresh_token)

    @asynccontextmanager
    async def _way_out(self, account: AccountView) -> AsyncIterator[Outbound]:
        """The account's own."""
        if not account.proxy_url:
            yield self._outbound
            return
        async with Outbound(proxy_url=account.proxy_url) as way_out:
            yield way_out

    async def _lock(self, lock: str, mine: str) -> bool:
        try:
            return await self._pipe.call("SET", lock, mine, "NX", "PX", int(LOCK_LIFE * 1000)) is not None
        except (PipeDown, PipeError):
            return True  # without Redis every process is on its own

    async def _shared(self, credential_id: int, stale: str) -> Held | None:
        """What another process left in Redis, unless it is the stale one or near its end."""
        held = await self._peek(credential_id)
        if held is None or held.jwt == stale or held.is_due(self._now()):
            return None
        return held

    async def _peek(self, credential_id: int) -> Held | None:
        try:
            sealed = await self._pipe.call("GET", _key(credential_id))
            return _decoder.decode(open_sealed(sealed)) if sealed else None
        except (PipeDown, PipeError, SealError, msgspec.MsgspecError):
            return None

    async def _share(self, credential_id: int, held: Held) -> None:
        life = int((held.expires_at - self._now()) * 1000)
        try:
            await self._pipe.call("SET", _key(credential_id), seal(_encode(held)), "PX", max(life, 1))
        except (PipeDown, PipeError):
            log.info("Redis is down: the bearer of credential %d is not shared", credential_id)

    def _was_refused_when_new(self, held: Held | None, stale: str) -> bool:
        if held is None or held.jwt != stale or not held.answered_401:
            return False
        return self._now() - held.fetched_at < REFUSED_WHEN_NEW


def forget(client: redis.Redis, credential_ids: Iterable[int]) -> None:
    """Drops the bearers that processes share. One that holds its own keeps it until it is refused."""
    for credential_id in credential_ids:
        client.delete(_key(credential_id))


def open_key(sealed: bytes) -> str:
    """A credential in clear. Raises ``Fault`` INTERNAL: then it is our key to it that is missing."""
    try:
        return open_sealed(sealed).decode()
    except (SealError, UnicodeDecodeError):
        raise Fault(Reason.INTERNAL, Stage.AUTH, upstream_code="sealed_credential") from None


def _key(credential_id: int) -> str:
    return f"poolgate:bearer:{credential_id}"
