"""Keeps browser logins alive, for one process: see ``accounts.logins`` for what a login is and how it is written down.

Whoever calls holds the lock on the credential (``accounts.credentials``). Only a login that is saved is ever refreshed:
a refresh uses its token up, and what an account that is not saved brings belongs to somebody else still.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from accounts import logins
from accounts.compile import AccountView
from accounts.logins import Kept, Login, Vault
from core.encryption import SealError, open_sealed, seal
from core.redis_pipe import Pipe, PipeDown, PipeError
from ir.errors import Fault, Reason, Stage

log = logging.getLogger(__name__)

PENDING_KEPT = 30 * 86_400
"""Seconds for which a refreshed login that could not be written into its row is kept in Redis."""

Ask = Callable[[AccountView, str, str], Awaitable[tuple[str, str]]]
"""(account, client id, refresh token) → new access and refresh token; raises ``Fault``."""


class Sessions:
    """``client_id``: the operator's, "" while there is none: then a login serves until it ends."""

    def __init__(
        self, pipe: Pipe, vault: Vault, ask: Ask, *, client_id: Callable[[], str], now: Callable[[], float]
    ) -> None:
        self._pipe = pipe
        self._vault = vault
        self._ask = ask
        self._client_id = client_id
        self._now = now

    def can_refresh(self) -> bool:
        return bool(self._client_id())

    async def good(self, account: AccountView, sealed: bytes, stale: str) -> Login:
        """A login whose bearer has not ended and is not ``stale``. Raises ``Fault``: AUTH_REVOKED when somebody has to
        sign in again."""
        login = open_login(sealed)
        if self._is_good(login, stale):
            return login
        kept = await self._vault.read(account.credential_id)
        if kept is None:
            raise Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="login_not_saved")
        login = await self._newest(account.credential_id, kept)
        return login if self._is_good(login, stale) else await self._refresh(account, kept, login, stale)

    async def due(self, account: AccountView, ahead: float) -> bytes | None:
        """The sealed login as it is kept now, when it is to be refreshed; None when it is not, or cannot be."""
        kept = await self._vault.read(account.credential_id)
        if kept is None:
            return None
        login = await self._newest(account.credential_id, kept)
        due = self.can_refresh() and login.refresh and login.is_due(self._now(), ahead)
        return seal(logins.encode(login)) if due else None

    async def _refresh(self, account: AccountView, kept: Kept, login: Login, stale: str) -> Login:
        client_id = self._client_id()
        if not client_id or not login.refresh:
            raise Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="login_ended")
        try:
            access, refresh = await self._ask(account, client_id, login.refresh)
        except Fault as fault:
            if fault.reason is not Reason.AUTH_REVOKED:
                raise
            newer = await self._vault.read(account.credential_id)  # somebody else may have used the token first
            if newer is None or newer.version == kept.version or not self._is_good(open_login(newer.login), stale):
                raise
            return open_login(newer.login)
        fresh = Login(access, refresh or login.refresh, self._now())
        await self._keep(account.credential_id, kept.version, fresh)
        return fresh

    async def _newest(self, credential_id: int, kept: Kept) -> Login:
        """What the row holds, or what could not be written into it."""
        login = open_login(kept.login)
        try:
            found = await self._pipe.call("GET", _pending(credential_id))
            pending = open_login(found) if found else None
        except (PipeDown, PipeError, Fault):
            pending = None
        if pending is None or pending.at <= login.at:
            return login
        await self._keep(credential_id, kept.version, pending)
        return pending

    async def _keep(self, credential_id: int, version: int, login: Login) -> None:
        """First where it outlives this process, then where it outlives everything."""
        try:
            await self._pipe.call("SET", _pending(credential_id), seal(logins.encode(login)), "EX", PENDING_KEPT)
        except (PipeDown, PipeError):
            log.warning("Redis is down: the login of credential %d goes into its row alone", credential_id)
        try:
            kept = await self._vault.rotate(credential_id, version, login)
        except Fault:
            log.warning("the login of credential %d could not be written down; tried again later", credential_id)
            return
        if not kept:
            log.info("the login of credential %d was replaced meanwhile", credential_id)
        self._pipe.send("DEL", _pending(credential_id))

    def _is_good(self, login: Login, stale: str) -> bool:
        return login.access != stale and login.expires_at > self._now()


def open_login(sealed: bytes) -> Login:
    """Raises ``Fault`` INTERNAL: then it is our key to it that is missing."""
    try:
        return logins.decode(open_sealed(sealed))
    except (SealError, msgspec.MsgspecError):
        raise Fault(Reason.INTERNAL, Stage.AUTH, upstream_code="sealed_credential") from None


def _pending(credential_id: int) -> str:
    return f"poolgate:login:{credential_id}"
