"""Background jobs of the pool. Thin: the verbs are in ``accounts.effects`` and ``accounts.usable``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from django.conf import settings

from accounts import effects, health, queries, reverify, usable
from accounts.compile import AccountView, compile_accounts
from accounts.usable import Usable
from core import redis, settings_store
from core.jobs import Counts, job
from core.redis_pipe import Pipe
from core.settings import Settings


@job(limit=60)
def apply_effects() -> Counts:
    return {"effects": effects.apply_effects(redis.connection())}


@job(limit=60)
def restore_cooldowns() -> Counts:
    return {"resting": effects.restore_cooldowns(redis.connection())}


@job()
def refresh_catalogue() -> Counts:
    found = asyncio.run(_refresh(_accounts(), dict(queries.sealed_credentials())))
    return {"accounts": len(found), "ungated": usable.end_gates(redis.connection(), found)}


@job(limit=120)
def renew_credentials() -> Counts:
    return asyncio.run(_renew(_accounts(), dict(queries.sealed_credentials()), settings_store.current()))


@job(limit=120)
def reverify_cooldowns() -> Counts:
    sealed, budget = dict(queries.sealed_credentials()), settings_store.current().probe_budget
    return reverify.reverify(
        redis.connection(), _accounts(), sealed, budget, lambda chosen: asyncio.run(_ask_all(chosen, sealed))
    )


def _accounts() -> tuple[AccountView, ...]:
    return compile_accounts(queries.account_rows())


async def _renew(accounts: tuple[AccountView, ...], sealed: dict[int, bytes], knobs: Settings) -> Counts:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        return await health.renew(pipe, accounts, sealed, knobs)
    finally:
        await pipe.close()


async def _refresh(accounts: tuple[AccountView, ...], sealed: dict[int, bytes]) -> dict[int, Usable]:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        return await usable.refresh(pipe, accounts, sealed)
    finally:
        await pipe.close()


async def _ask_all(accounts: Sequence[AccountView], sealed: dict[int, bytes]) -> set[int]:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        return await reverify.ask_all(pipe, accounts, sealed)
    finally:
        await pipe.close()
