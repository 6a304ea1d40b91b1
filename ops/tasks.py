"""Background jobs of the request log. Thin: the verbs are in ``ops.drain``."""

from __future__ import annotations

from django.utils import timezone

from core import redis, settings_store
from core.jobs import Counts, job
from ops import drain


@job(limit=60)
def drain_records() -> Counts:
    return {"entries": drain.drain_records(redis.connection())}


@job(limit=60)
def reap_lost() -> Counts:
    return {"lost": drain.reap_lost(redis.connection())}


@job()
def sweep_traces() -> Counts:
    return {"deleted": drain.sweep_traces(timezone.now(), settings_store.current().trace_days)}
