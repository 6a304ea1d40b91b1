"""Background jobs of the data plane. Thin: the verbs are in ``conversations.store`` and ``upstreams.leftovers``."""

from __future__ import annotations

import asyncio
import time

from django.conf import settings
from django.utils import timezone

from accounts import queries
from accounts.compile import AccountView, compile_accounts
from core.jobs import Counts, job
from core.redis_pipe import Pipe
from gateway.conversations import store
from gateway.upstreams import leftovers


@job()
def sweep_conversations() -> Counts:
    return {"deleted": store.sweep(timezone.now())}


@job()
def sweep_cloud_agents() -> Counts:
    accounts = compile_accounts(queries.account_rows())
    return {"deleted": asyncio.run(_sweep_agents(accounts, dict(queries.sealed_credentials())))}


async def _sweep_agents(accounts: tuple[AccountView, ...], sealed: dict[int, bytes]) -> int:
    pipe = await Pipe.connect(settings.REDIS_URL)
    try:
        return await leftovers.sweep(pipe, accounts, sealed, time.time())
    finally:
        await pipe.close()
