"""What runs in the background, for the operator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from msgspec import Struct
from redis import RedisError

from core import jobs as background
from core.jobs import Report
from core.redis import connection
from panel.access import PanelRequest


class Line(Struct, frozen=True):
    """A job as the page shows it. ``app`` and ``title`` are the two readable parts of its name."""

    report: Report
    overdue: bool

    @property
    def app(self) -> str:
        return self.report.name.split(".")[0]

    @property
    def title(self) -> str:
        return self.report.name.rsplit(".", 1)[-1]

    @property
    def took_ms(self) -> float | None:
        return None if self.report.took is None else self.report.took * 1000

    @property
    def every_ms(self) -> float:
        return self.report.every * 1000

    @property
    def started(self) -> datetime | None:
        return _at(self.report.started)

    @property
    def succeeded(self) -> datetime | None:
        return _at(self.report.succeeded)

    @property
    def due(self) -> datetime | None:
        return _at(self.report.next_due)


def jobs(request: PanelRequest) -> HttpResponseBase:
    return render(request, "panel/jobs.html", _live())


def jobs_live(request: PanelRequest) -> HttpResponseBase:
    """The part of the page that renews itself."""
    return render(request, "panel/parts/jobs.html", _live())


def _live() -> dict[str, Any]:
    """``lines`` is None when nothing is known: the page must open then too."""
    now = timezone.now()
    try:
        reports = background.reports(connection())
    except RedisError:
        return {"lines": None, "updated_at": now}
    return {"lines": [Line(report, report.is_overdue(now.timestamp())) for report in reports], "updated_at": now}


def _at(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
