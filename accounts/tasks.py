"""Background jobs of the pool. Thin: what they do is in the modules that they name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from django.conf import settings
from django.utils import timezone

from accounts import blocks, catalogue, effects, health, proxies, queries, quota, reverify, usable
from accounts.compile import AccountView, compile_accounts
from core import redis, settings_store
from core.jobs import Counts, job
from core.redis_pipe import Pipe

T = TypeVar("T")


@job(limit=60)
def apply_effects() -> Counts:
    return {"effects": effects.apply_effects(redis.connection())}


@job(limit=60)
def restore_cooldowns() -> Counts:
    client = redis.connection()
    return {"resting": effects.restore_cooldowns(client), "paused": len(blocks.enforce(client))}


@job()
def refresh_catalogue() -> Counts:
    accounts, sealed, knobs = _accounts(), _sealed(), settings_store.current()
    harvest = _with_pipe(lambda pipe: usable.refresh(pipe, accounts, sealed, knobs))
    complete, enable = not harvest.failed, knobs.catalogue_auto_enable
    learnt = catalogue.learn(harvest.offered, timezone.now(), complete=complete, enable=enable, elsewhere=harvest.kept)
    ungated = usable.end_gates(harvest.found)
    return {"accounts": len(harvest.found), "failed": harvest.failed, **learnt, "ungated": ungated}


@job(limit=120)
def renew_credentials() -> Counts:
    accounts, sealed, knobs = _accounts(), _sealed(), settings_store.current()
    return _with_pipe(lambda pipe: health.renew(pipe, accounts, sealed, knobs))


@job(limit=120)
def reverify_cooldowns() -> Counts:
    sealed, budget = _sealed(), settings_store.current().probe_budget

    def ask(chosen: Sequence[AccountView]) -> set[int]:
        return _with_pipe(lambda pipe: reverify.ask_all(pipe, chosen, sealed))

    return reverify.reverify(redis.connection(), _accounts(), sealed, budget, ask)


@job()
def refresh_quotas() -> Counts:
    accounts, sealed, knobs = _accounts(), _sealed(), settings_store.current()
    found = _with_pipe(lambda pipe: quota.refresh(pipe, accounts, sealed, knobs))
    ended = quota.write_down(redis.connection(), found)
    return {"told": len(found), "spent": sum(one.is_spent for one in found.values()), "woken": ended}


@job()
def sweep_knowledge() -> Counts:
    return {"deleted": health.sweep(redis.connection())}


@job(limit=120)
def check_proxies() -> Counts:
    return check_ways_out()


def check_ways_out(*, everything: bool = False) -> Counts:
    """See ``accounts.proxies.check``; blocking."""
    accounts = _accounts()
    within = settings_store.current().probe_idle_after * 60
    return _with_pipe(lambda pipe: proxies.check(pipe, accounts, everything=everything, proven_for=within))


def _accounts() -> tuple[AccountView, ...]:
    return compile_accounts(queries.account_rows())


def _sealed() -> dict[int, bytes]:
    return dict(queries.sealed_credentials())


def _with_pipe(work: Callable[[Pipe], Awaitable[T]]) -> T:
    """Jobs run in threads without a loop; what they share with the data plane wants one."""

    async def run() -> T:
        pipe = await Pipe.connect(settings.REDIS_URL)
        try:
            return await work(pipe)
        finally:
            await pipe.close()

    return asyncio.run(run())
