"""What each account may use, asked of the upstream now and then: its own answer about plan gates, and the catalogue.

The answer is kept in Redis until a newer one replaces it: a failed refresh leaves the old one standing, for half an
hour (``accounts.knowledge``); after that an account may be asked for anything again. A model that turns out to be
usable ends its ``model_gated`` rest. Nothing on the hot path waits for any of this.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import redis
from msgspec import Struct

from accounts import cooldowns, cursor, offered, verbs
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.credentials import Bearers
from accounts.failures import CONSEQUENCES, Grain
from accounts.knowledge import USABLE, Usable, announce, served_since
from accounts.models import Cooldown
from accounts.offered import Offered
from core.audit import Actor
from core.outbound import Outbound
from core.redis_pipe import Pipe
from core.settings import Settings
from ir.errors import Fault, Reason

log = logging.getLogger(__name__)

PROVEN_FRESH = 900.0
"""Seconds for which the list of an account is not asked for again while traffic proves that the account is well."""

TIMEOUT = 5.0
AT_ONCE = 3
"""Accounts that are asked at the same time, and the seconds that one call may take."""

_decoder = msgspec.json.Decoder(Usable)


class Harvest(Struct, frozen=True):
    """``found``: fresh answers by account id; ``offered``: every model that any of them named; ``failed``: how many did
    not answer; ``kept``: names on the lists of accounts that were not asked, because their traffic proves them."""

    found: Mapping[int, Usable] = {}
    offered: Mapping[str, Offered] = {}
    failed: int = 0
    kept: frozenset[str] = frozenset()


async def refresh(
    pipe: Pipe, accounts: Iterable[AccountView], sealed: Mapping[int, bytes], knobs: Settings | None = None
) -> Harvest:
    """Asks for every ready Cursor account and keeps the answers, save those that served lately and whose list is young.
    A refused account suffers what the fault calls for. Raises ``PipeDown``.
    """
    knobs = knobs or Settings()
    ready = [each for each in accounts if each.kind is AccountKind.CURSOR and each.state is AccountState.READY]
    proven = await _proven(pipe, knobs.probe_idle_after * 60)
    kept = frozenset(name for each in ready if each.id in proven for name in proven[each.id].models)
    ready = [each for each in ready if each.id not in proven]
    round_ = _Round(pipe, knobs)
    lists = await asyncio.gather(*(round_.ask(account, sealed[account.credential_id]) for account in ready))
    models = offered.merge([*(several for several in lists if several is not None), round_.details])
    bases = {one.id: one.base for one in offered.fold(models)[1]}
    found: dict[int, Usable] = {}
    for account, several in zip(ready, lists, strict=True):
        if several is not None:
            names = {name for one in several for name in one.names}
            names |= {bases[name] for name in names if name in bases}
            found[account.id] = Usable(tuple(sorted(names)), time.time())
            await pipe.call("HSET", USABLE, account.id, msgspec.json.encode(found[account.id]))
    await announce(pipe)
    known = {one.id for several in lists if several is not None for one in several}
    return Harvest(found, {name: one for name, one in models.items() if name in known}, lists.count(None), kept)


async def _proven(pipe: Pipe, within: float) -> dict[int, Usable]:
    """The accounts that nobody need ask now, with their lists."""
    now = time.time()
    served = await served_since(pipe, now - within)
    lists = {number: await pipe.call("HGET", USABLE, number) for number in served}
    young = {number: _decoder.decode(kept) for number, kept in lists.items() if kept}
    return {number: usable for number, usable in young.items() if usable.at >= now - PROVEN_FRESH}


class _Round:
    """One round of questions. What there is to know of models is the same for everybody and is asked of one account."""

    def __init__(self, pipe: Pipe, knobs: Settings) -> None:
        self._pipe = pipe
        self._knobs = knobs
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._told: set[str] = set()
        self.details: Sequence[Offered] = ()

    async def ask(self, account: AccountView, sealed: bytes) -> Sequence[Offered] | None:
        """None when it did not answer."""
        async with self._gate, Outbound(proxy_url=account.proxy_url, timeout=TIMEOUT) as outbound:
            bearers = Bearers(self._pipe, outbound, client_id=lambda: self._knobs.oauth_client_id)
            try:
                found = await ask(bearers, outbound, account, sealed)
                await self._learn_more(bearers, outbound, account, sealed)
                return found
            except Fault as fault:
                log.warning("account %d: catalogue: %s", account.id, fault)
                await suffer(self._pipe, account, fault)
                return None
            finally:
                await bearers.close()

    async def _learn_more(self, bearers: Bearers, outbound: Outbound, account: AccountView, sealed: bytes) -> None:
        if account.transport is Transport.CLOUD_AGENTS or account.base_url in self._told:
            return
        self._told.add(account.base_url)
        try:
            bearer = await bearers.get(account, sealed)
            self.details = [*self.details, *await cursor.available_models(outbound, account.base_url, bearer)]
        except Fault as fault:
            log.info("account %d tells no more of its models: %s", account.id, fault)


async def suffer(pipe: Pipe, account: AccountView, fault: Fault) -> None:
    """What a fault of the control plane does to its account: only what speaks of the account as a whole. No model was
    asked for. Raises ``PipeDown``."""
    if CONSEQUENCES[fault.reason].grain is Grain.ACCOUNT:
        await cooldowns.apply(pipe, account, "", fault, random.random())  # noqa: S311 (spread)


def read(client: redis.Redis, account_id: int) -> Usable | None:
    """The last answer for the account; None when there never was one."""
    kept = client.hget(USABLE, str(account_id))
    return _decoder.decode(kept) if isinstance(kept, bytes) else None


def end_gates(found: Mapping[int, Usable]) -> int:
    """Ends the rest of models that were gated and are usable after all. Returns how many. Raises ``RedisError``."""
    gated = Cooldown.objects.filter(account_id__in=found, reason=Reason.MODEL_GATED.value).select_related("account")
    open_again = [row for row in gated if row.model in found[row.account_id].models]
    for row in open_again:
        verbs.clear_cooldowns(row.account, row.model, actor=Actor("system", reason="the catalogue offers it"))
    return len(open_again)


async def ask(bearers: Bearers, outbound: Outbound, account: AccountView, sealed: bytes) -> Sequence[Offered]:
    """The models that a Cursor account may use, as its upstream says now. Raises ``Fault``."""
    if account.transport is Transport.CLOUD_AGENTS:
        address = account.address(Transport.CLOUD_AGENTS)
        return await cursor.listed_models(outbound, address, bearers.key(account, sealed))
    bearer = await bearers.get(account, sealed)
    try:
        return await cursor.usable_models(outbound, account.base_url, bearer)
    except Fault as fault:
        if fault.reason is not Reason.AUTH_EXPIRED:
            raise
    bearer = await bearers.renew(account, sealed, bearer)
    return await cursor.usable_models(outbound, account.base_url, bearer)
