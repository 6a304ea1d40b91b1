"""The request log. One row per admitted request, written by the drain of the Redis stream, never on the hot path."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Self

import msgspec
from django.db import models

from ops.record import Outcome, Record


class RequestRecord(models.Model):
    """``ops.record.Record`` as a row; same names, same units. Team, key and account are ids without a foreign key:
    the log outlives them, and inserting a batch checks nothing.
    """

    request_id = models.CharField(max_length=64, primary_key=True)
    started_at = models.DateTimeField(db_index=True)
    protocol = models.CharField(max_length=16)
    endpoint = models.CharField(max_length=128)
    team_id = models.BigIntegerField(null=True)
    key_id = models.BigIntegerField(null=True)
    key_prefix = models.CharField(max_length=8, blank=True)
    client_request_id = models.CharField(max_length=128, blank=True)
    client_ip = models.CharField(max_length=45, blank=True)
    client = models.CharField(max_length=64, blank=True)
    model = models.CharField(max_length=160, blank=True)
    upstream_model = models.CharField(max_length=160, blank=True)
    stream = models.BooleanField(default=False)
    process = models.CharField(max_length=64, blank=True)
    account_id = models.BigIntegerField(null=True)
    group_id = models.BigIntegerField(null=True)
    transport = models.CharField(max_length=32, blank=True)
    outcome = models.CharField(max_length=16, choices=[(item.value, item.value) for item in Outcome])
    status = models.PositiveSmallIntegerField(default=0)
    code = models.CharField(max_length=64, blank=True)
    reason = models.CharField(max_length=32, blank=True)
    culprit = models.CharField(max_length=16, blank=True)
    stage = models.CharField(max_length=16, blank=True)
    finish = models.CharField(max_length=32, blank=True)
    committed = models.BooleanField(default=False)
    in_stream_error = models.BooleanField(default=False)
    duration_ms = models.PositiveIntegerField(default=0)
    body_ms = models.PositiveIntegerField(default=0)
    overhead_ms = models.PositiveIntegerField(default=0)
    wait_ms = models.PositiveIntegerField(default=0)
    first_token_ms = models.PositiveIntegerField(null=True)
    request_bytes = models.PositiveBigIntegerField(default=0)
    response_bytes = models.PositiveBigIntegerField(default=0)
    message_count = models.PositiveIntegerField(default=0)
    tool_count = models.PositiveIntegerField(default=0)
    schema_bytes = models.PositiveBigIntegerField(default=0)
    image_count = models.PositiveIntegerField(default=0)
    image_bytes = models.PositiveBigIntegerField(default=0)
    prompt_bytes = models.PositiveBigIntegerField(default=0)
    tool_choice = models.CharField(max_length=16, blank=True)
    tool_choice_unsatisfied = models.BooleanField(default=False)
    tool_call_count = models.PositiveIntegerField(default=0)
    summary = models.CharField(max_length=500, blank=True)
    ignored = models.JSONField(default=list)
    budget = models.CharField(max_length=32, blank=True)
    budget_limit = models.BigIntegerField(null=True)
    budget_actual = models.BigIntegerField(null=True)
    input_estimate = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cache_read_tokens = models.PositiveBigIntegerField(null=True)
    cache_write_tokens = models.PositiveBigIntegerField(null=True)
    reasoning_tokens = models.PositiveBigIntegerField(null=True)
    usage_source = models.CharField(max_length=16, blank=True)
    structured = models.CharField(max_length=16, blank=True)
    attempts = models.JSONField(default=list)

    class Meta:
        ordering = ["-started_at"]
        indexes = [
            models.Index(fields=["team_id", "-started_at"]),
            models.Index(fields=["key_id", "-started_at"]),
            models.Index(fields=["account_id", "-started_at"]),
            models.Index(fields=["outcome", "-started_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.outcome}"

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """An unsaved row. Text is cut to its column and stripped of NUL, so that one odd record cannot stop a batch."""
        values: dict[str, Any] = msgspec.structs.asdict(record)
        for name, width in _WIDTHS.items():
            values[name] = _clean(values[name], width)
        values["started_at"] = datetime.fromtimestamp(record.started_at, UTC)
        values["ignored"] = [_clean(name, 64) for name in record.ignored[:50]]  # callers choose these names
        values["attempts"] = [msgspec.to_builtins(attempt) for attempt in record.attempts]
        return cls(**values)


class RequestTrace(models.Model):
    """``ops.trace.Trace`` as a row, kept for ``trace_days``. Apart from the records, which live longer and are read in
    long lists."""

    request_id = models.CharField(max_length=64, primary_key=True)
    started_at = models.DateTimeField(db_index=True)
    trace = models.JSONField()

    def __str__(self) -> str:
        return f"trace of {self.request_id}"


def _clean(text: str, width: int) -> str:
    return text.replace("\0", "")[:width]


_WIDTHS = {
    item.name: item.max_length
    for item in RequestRecord._meta.concrete_fields
    if isinstance(item, models.CharField) and item.max_length
}
