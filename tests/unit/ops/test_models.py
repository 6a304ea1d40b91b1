from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from ops.models import RequestRecord
from ops.record import Attempt, Outcome, Record, decode, encode

FULL = Record(
    request_id="req_1",
    started_at=1_700_000_000.5,
    protocol="chat",
    endpoint="/v1/chat/completions",
    team_id=1,
    key_id=2,
    account_id=3,
    outcome=Outcome.OK,
    status=200,
    ignored=("seed",),
    attempts=(Attempt(3, "agent_rpc", 5, took_ms=7, reason="quota", cooldown_s=60), Attempt(4, "agent_rpc", 12)),
    input_tokens=0,
)


def test_every_field_of_a_record_has_a_column() -> None:
    columns = {field.name for field in RequestRecord._meta.concrete_fields}
    assert columns == {field.name for field in msgspec.structs.fields(Record)}


@pytest.mark.django_db
def test_a_record_survives_the_stream_and_the_row() -> None:
    RequestRecord.objects.bulk_create([RequestRecord.from_record(decode(encode(FULL)))])
    row = RequestRecord.objects.get()
    assert row.started_at == datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC)
    assert (row.team_id, row.key_id, row.account_id, row.outcome, row.status) == (1, 2, 3, "ok", 200)
    assert (row.input_tokens, row.output_tokens) == (0, None)
    assert row.ignored == ["seed"]
    assert row.attempts == [
        {"account_id": 3, "transport": "agent_rpc", "at_ms": 5, "took_ms": 7, "reason": "quota", "cooldown_s": 60},
        {"account_id": 4, "transport": "agent_rpc", "at_ms": 12},
    ]


@pytest.mark.django_db
def test_odd_text_is_cut_to_size_instead_of_stopping_the_batch() -> None:
    odd = msgspec.structs.replace(FULL, model="m\0" * 500, endpoint="/" + "x" * 999, ignored=("\0" + "n" * 99,) * 99)
    RequestRecord.objects.bulk_create([RequestRecord.from_record(odd)])
    row = RequestRecord.objects.get()
    assert row.model == "m" * 160
    assert len(row.endpoint) == 128
    assert row.ignored == ["n" * 64] * 50


@pytest.mark.django_db
def test_the_same_record_twice_is_one_row() -> None:
    rows = [RequestRecord.from_record(FULL)]
    for _ in range(2):
        RequestRecord.objects.bulk_create(rows, ignore_conflicts=True)
    assert RequestRecord.objects.count() == 1
