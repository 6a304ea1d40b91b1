"""Background jobs of the pool. Thin: the verbs are in ``accounts.effects`` and ``accounts.usable``."""

from __future__ import annotations

import asyncio

from celery import shared_task
from django.conf import settings

from accounts import effects, queries, usable
from accounts.compile import AccountView, compile_accounts
from accounts.usable import Usable
from core import redis
from core.redis_pipe import Pipe


@shared_task  # type: ignore[untyped-decorator]
def apply_effects() -> None:
    effects.apply_effects(redis.connection())


@shared_task  # type: ignore[untyped-decorator]
def restore_cooldowns() -> None:
    effects.restore_cooldowns(redis.connection())


@shared_task  # type: ignore[untyped-decorator]
def refresh_catalogue() -> None:
    accounts = compile_accounts(queries.account_rows())
    found = asyncio.run(_refresh(accounts, dict(queries.sealed_credentials())))
    usable.end_gates(redis.connection(), found)


async def _refresh(accounts: tuple[AccountView, ...], sealed: dict[int, bytes]) -> dict[int, Usable]:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        return await usable.refresh(pipe, accounts, sealed)
    finally:
        await pipe.close()
