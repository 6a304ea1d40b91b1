"""What keeps accounts fit to serve, and what one of them says now.

``renew`` runs as a job: credentials are renewed ahead of their end, so that no request waits for it. ``ask`` is the
cheapest question that an upstream answers; it changes nothing but a bearer that had to be fetched for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping

import redis
from django.conf import settings
from msgspec import Struct

from accounts import usable, verbs
from accounts.compile import AccountKind, AccountState, AccountView, Transport, compile_account
from accounts.credentials import Bearers
from accounts.failures import CONSEQUENCES, Consequence, Grain, Next
from accounts.knowledge import QUOTA, SERVED, USABLE
from accounts.models import Account, Proxy
from accounts.proxies import CHECKS
from accounts.troubles import DIRECT
from core import settings_store
from core.audit import SYSTEM, Actor
from core.invalid import InvalidValue
from core.jobs import Counts
from core.outbound import Outbound
from core.redis_pipe import Pipe
from core.settings import Settings
from ir.errors import Fault, Reason

log = logging.getLogger(__name__)

AT_ONCE = 5
"""Accounts that a job asks at the same time."""


_MOVES = {
    Next.SAME: "A request would try it again.",
    Next.SWITCH: "A request would turn to another account.",
    Next.STOP: "A request would end here.",
}


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

    def tell(self, name: str) -> str:
        """In a sentence or two, about the account of this name."""
        if self.consequence is None:
            return f"{name} answers: {self.models} models in {self.took * 1000:.0f} ms."
        reason = (self.reason or "").replace("_", " ")
        said = [f"{name} does not answer: {reason}" + (f" ({self.code})" if self.code else "") + "."]
        said.append(_MOVES[self.consequence.next])
        if self.consequence.rest is not None and self.consequence.grain is Grain.ACCOUNT:
            said.append(f"The account would rest for {self.consequence.rest.seconds:g} s.")
        if self.consequence.state is not None:
            said.append(f"It would be set to {self.consequence.state.replace('_', ' ')}.")
        return " ".join(said)


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


def ask_now(row: Account, *, end_rests: bool = False, actor: Actor = SYSTEM) -> Answer:
    """Asks a saved account, whatever its state. Blocking. With ``end_rests`` an account that answers rests no more.

    Raises ``InvalidValue`` for one that cannot be asked without spending anything.
    """
    account = compile_account(row)
    if not can_be_asked(account):
        raise InvalidValue("kind", "only Cursor accounts with a credential can be asked without spending anything.")
    client_id = settings_store.current().oauth_client_id
    answer = asyncio.run(_ask_alone(account, bytes(row.credential.sealed), client_id))
    if end_rests and answer.reason is None:
        verbs.clear_cooldowns(row, actor=actor)
    return answer


async def _ask_alone(account: AccountView, sealed: bytes, client_id: str) -> Answer:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        async with Outbound(proxy_url=account.proxy_url) as outbound:
            bearers = Bearers(pipe, outbound, client_id=lambda: client_id)
            try:
                return await ask(bearers, outbound, account, sealed)
            finally:
                await bearers.close()
    finally:
        await pipe.close()


def sweep(client: redis.Redis) -> int:
    """Forgets what is known of accounts and proxies that are gone. Returns how many entries. Raises ``RedisError``."""
    accounts = {str(number).encode() for number in Account.objects.values_list("pk", flat=True)}
    ways = {DIRECT.encode(), *(str(number).encode() for number in Proxy.objects.values_list("pk", flat=True))}
    deleted = 0
    for name, there in ((USABLE, accounts), (QUOTA, accounts), (SERVED, accounts), (CHECKS, ways)):
        gone = [field for field in client.hkeys(name) if field not in there]
        if gone:
            deleted += client.hdel(name, *gone)
    return deleted


def can_be_asked(account: AccountView) -> bool:
    """Whether there is a call to it that costs nothing."""
    return account.kind is AccountKind.CURSOR and account.credential_id != 0


def _has_bearer(account: AccountView) -> bool:
    ready = account.kind is AccountKind.CURSOR and account.state is AccountState.READY
    return ready and Transport.AGENT_RPC in account.ways
