"""How much of its plan an account has used, as its upstream tells.

Cursor counts two buckets apart: its own models (``default``, composer, grok) and named models of others. A full bucket
bars the account for the models of that bucket; when both are full the account rests until the billing cycle ends.
What is not known, or not lately, bars nothing. The upstream tells it to browser logins for certain; an account with an
API key is asked too, and when it is refused not again for a day.

Wire facts: ``GetCurrentPeriodUsage`` answers JSON ``{planUsage: {limit, totalSpend, autoPercentUsed, apiPercentUsed,
totalPercentUsed}, billingCycleStart, billingCycleEnd}``; amounts in cents, dates in Unix milliseconds, either as
numbers or as texts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import redis
from django.db import IntegrityError
from django.utils import timezone

from accounts import cooldowns, cursor
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.credentials import Bearers
from accounts.knowledge import QUOTA, Quota, announce
from accounts.models import Cooldown, PlanUsage
from core.outbound import Outbound
from core.redis_pipe import Pipe
from core.settings import Settings
from ir.errors import Fault, Reason, Stage

log = logging.getLogger(__name__)

TIMEOUT, AT_ONCE = 5.0, 3
NOT_TOLD_FOR = 86_400
"""Seconds for which an account that was refused is not asked again."""

REFUSALS = (Reason.FORBIDDEN, Reason.AUTH_EXPIRED, Reason.PROTOCOL)
LONG = timedelta(hours=1)
"""A rest this long was set by what is told here; a shorter one by a refusal, which may know better."""


async def refresh(
    pipe: Pipe, accounts: Iterable[AccountView], sealed: Mapping[int, bytes], knobs: Settings
) -> dict[int, Quota]:
    """Asks every ready account that may be told, and keeps the answers in Redis; who has nothing left rests.

    Returns the answers by account id. Raises ``PipeDown``.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(account: AccountView) -> Quota | None:
        async with gate:
            return await _ask_and_keep(pipe, account, sealed[account.credential_id], knobs)

    asked = [account for account in accounts if _may_be_told(account) and account.credential_id in sealed]
    answers = await asyncio.gather(*map(one, asked))
    await announce(pipe)
    return {account.id: quota for account, quota in zip(asked, answers, strict=True) if quota is not None}


def write_down(client: redis.Redis, found: Mapping[int, Quota]) -> int:
    """Rows for pages, and the end of rests whose reason is gone. Returns how many ended. Raises ``RedisError``."""
    for account_id, quota in found.items():
        columns = {
            "auto": quota.auto,
            "api": quota.api,
            "spent_cents": quota.spent_cents,
            "limit_cents": quota.limit_cents,
            "ends_at": datetime.fromtimestamp(quota.ends_at, UTC) if quota.ends_at else None,
            "at": datetime.fromtimestamp(quota.at, UTC),
        }
        try:
            PlanUsage.objects.update_or_create(account_id=account_id, defaults=columns)
        except IntegrityError:
            continue  # the account was deleted meanwhile
    ended = 0
    rests = Cooldown.objects.filter(account_id__in=found, model="", reason=Reason.QUOTA.value)
    for row in rests.filter(until__gt=timezone.now() + LONG):
        if not found[row.account_id].is_spent:
            cooldowns.clear(client, row.account_id, "")
            row.delete()
            ended += 1
    return ended


async def _ask_and_keep(pipe: Pipe, account: AccountView, sealed: bytes, knobs: Settings) -> Quota | None:
    not_told = f"poolgate:quota-not-told:{account.credential_id}"
    if await pipe.call("EXISTS", not_told):
        return None
    try:
        quota = await _ask(pipe, account, sealed, knobs)
    except Fault as fault:
        # A refusal to tell is no fault of the account: it may serve all the same.
        log.info("account %d does not tell its quota: %s", account.id, fault)
        if not account.login and fault.reason in REFUSALS:
            await pipe.call("SET", not_told, 1, "EX", NOT_TOLD_FOR)
        return None
    await pipe.call("HSET", QUOTA, account.id, msgspec.json.encode(quota))
    if quota.is_spent and quota.ends_at > time.time():
        spent = Fault(Reason.QUOTA, Stage.AUTH, retry_after=quota.ends_at - time.time(), upstream_code="plan_usage")
        await cooldowns.apply(pipe, account, "", spent, 0.0)
    return quota


async def _ask(pipe: Pipe, account: AccountView, sealed: bytes, knobs: Settings) -> Quota:
    async with Outbound(proxy_url=account.proxy_url, timeout=TIMEOUT) as outbound:
        bearers = Bearers(pipe, outbound, client_id=lambda: knobs.oauth_client_id)
        try:
            bearer = await bearers.get(account, sealed)
            return await cursor.period_usage(outbound, account.base_url, bearer, time.time())
        finally:
            await bearers.close()


def _may_be_told(account: AccountView) -> bool:
    ready = account.kind is AccountKind.CURSOR and account.state is AccountState.READY
    return ready and Transport.AGENT_RPC in account.ways
