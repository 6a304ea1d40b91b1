"""What keeps accounts fit to serve, and what one of them says now.

``renew`` runs as a job: credentials are renewed ahead of their end, so that no request waits for it. ``ask`` is the
cheapest question that an upstream answers; it changes nothing but a bearer that had to be fetched for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping

from msgspec import Struct

from accounts import usable
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.credentials import Bearers
from accounts.failures import CONSEQUENCES, Consequence
from core.jobs import Counts
from core.outbound import Outbound
from core.redis_pipe import Pipe
from core.settings import Settings
from ir.errors import Fault, Reason

log = logging.getLogger(__name__)

AT_ONCE = 5
"""Accounts that a job asks at the same time."""


class Answer(Struct, frozen=True):
    """What an account said. ``reason`` None: it would serve; ``models``: how many it may use; ``code``: the upstream's
    own word for its refusal."""

    took: float
    models: int = 0
    reason: Reason | None = None
    code: str = ""

    @property
    def consequence(self) -> Consequence | None:
        """What would follow if a request met this."""
        return CONSEQUENCES[self.reason] if self.reason is not None else None


async def renew(pipe: Pipe, accounts: Iterable[AccountView], sealed: Mapping[int, bytes], knobs: Settings) -> Counts:
    """Renews what ends soon. A refused account suffers what the fault calls for. Raises ``PipeDown``."""
    due = [account for account in accounts if _has_bearer(account) and account.credential_id in sealed]
    gate = asyncio.Semaphore(AT_ONCE)
    async with Outbound() as outbound:
        bearers = Bearers(pipe, outbound, client_id=lambda: knobs.oauth_client_id)
        try:

            async def one(account: AccountView) -> str:
                async with gate:
                    return await _renew_one(pipe, bearers, account, sealed[account.credential_id], knobs)

            done = await asyncio.gather(*map(one, due))
        finally:
            await bearers.close()
    return {word: done.count(word) for word in ("good", "renewed", "failed")}


async def _renew_one(pipe: Pipe, bearers: Bearers, account: AccountView, sealed: bytes, knobs: Settings) -> str:
    try:
        return "renewed" if await bearers.ahead(account, sealed, knobs.login_refresh_ahead * 3600) else "good"
    except Fault as fault:
        log.warning("account %d: its credential could not be renewed: %s", account.id, fault)
        await usable.suffer(pipe, account, fault)
        return "failed"


async def ask(bearers: Bearers, outbound: Outbound, account: AccountView, sealed: bytes) -> Answer:
    """What a Cursor account says to a cheap call. Never raises a ``Fault``: that is the answer."""
    began = time.monotonic()
    try:
        models = await usable.ask(bearers, outbound, account, sealed)
    except Fault as fault:
        return Answer(time.monotonic() - began, reason=fault.reason, code=fault.upstream_code or "")
    return Answer(time.monotonic() - began, models=len(models))


def can_be_asked(account: AccountView) -> bool:
    """Whether there is a call to it that costs nothing."""
    return account.kind is AccountKind.CURSOR and account.credential_id != 0


def _has_bearer(account: AccountView) -> bool:
    ready = account.kind is AccountKind.CURSOR and account.state is AccountState.READY
    return ready and Transport.AGENT_RPC in account.ways
