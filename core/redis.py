"""Redis for everything that is not the hot path: panel, commands, Celery tasks. The data plane has its own pipe.

Every key and channel starts with ``poolgate:``, so that a Redis can be shared and its traffic told apart.
"""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings

PREFIX = "poolgate"


def key(*parts: object) -> str:
    """``key("snapshot", "version")`` → ``poolgate:snapshot:version``."""
    return ":".join((PREFIX, *map(str, parts)))


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=5, health_check_interval=30)


def connection() -> redis.Redis:
    """The process's client of ``REDIS_URL`` (thread-safe, reconnects by itself); answers are bytes."""
    return _client(settings.REDIS_URL)


def close() -> None:
    """Lets go of the process's connections."""
    connection().close()
    _client.cache_clear()
