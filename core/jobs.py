"""Background jobs that can be seen. Each run says when it began and what came of it, and keeps a second one out.

What is known of a job is one hash in Redis: the last run's beginning, end, result and counts, or the class of the error
that ended it; never content. A lock that expires keeps two runs of one job apart, also on two machines. A run whose
lock expired under it (it hung, and another took its place) writes nothing any more. The timetable is the operator's
``POOLGATE_TIMETABLE``: task → seconds between two runs.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

import orjson
import redis
from celery import shared_task
from django.conf import settings
from msgspec import Struct

from core.redis import connection, key

Counts = Mapping[str, int]
"""What a run did, in numbers by name."""

LIMIT = 300.0
"""Seconds after which a run that has not ended is given up for lost."""

KEPT = 7 * 86_400
"""Seconds for which a job that runs no more is remembered."""

GRACE = 30.0
"""Seconds beyond two turns after which a job that did not begin is overdue."""

_BEGIN = """
-- KEYS: lock, job. ARGV: token, life in ms, now, kept in s. Returns 1 when the run may begin.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], 'started', ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
"""

_END = """
-- KEYS: lock, job. ARGV: token, now, error ('': none), counts. Returns 1 when the lock still was the run's own.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], 'finished', ARGV[2], 'error', ARGV[3], 'counts', ARGV[4])
if ARGV[3] == '' then
  redis.call('HSET', KEYS[2], 'succeeded', ARGV[2], 'failures', 0)
else
  redis.call('HINCRBY', KEYS[2], 'failures', 1)
end
return 1
"""


class State(StrEnum):
    """How the last run stands. ``LOST``: it began and neither ended nor goes on."""

    NEVER = "never"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


class Report(Struct, frozen=True):
    """What is known of a job. Times are Unix seconds, 0.0 for none; ``every`` in seconds; ``counts`` and ``error`` are
    those of the last run that ended; ``failures`` that came one after another."""

    name: str
    every: float
    state: State
    started: float = 0.0
    finished: float = 0.0
    succeeded: float = 0.0
    counts: Counts = {}
    error: str = ""
    failures: int = 0

    @property
    def next_due(self) -> float:
        return self.started + self.every if self.started else 0.0

    @property
    def took(self) -> float | None:
        """Seconds that the last run took; None while it runs, or when it was lost."""
        return self.finished - self.started if self.started <= self.finished else None

    def is_overdue(self, now: float) -> bool:
        return bool(self.started) and self.state is not State.RUNNING and now > self.started + 2 * self.every + GRACE


def job(*, limit: float = LIMIT) -> Callable[[Callable[[], Counts | None]], Any]:
    """Makes a function the Celery task of its own name, and its runs visible. It must be safe to do twice.

    ``limit``: seconds after which another run may begin although this one has not ended.
    """

    def wrap(work: Callable[[], Counts | None]) -> Any:
        name = f"{work.__module__}.{work.__name__}"

        @functools.wraps(work)
        def run() -> bool:
            return perform(connection(), name, work, limit=limit)

        return shared_task(run, name=name)

    return wrap


def perform(client: redis.Redis, name: str, work: Callable[[], Counts | None], *, limit: float = LIMIT) -> bool:
    """One run of the job, unless one is under way: then False. Raises what ``work`` raises, after noting its class."""
    keys, token = [_lock(name), key("job", name)], secrets.token_hex(8)
    if not client.register_script(_BEGIN)(keys, [token, int(limit * 1000), time.time(), KEPT]):
        return False
    counts: Counts | None = None
    error = ""
    try:
        counts = work()
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        client.register_script(_END)(keys, [token, time.time(), error, orjson.dumps(counts or {})])
    return True


def names() -> Sequence[str]:
    """The jobs of the timetable."""
    return tuple(settings.POOLGATE_TIMETABLE)


def reports(client: redis.Redis) -> list[Report]:
    """Every job of the timetable, in its order; one round trip. Raises ``RedisError``."""
    pipe = client.pipeline(transaction=False)
    for name in settings.POOLGATE_TIMETABLE:
        pipe.hgetall(key("job", name))
        pipe.exists(_lock(name))
    answers = pipe.execute()
    return [
        _report(name, every, answers[2 * place], running=bool(answers[2 * place + 1]))
        for place, (name, every) in enumerate(settings.POOLGATE_TIMETABLE.items())
    ]


def _report(name: str, every: float, known: Mapping[bytes, bytes], *, running: bool) -> Report:
    started, finished, succeeded = (float(known.get(field, 0)) for field in (b"started", b"finished", b"succeeded"))
    error = known.get(b"error", b"").decode()
    if not started:
        state = State.NEVER
    elif finished >= started:
        state = State.FAILED if error else State.DONE
    else:
        state = State.RUNNING if running else State.LOST
    counts = cast("Counts", orjson.loads(known.get(b"counts", b"{}")))
    failures = int(known.get(b"failures", 0))
    return Report(name, every, state, started, finished, succeeded, counts, error, failures)


def _lock(name: str) -> str:
    return key("job-lock", name)
