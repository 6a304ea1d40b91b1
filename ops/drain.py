"""Records from the Redis stream into rows, and the records of processes that vanished.

A batch goes into the table in one statement and is taken off the stream only then: a drain that dies in between leaves
its batch to the next one, and the request id as key keeps that from making a second row. A true record replaces a
``lost`` one (the process only slept), never the other way round. A record's trace comes in the same entry and goes into
its own table in the same transaction; one that is no trace is left out, and its record stands all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import cast

import msgspec
import redis
from django.db import DataError, IntegrityError, transaction
from msgspec import Struct

from accounts.leases import held_key
from accounts.slot_scripts import SETTLE
from core.redis_pipe import Script
from core.stream import CLAIM_AFTER, Entry, Inbox
from ops import trace
from ops.models import RequestRecord, RequestTrace
from ops.record import Outcome, decode
from ops.recorder import PROCESSES, RECORDS, alive_key, open_key

BATCH = 500

REAP = Script(
    SETTLE
    + """
-- KEYS: alive, open, held, the set of processes, the records stream. ARGV: process
-- Returns how many records were lost; none when the process lives.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local open = redis.call('HGETALL', KEYS[2])
for i = 2, #open, 2 do
  redis.call('XADD', KEYS[5], '*', 'record', open[i], 'lost', 1)
end
for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
  give_back_all(KEYS[3], string.match(field, '^[^|]+'))
end
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('SREM', KEYS[4], ARGV[1])
return #open / 2
"""
)

_UPDATED = [item.name for item in RequestRecord._meta.concrete_fields if not item.primary_key]

SWEPT = 5_000
"""Traces deleted in one statement."""


class _Row(Struct, frozen=True):
    entry: Entry
    record: RequestRecord
    trace: RequestTrace | None


def drain_records(client: redis.Redis, *, batches: int = 20, claim_after: float = CLAIM_AFTER) -> int:
    """Writes what is on the stream, at most ``batches`` × 500. Returns how many entries left it.

    Raises ``redis.RedisError`` and ``django.db.OperationalError``; what was not written stays for the next time.
    """
    inbox = Inbox(client, RECORDS, claim_after=claim_after)
    done = 0
    for _ in range(batches):
        entries = inbox.read(BATCH)
        inbox.settle(entries, _write(entries))
        done += len(entries)
        if len(entries) < BATCH:
            break
    return done


def reap_lost(client: redis.Redis) -> int:
    """Moves what vanished processes left open to the stream, as lost, and frees their slots. Returns how many."""
    lost = 0
    for name in cast("set[bytes]", client.smembers(PROCESSES)):
        process = name.decode()
        keys = [alive_key(process), open_key(process), held_key(process), PROCESSES, RECORDS]
        lost += cast("int", client.eval(REAP.text, len(keys), *keys, process))
    return lost


def sweep_traces(now: datetime, days: float) -> int:
    """Deletes traces older than ``days``, a chunk at a time, so that no statement holds the table for long. Returns how
    many."""
    old = RequestTrace.objects.filter(started_at__lt=now - timedelta(days=days))
    deleted = 0
    while chunk := list(old.values_list("pk", flat=True)[:SWEPT]):
        deleted += RequestTrace.objects.filter(pk__in=chunk).delete()[0]
    return deleted


def _write(entries: Iterable[Entry]) -> set[bytes]:
    """Inserts what can be inserted. Returns the ids of entries that cannot."""
    rows: list[_Row] = []
    dead: set[bytes] = set()
    for entry in entries:
        record = _record(entry)
        if record is None:
            dead.add(entry.id)
        else:
            rows.append(_Row(entry, record, _trace(entry, record)))
    try:
        _insert(rows)
    except (DataError, IntegrityError):
        dead.update(_insert_singly(rows))
    return dead


def _record(entry: Entry) -> RequestRecord | None:
    try:
        record = decode(entry.fields[b"record"])
        if b"lost" in entry.fields:
            record.outcome = Outcome.LOST
        return RequestRecord.from_record(record)
    except (KeyError, msgspec.MsgspecError, ValueError, OverflowError, OSError):
        return None


def _trace(entry: Entry, record: RequestRecord) -> RequestTrace | None:
    """None without one, and for what holds anything that a trace may not."""
    data = entry.fields.get(b"trace")
    if data is None:
        return None
    try:
        value = trace.builtins(trace.decode(data))
    except msgspec.MsgspecError:
        return None
    return RequestTrace(request_id=record.request_id, started_at=record.started_at, trace=value)


def _insert(rows: Sequence[_Row]) -> None:
    # By request id: one statement may not touch a row twice.
    records = [row.record for row in rows]
    lost = {record.request_id: record for record in records if record.outcome == Outcome.LOST}
    true = {record.request_id: record for record in records if record.outcome != Outcome.LOST}
    traces = {row.trace.request_id: row.trace for row in rows if row.trace is not None}
    with transaction.atomic():
        RequestRecord.objects.bulk_create(
            true.values(), update_conflicts=True, unique_fields=["request_id"], update_fields=_UPDATED
        )
        RequestRecord.objects.bulk_create(lost.values(), ignore_conflicts=True)
        RequestTrace.objects.bulk_create(traces.values(), ignore_conflicts=True)


def _insert_singly(rows: Iterable[_Row]) -> set[bytes]:
    refused: set[bytes] = set()
    for row in rows:
        try:
            _insert([row])
        except (DataError, IntegrityError):
            refused.add(row.entry.id)
    return refused
