"""Long rests are looked at again, so that nothing stays wrong for days.

A quarter, half and three quarters into a rest of more than 15 minutes its account is asked something that costs
nothing (``accounts.health.ask``). When it answers, the rest is over, but the account is not simply ready: it comes
back half-open, so one request tries it, and if it fails it rests again. Probes can themselves wear an account out, so
each has a budget an hour. What a cheap call cannot judge is left alone: limits of one model, and of machines, which
every call counts against; plan gates end with the catalogue, and a state that an admin must mend is no rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import redis
from django.utils import timezone
from msgspec import Struct

from accounts import health
from accounts.compile import AccountState, AccountView
from accounts.credentials import Bearers
from accounts.leases import cooldowns_key
from accounts.models import Cooldown
from accounts.pool import WHOLE
from core.jobs import Counts
from core.outbound import Outbound
from core.redis_pipe import Pipe
from ir.errors import Reason

LONG = 900.0
QUARTERS = (0.25, 0.5, 0.75)
JUDGED = (Reason.QUOTA, Reason.FORBIDDEN, Reason.PAYMENT)
HOUR = 3600
Ask = Callable[[Sequence[AccountView]], Collection[int]]

END_REST = """
-- KEYS: the account's cooldowns. ARGV: field, the end that was looked at in ms. Over, but still remembered: half-open.
-- Returns 1 when it was resting, and no longer than that: a fault since then is not undone.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ends = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if ends <= now or ends > tonumber(ARGV[2]) + 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], now)
return 1
"""


class Due(Struct, frozen=True):
    """A rest to be looked at. ``quarter``: which of ``QUARTERS`` it has passed, from 1; ``until`` in Unix seconds."""

    row_id: int
    account_id: int
    model: str
    quarter: int
    left: float
    until: float


def find_due(rows: Iterable[Cooldown], now: float) -> list[Due]:
    """The rests that are long enough and have passed a quarter. ``now`` in Unix seconds."""
    due = []
    for row in rows:
        began, ends = row.created_at.timestamp(), row.until.timestamp()
        passed = sum(now >= began + share * (ends - began) for share in QUARTERS)
        if ends - began > LONG and now < ends and passed and row.reason in JUDGED:
            due.append(Due(row.pk, row.account_id, row.model, passed, ends - now, ends))
    return due


def choose_probes(client: redis.Redis, due: Iterable[Due], budget: int) -> list[Due]:
    """Those of ``due`` that nobody has looked at in this quarter, as many as each account's budget allows. Marks them
    as looked at: two workers never choose the same."""
    return [
        one
        for one in due
        if client.set(f"poolgate:reverify:{one.row_id}:{one.quarter}", 1, nx=True, ex=int(one.left) + 1)
        and _may_probe(client, one.account_id, budget)
    ]


def reverify(
    client: redis.Redis, accounts: Iterable[AccountView], sealed: Mapping[int, bytes], budget: int, ask: Ask
) -> Counts:
    """Has every rest that is due looked at by ``ask``, which says who answers. Raises ``RedisError``."""
    known = {
        account.id: account
        for account in accounts
        if account.state is AccountState.READY and health.can_be_asked(account) and account.credential_id in sealed
    }
    due = [
        one
        for one in find_due(Cooldown.objects.filter(until__gt=timezone.now()), time.time())
        if one.account_id in known
    ]
    chosen = choose_probes(client, due, budget)
    answered = ask([known[number] for number in {one.account_id for one in chosen}])
    ended = sum(_end(client, one) for one in chosen if one.account_id in answered)
    return {"asked": len(chosen), "ended": ended}


async def ask_all(pipe: Pipe, accounts: Iterable[AccountView], sealed: Mapping[int, bytes]) -> set[int]:
    """The accounts that answer a cheap call. Raises ``PipeDown``."""
    return {account.id for account in accounts if await _answers(pipe, account, sealed[account.credential_id])}


def _may_probe(client: redis.Redis, account_id: int, budget: int) -> bool:
    name = f"poolgate:probes:{account_id}"
    spent = int(client.incr(name))
    if spent == 1:
        client.expire(name, HOUR)
    return spent <= budget


async def _answers(pipe: Pipe, account: AccountView, sealed: bytes) -> bool:
    async with Outbound(proxy_url=account.proxy_url) as outbound:
        bearers = Bearers(pipe, outbound)
        try:
            return (await health.ask(bearers, outbound, account, sealed)).reason is None
        finally:
            await bearers.close()


def _end(client: redis.Redis, due: Due) -> int:
    """The row goes with it, else it would be brought back into Redis."""
    until = datetime.fromtimestamp(due.until, UTC)
    Cooldown.objects.filter(pk=due.row_id, until__lte=until + timedelta(milliseconds=1)).delete()
    return int(client.eval(END_REST, 1, cooldowns_key(due.account_id), due.model or WHOLE, int(due.until * 1000)))
