"""Background jobs of the pool. Thin: the verbs are in ``accounts.effects`` and ``accounts.usable``."""

from __future__ import annotations

import asyncio

from django.conf import settings

from accounts import effects, queries, usable
from accounts.compile import AccountView, compile_accounts
from accounts.usable import Usable
from core import redis
from core.jobs import Counts, job
from core.redis_pipe import Pipe


@job(limit=60)
def apply_effects() -> Counts:
    return {"effects": effects.apply_effects(redis.connection())}


@job(limit=60)
def restore_cooldowns() -> Counts:
    return {"resting": effects.restore_cooldowns(redis.connection())}


@job()
def refresh_catalogue() -> Counts:
    accounts = compile_accounts(queries.account_rows())
    found = asyncio.run(_refresh(accounts, dict(queries.sealed_credentials())))
    return {"accounts": len(found), "ungated": usable.end_gates(redis.connection(), found)}


async def _refresh(accounts: tuple[AccountView, ...], sealed: dict[int, bytes]) -> dict[int, Usable]:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        return await usable.refresh(pipe, accounts, sealed)
    finally:
        await pipe.close()
