"""Tells every process that what the snapshot is made of has changed.

The version is a counter in Redis; the message only says "look now". Who missed the message finds the counter moved.
"""

from __future__ import annotations

from django.db import transaction

from core import redis

VERSION_KEY = redis.key("snapshot", "version")
CHANNEL = redis.key("snapshot")


def bump() -> None:
    """Announces a change once the surrounding transaction is committed.

    The edit stands even when Redis is down: Django logs the failure, and processes read the rows anew when they
    find Redis again.
    """
    transaction.on_commit(_announce, robust=True)


def _announce() -> None:
    connection = redis.connection()
    connection.publish(CHANNEL, str(connection.incr(VERSION_KEY)))
