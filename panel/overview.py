"""The first page: how the pool does, what the last hour brought, how to connect."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts import listing as pool
from ops import queries
from panel.access import PanelRequest

RECENT = 15


def overview(request: PanelRequest) -> HttpResponseBase:
    origin = request.build_absolute_uri("/").rstrip("/")
    context = _live(request) | {"origin": origin, "example_model": pool.name_example_model() or "MODEL"}
    return render(request, "panel/overview.html", context)


def overview_live(request: PanelRequest) -> HttpResponseBase:
    """The part of the page that renews itself."""
    return render(request, "panel/parts/live.html", _live(request))


def overview_chart(request: PanelRequest) -> HttpResponseBase:
    """Requests of the last hour by minute, as ``ops.queries.count_by_minute`` shapes them."""
    return JsonResponse(queries.count_by_minute(request.visitor.scope, timezone.now()))


def _live(request: PanelRequest) -> dict[str, Any]:
    now, scope = timezone.now(), request.visitor.scope
    context: dict[str, Any] = {
        "summary": queries.summarise(scope, now - timedelta(hours=1)),
        "recent": queries.list_requests(scope, queries.Filters(), now, RECENT).lines,
        "updated_at": now,
    }
    if request.visitor.is_owner:
        accounts = pool.list_accounts(now)
        context |= {"accounts": accounts, "conditions": pool.count_by_condition(accounts)}
    return context
