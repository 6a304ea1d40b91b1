"""What each account may use, asked of the upstream now and then: its own answer about plan gates.

The answer is kept in Redis until a newer one replaces it: a failed refresh leaves the old one standing. A model that
turns out to be usable ends its ``model_gated`` rest. Nothing on the hot path waits for any of this.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Mapping

import msgspec
import redis
from msgspec import Struct

from accounts import cooldowns, cursor
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.credentials import Bearers
from accounts.failures import CONSEQUENCES, Grain
from accounts.models import Cooldown
from core.outbound import Outbound
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason

log = logging.getLogger(__name__)

USABLE = "poolgate:usable"
"""A hash: field = account id, value = ``Usable`` as JSON."""


class Usable(Struct, frozen=True):
    """``at``: Unix seconds at which the upstream said so."""

    models: tuple[str, ...]
    at: float


_decoder = msgspec.json.Decoder(Usable)


async def refresh(pipe: Pipe, accounts: Iterable[AccountView], sealed: Mapping[int, bytes]) -> dict[int, Usable]:
    """Asks for every ready Cursor account and keeps the answers. A refused account suffers what the fault calls for.

    Returns the fresh answers by account id. Raises ``PipeDown``.
    """
    found: dict[int, Usable] = {}
    for account in accounts:
        if account.kind is not AccountKind.CURSOR or account.state is not AccountState.READY:
            continue
        async with Outbound(proxy_url=account.proxy_url) as outbound:
            bearers = Bearers(pipe, outbound)
            try:
                models = await ask(bearers, outbound, account, sealed[account.credential_id])
            except Fault as fault:
                log.warning("account %d: catalogue: %s", account.id, fault)
                await suffer(pipe, account, fault)
                continue
            finally:
                await bearers.close()
        found[account.id] = Usable(models, time.time())
        await pipe.call("HSET", USABLE, account.id, msgspec.json.encode(found[account.id]))
    return found


async def suffer(pipe: Pipe, account: AccountView, fault: Fault) -> None:
    """What a fault of the control plane does to its account: only what speaks of the account as a whole. No model was
    asked for. Raises ``PipeDown``."""
    if CONSEQUENCES[fault.reason].grain is Grain.ACCOUNT:
        await cooldowns.apply(pipe, account, "", fault, random.random())  # noqa: S311 (spread)


def read(client: redis.Redis, account_id: int) -> Usable | None:
    """The last answer for the account; None when there never was one."""
    kept = client.hget(USABLE, str(account_id))
    return _decoder.decode(kept) if isinstance(kept, bytes) else None


def end_gates(client: redis.Redis, found: Mapping[int, Usable]) -> int:
    """Ends the rest of models that were gated and are usable after all. Returns how many."""
    ended = 0
    for row in Cooldown.objects.filter(account_id__in=found, reason=Reason.MODEL_GATED.value):
        if row.model in found[row.account_id].models:
            cooldowns.clear(client, row.account_id, row.model)
            row.delete()
            ended += 1
    return ended


async def ask(bearers: Bearers, outbound: Outbound, account: AccountView, sealed: bytes) -> tuple[str, ...]:
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
