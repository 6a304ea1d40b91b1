"""What pages ask of the request records. Read only; each takes the ``Scope`` of the person who looks.

Lists use keyset pages and a bounded window, so that their cost does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Aggregate, Count, FloatField, Q, QuerySet, Sum
from django.db.models.functions import TruncMinute
from msgspec import Struct

from accounts.models import Account
from ops.models import RequestRecord, RequestTrace
from ops.record import Outcome
from ops.trace import Trace, read
from tenants.models import ApiKey, Team
from tenants.scope import Scope

PAGE_SIZE = 50
MAX_HOURS = 30 * 24

CALLER_OUTCOMES = frozenset({Outcome.CLIENT_ERROR, Outcome.REJECTED, Outcome.CLIENT_GONE})
"""Ends that the caller brought about, or that our own limits meant for him. All but these and ``OK`` are failures."""


class Filters(Struct, frozen=True):
    """What a list of requests is narrowed to; empty means not narrowed. ``before`` is a page's ``next_before``."""

    outcome: str = ""
    protocol: str = ""
    model: str = ""
    hours: int = 24
    before: str = ""


class Line(Struct, frozen=True):
    """A record with the names that belong to its ids ("" when the row is gone)."""

    record: RequestRecord
    team: str = ""
    key: str = ""


class Page(Struct, frozen=True):
    lines: Sequence[Line]
    next_before: str = ""


class Summary(Struct, frozen=True):
    """Counts of one window, the most frequent outcome first.

    ``ok_share`` leaves out what was the caller's doing; None when nothing is left.
    """

    by_outcome: dict[str, int]
    input_tokens: int
    output_tokens: int
    median_ms: float | None
    median_first_token_ms: float | None

    @property
    def total(self) -> int:
        return sum(self.by_outcome.values())

    @property
    def ok_share(self) -> float | None:
        ours = sum(count for outcome, count in self.by_outcome.items() if outcome not in CALLER_OUTCOMES)
        return self.by_outcome.get(Outcome.OK, 0) / ours if ours else None


class Median(Aggregate):
    function = "PERCENTILE_CONT"
    name = "Median"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


def visible(scope: Scope) -> QuerySet[RequestRecord]:
    """The records that the scope may see: the one place where tenants are kept apart."""
    rows = RequestRecord.objects.all()
    return rows if scope.everything else rows.filter(team_id__in=scope.team_ids)


def summarise(scope: Scope, since: datetime) -> Summary:
    """Two queries, both on the time index."""
    rows = visible(scope).filter(started_at__gte=since)
    counts = dict(rows.values_list("outcome").annotate(number=Count("pk")).order_by("-number"))
    sums = rows.aggregate(
        input=Sum("input_tokens"),
        output=Sum("output_tokens"),
        median=Median("duration_ms", filter=Q(outcome=Outcome.OK)),
        first=Median("first_token_ms", filter=Q(outcome=Outcome.OK)),
    )
    return Summary(counts, sums["input"] or 0, sums["output"] or 0, sums["median"], sums["first"])


def count_by_minute(scope: Scope, until: datetime, minutes: int = 60) -> dict[str, list[int]]:
    """Chart data: ``at`` (Unix seconds, one per minute, oldest first) beside ``ok``, ``caller`` and ``failed``."""
    first = until.replace(second=0, microsecond=0) - timedelta(minutes=minutes - 1)
    rows = visible(scope).filter(started_at__gte=first, started_at__lte=until).order_by()
    counted = rows.annotate(minute=TruncMinute("started_at")).values_list("minute", "outcome").annotate(Count("pk"))
    start = int(first.timestamp())
    series = {"at": [start + 60 * i for i in range(minutes)]} | {
        name: [0] * minutes for name in ("ok", "caller", "failed")
    }
    for minute, outcome, count in counted:
        series[outcome_group(outcome)][(int(minute.timestamp()) - start) // 60] += count
    return series


def outcome_group(outcome: str) -> str:
    """``ok``, ``caller`` or ``failed``: three colours say more on a chart than eight."""
    if outcome == Outcome.OK:
        return "ok"
    return "caller" if outcome in CALLER_OUTCOMES else "failed"


def list_requests(scope: Scope, filters: Filters, now: datetime, size: int = PAGE_SIZE) -> Page:
    """Newest first; three queries. Raises ``ValueError`` for a ``before`` that no page gave out."""
    rows = visible(scope).filter(started_at__gte=now - timedelta(hours=min(filters.hours, MAX_HOURS)))
    for name in ("outcome", "protocol", "model"):
        if value := getattr(filters, name):
            rows = rows.filter(**{name: value})
    if filters.before:
        at, request_id = _read_cursor(filters.before)
        rows = rows.filter(Q(started_at__lt=at) | Q(started_at=at, request_id__lt=request_id))
    found = list(rows.order_by("-started_at", "-request_id")[: size + 1])
    more = len(found) > size
    return Page(_named(found[:size]), _write_cursor(found[size - 1]) if more else "")


def find_request(scope: Scope, request_id: str) -> Line | None:
    """None also when the record is another team's: a foreign id looks like no id."""
    found = visible(scope).filter(request_id=request_id).first()
    return _named([found])[0] if found else None


def find_trace(record: RequestRecord) -> Trace | None:
    """The trace of a record that the visitor may see; None when none is kept (any more)."""
    row = RequestTrace.objects.filter(pk=record.pk).first()
    return read(row.trace) if row is not None else None


def name_accounts(ids: Sequence[int]) -> dict[int, str]:
    """Account id → name, for the operator's eyes only."""
    return dict(Account.objects.filter(pk__in=ids).values_list("pk", "name"))


def _named(records: Sequence[RequestRecord]) -> list[Line]:
    teams = dict(Team.objects.filter(pk__in={row.team_id for row in records}).values_list("pk", "name"))
    keys = dict(ApiKey.objects.filter(pk__in={row.key_id for row in records}).values_list("pk", "name"))
    return [Line(row, teams.get(row.team_id or 0, ""), keys.get(row.key_id or 0, "")) for row in records]


def _write_cursor(record: RequestRecord) -> str:
    return f"{record.started_at.isoformat()}~{record.request_id}"


def _read_cursor(text: str) -> tuple[datetime, str]:
    stamp, _, request_id = text.partition("~")
    at = datetime.fromisoformat(stamp)
    if at.tzinfo is None or not request_id:
        raise ValueError("This page does not exist.")
    return at, request_id
