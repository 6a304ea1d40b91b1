from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import OperationalError

from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import Caller, Lease, cooldowns_key, waiting_key
from accounts.lines import Place
from core.redis_pipe import Pipe
from gateway.ledger import Ledger
from ops import drain, trace
from ops.drain import BATCH, drain_records, reap_lost
from ops.models import RequestRecord, RequestTrace
from ops.record import Attempt, Outcome, Record, encode
from ops.recorder import PROCESSES, RECORDS, alive_key, open_key
from ops.trace import Ended, Look, Trace

DEAD = f"{RECORDS}:dead"


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def record(request_id: str, outcome: str = Outcome.OK, **fields: Any) -> Record:
    known: dict[str, Any] = {"started_at": 1_700_000_000.25, "protocol": "chat", "endpoint": "/v1/x"}
    return Record(request_id=request_id, outcome=outcome, **(known | fields))


def put(client: redis.Redis, item: Record, **fields: str) -> None:
    client.xadd(RECORDS, {"record": encode(item), **fields})  # type: ignore[dict-item]


def outcomes() -> dict[str, str]:
    return dict(RequestRecord.objects.values_list("request_id", "outcome"))


@pytest.mark.django_db
def test_records_become_rows_and_leave_the_stream(client: redis.Redis) -> None:
    attempt = Attempt(account_id=1, transport="agent_rpc", at_ms=5, reason="rate_limit", cooldown_s=5)
    put(client, record("r1", status=200, input_tokens=12, attempts=(attempt,)))
    put(client, record("r2", Outcome.INTERRUPTED))
    assert drain_records(client) == 2
    assert client.xlen(RECORDS) == 0
    row = RequestRecord.objects.get(pk="r1")
    assert (row.status, row.input_tokens, row.output_tokens) == (200, 12, None)
    assert row.attempts[0]["reason"] == "rate_limit"
    assert row.started_at.timestamp() == 1_700_000_000.25
    assert outcomes() == {"r1": "ok", "r2": "interrupted"}


@pytest.mark.django_db
def test_a_backlog_is_drained_in_few_statements(client: redis.Redis, django_assert_max_num_queries: object) -> None:
    for number in range(2 * BATCH + 1):
        put(client, record(f"r{number}"))
    with django_assert_max_num_queries(12):  # type: ignore[operator]
        assert drain_records(client) == 2 * BATCH + 1
    assert RequestRecord.objects.count() == 2 * BATCH + 1


@pytest.mark.django_db
def test_one_run_takes_no_more_than_its_share(client: redis.Redis) -> None:
    for number in range(BATCH + 5):
        put(client, record(f"r{number}"))
    assert drain_records(client, batches=1) == BATCH
    assert client.xlen(RECORDS) == 5


@pytest.mark.django_db
def test_a_record_that_comes_twice_is_one_row(client: redis.Redis) -> None:
    put(client, record("r1"))
    put(client, record("r1"))
    drain_records(client)
    put(client, record("r1"))
    drain_records(client)
    assert outcomes() == {"r1": "ok"}


@pytest.mark.django_db
@pytest.mark.parametrize("order", [("lost", "true"), ("true", "lost")])
@pytest.mark.parametrize("together", [True, False])
def test_the_true_record_stands_whenever_the_lost_one_comes(
    client: redis.Redis, order: tuple[str, str], together: bool
) -> None:
    for kind in order:
        put(client, record("r1", "" if kind == "lost" else Outcome.OK), **({"lost": "1"} if kind == "lost" else {}))
        if not together:
            drain_records(client)
    drain_records(client)
    assert outcomes() == {"r1": "ok"}


@pytest.mark.django_db
def test_a_batch_that_was_read_and_never_settled_is_taken_over(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, record("r1"))
    with monkeypatch.context() as broken:
        broken.setattr(drain, "_write", _die)
        with pytest.raises(OperationalError):
            drain_records(client)
    put(client, record("r2"))
    assert drain_records(client) == 1  # the first is too young to be taken over
    assert drain_records(client, claim_after=0) == 1
    assert outcomes() == {"r1": "ok", "r2": "ok"}
    assert client.xlen(RECORDS) == 0


def _die(entries: object) -> set[bytes]:
    raise OperationalError("the database went away")


@pytest.mark.django_db
def test_entries_that_are_no_records_go_to_the_dead_list_and_hold_up_nobody(client: redis.Redis) -> None:
    put(client, record("r1"))
    client.xadd(RECORDS, {"record": b"{"})
    client.xadd(RECORDS, {"record": b"{}"})
    client.xadd(RECORDS, {"other": b"x"})
    client.xadd(RECORDS, {"record": encode(record("r2", input_tokens=-1))})
    client.xadd(RECORDS, {"record": encode(record("r3", duration_ms=1 << 40))})
    client.xadd(RECORDS, {"record": encode(Record(request_id="r4", started_at=1e300, protocol="", endpoint=""))})
    put(client, record("r5"))
    assert drain_records(client) == 8
    assert outcomes() == {"r1": "ok", "r5": "ok"}
    assert (client.xlen(RECORDS), client.xlen(DEAD)) == (0, 6)


@pytest.mark.django_db
def test_text_that_the_database_would_refuse_is_cut_not_lost(client: redis.Redis) -> None:
    put(client, record("r1", summary="a\0" * 2000, ignored=("b\0",)))
    assert drain_records(client) == 1
    row = RequestRecord.objects.get()
    assert row.summary == "a" * 500
    assert row.ignored == ["b"]


@pytest.mark.django_db
def test_an_empty_stream_is_no_work(client: redis.Redis) -> None:
    assert drain_records(client) == 0


async def test_what_a_vanished_process_left_open_is_lost_and_its_slots_are_free(pipe: Pipe, redis_url: str) -> None:
    gone, alive = Ledger(pipe, "gone"), Ledger(pipe, "alive")
    for ledger in (gone, alive):
        await ledger.recorder.beat()
        ledger.admit(record(f"{ledger.process}-1", ""))
        await ledger.recorder.close_again(ledger.admit(record(f"{ledger.process}-2")).record)
    await pipe.call("DEL", alive_key("gone"))
    with redis.Redis.from_url(redis_url) as client:
        assert reap_lost(client) == 1
        assert reap_lost(client) == 0
        stream = [fields for _, fields in client.xrange(RECORDS)]
        assert [b"lost" in fields for fields in stream] == [False, False, True]
        assert b"gone-1" in stream[2][b"record"]
        assert client.exists(open_key("gone")) == 0
        assert client.hkeys(open_key("alive")) == [b"alive-1"]
        assert client.smembers(PROCESSES) == {b"alive"}


TRACE = trace.encode(Trace((Look(1, account=3), Ended(9, 200))))


@pytest.mark.django_db
def test_a_trace_becomes_a_row_of_its_own_and_comes_twice_for_nothing(client: redis.Redis) -> None:
    for _ in range(2):
        put(client, record("r1"), trace=TRACE.decode())
        put(client, record("r2"))
        drain_records(client)
    row = RequestTrace.objects.get()
    assert (row.pk, trace.read(row.trace)) == ("r1", trace.decode(TRACE))
    assert row.started_at.timestamp() == 1_700_000_000.25


@pytest.mark.django_db
def test_what_is_no_trace_is_left_out_and_its_record_stands(client: redis.Redis) -> None:
    put(client, record("r1"), trace='{"steps":[{"step":"look","at":1,"why":"What the caller said"}]}')
    drain_records(client)
    assert outcomes() == {"r1": "ok"}
    assert not RequestTrace.objects.exists()


async def test_all_that_a_vanished_process_held_is_free_again(
    pipe: Pipe, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slots, what its callers had running, its places in line, and the accounts that it was trying."""
    monkeypatch.setattr(Place, "leave", lambda place: None)  # it died too fast for that
    gone = Ledger(pipe, "gone")
    await gone.start()
    views = [
        AccountView(
            number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), number,
            slots=1,
        )
        for number in (1, 2)
    ]  # fmt: skip
    caller = Caller(3, 9, 4, 9, 5, 9)
    await pipe.call("HSET", cooldowns_key(2), "m", 1)
    for number in (1, 2):
        got = await gone.admit(record(f"r{number}", "")).take(views, "m", caller=caller)
        assert isinstance(got, Lease)
        assert got.canary == (got.account.id == 2)
    waiting = asyncio.create_task(gone.admit(record("r3", "")).take(views, "m", caller=caller, wait=30))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gone.stop()
    assert len(await pipe.call("KEYS", "poolgate:line:*")) == 1
    with redis.Redis.from_url(redis_url) as client:
        assert reap_lost(client) == 3
        keys = {key.decode() for key in client.scan_iter()}
        assert client.hkeys(cooldowns_key(2)) == [b"m"], "it may be tried by the next"
    assert keys <= {RECORDS, cooldowns_key(2), waiting_key("m")}, "the last goes by itself"


@pytest.mark.django_db
def test_old_traces_go_in_chunks_and_the_young_ones_stay(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "SWEPT", 2)
    now = datetime(2026, 1, 31, tzinfo=UTC)
    for number in range(5):
        RequestTrace.objects.create(request_id=f"old{number}", started_at=now - timedelta(days=14, hours=1), trace={})
    RequestTrace.objects.create(request_id="young", started_at=now - timedelta(days=13), trace={})
    assert drain.sweep_traces(now, 14) == 5
    assert [row.pk for row in RequestTrace.objects.all()] == ["young"]
