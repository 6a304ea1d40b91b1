"""The configuration in force: one frozen value, composed from what each app compiled, swapped whole.

``Snapshots`` loads it off the path, in a thread, when the version that admin verbs publish has moved: at once on the
pub/sub message, and by looking at the version every few seconds in case a message is lost. A load that fails, because
Postgres is away or a row is bad, leaves the last good snapshot in force and is retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from django.db import connection
from msgspec import Struct, field
from redis.asyncio import Redis
from redis.exceptions import RedisError

from accounts import queries
from accounts.compile import AccountView, compile_accounts
from accounts.kinds import Binding
from accounts.models import CatalogueModel
from accounts.naming import Names, compile_names
from core import metrics, publish, settings_store
from core.settings import Settings
from tenants import queries as tenants
from tenants.compile import KeyView, compile_keys
from tenants.models import ApiKey

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds between looks at the version, well under the ten that a lost message may cost."""


class Snapshot(Struct, frozen=True):
    """``keys`` by public id; ``sealed`` credentials by id, encrypted; ``exposed`` model names, none: every one.

    ``pools`` is no configuration: it is where ``routing`` keeps what it worked out from this snapshot.
    """

    version: int
    settings: Settings
    keys: Mapping[str, KeyView]
    accounts: tuple[AccountView, ...]
    names: Names
    sealed: Mapping[int, bytes]
    exposed: frozenset[str] = frozenset()
    pools: dict[tuple[frozenset[int], Binding | None, str], tuple[AccountView, ...]] = field(default_factory=dict)


def load(version: int) -> Snapshot:
    """``compose`` for a borrowed thread, whose connection Django would otherwise keep."""
    try:
        return compose(version)
    finally:
        connection.close()


def compose(version: int) -> Snapshot:
    """Reads the rows and compiles them. Blocking. Raises ``ValueError`` for a row that cannot be served."""
    settings = settings_store.current()
    keys = ApiKey.objects.select_related("team").filter(revoked_at=None)
    return Snapshot(
        version=version,
        settings=settings,
        keys=compile_keys(keys, queries.groups_of_teams(), tenants.members()),
        accounts=compile_accounts(queries.account_rows()),
        names=compile_names(CatalogueModel.objects.all()),
        sealed=queries.sealed_credentials(),
        exposed=frozenset(name.strip() for name in settings.exposed_models.split(",") if name.strip()),
    )


class Snapshots:
    """Holds the current snapshot and keeps it current. ``load`` is blocking and runs in a thread; ``on_change`` is told
    of each new one."""

    def __init__(
        self, load: Callable[[int], Snapshot], redis_url: str, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self.current: Snapshot | None = None
        self._on_change = on_change
        self.problem = "the configuration is not loaded yet"
        self._load = load
        self._redis: Redis = Redis.from_url(redis_url)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Tries a first load, then follows the version in the background."""
        with contextlib.suppress(RedisError, OSError):
            await self._look()
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._redis.aclose()

    async def _follow(self) -> None:
        missed = False
        while True:
            try:
                async with self._redis.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(publish.CHANNEL)
                    await self._look(reload=missed)
                    missed = False
                    while True:
                        await channel.get_message(timeout=LOOK_EVERY)
                        await self._look()
            except (RedisError, OSError) as error:
                # An edit made while Redis was away moved no version, so the rows are read again whatever it says.
                missed = True
                log.warning("configuration channel lost (%s), trying again", type(error).__name__)
                await asyncio.sleep(1)

    async def _look(self, reload: bool = False) -> None:
        version = int(await self._redis.get(publish.VERSION_KEY) or 0)
        if self.current is not None and self.current.version == version and not reload:
            return
        try:
            self.current = await asyncio.to_thread(self._load, version)
            self.problem = ""
            metrics.set_generation(version)
            metrics.allow_models(self.current.names.models)
            self._on_change()
        except Exception as error:
            # Whatever the reason, the last good snapshot keeps working; the next look tries again.
            self.problem = "the configuration cannot be loaded"
            log.exception("configuration version %d not loaded: %s", version, type(error).__name__)
