"""Background jobs of the data plane. Thin: the verbs are in ``conversations.store`` and ``upstreams.leftovers``."""

from __future__ import annotations

import asyncio
import time

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from accounts import queries
from accounts.compile import AccountView, compile_accounts
from core.redis_pipe import Pipe
from gateway.conversations import store
from gateway.upstreams import leftovers


@shared_task  # type: ignore[untyped-decorator]
def sweep_conversations() -> None:
    store.sweep(timezone.now())


@shared_task  # type: ignore[untyped-decorator]
def sweep_cloud_agents() -> None:
    asyncio.run(_sweep_agents(compile_accounts(queries.account_rows()), dict(queries.sealed_credentials())))


async def _sweep_agents(accounts: tuple[AccountView, ...], sealed: dict[int, bytes]) -> None:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        await leftovers.sweep(pipe, accounts, sealed, time.time())
    finally:
        await pipe.close()
