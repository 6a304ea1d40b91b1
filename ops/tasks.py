"""Background jobs of the request log. Thin: the verbs are in ``ops.drain``."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from core import redis, settings_store
from ops import drain


@shared_task  # type: ignore[untyped-decorator]
def drain_records() -> None:
    drain.drain_records(redis.connection())


@shared_task  # type: ignore[untyped-decorator]
def reap_lost() -> None:
    drain.reap_lost(redis.connection())


@shared_task  # type: ignore[untyped-decorator]
def sweep_traces() -> None:
    drain.sweep_traces(timezone.now(), settings_store.current().trace_days)
