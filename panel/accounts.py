"""The pool's accounts, for the operator."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from redis import RedisError

from accounts import health
from accounts.listing import list_accounts
from accounts.models import Account
from accounts.proxies import Line, list_proxies
from core.invalid import InvalidValue
from core.redis import connection
from panel.access import PanelRequest, actor_of


def accounts(request: PanelRequest) -> HttpResponseBase:
    return _page(request)


def account_test(request: PanelRequest) -> HttpResponseBase:
    """Asks one account now, and says on the page what it said. ``end_rests`` "yes": who answers rests no more."""
    number = request.POST.get("account", "")
    row = Account.objects.filter(pk=number).first() if number.isdecimal() and len(number) < 10 else None
    if row is None:
        messages.error(request, "That account is not there any more.")
        return _page(request, status=400)
    try:
        answer = health.ask_now(row, end_rests=request.POST.get("end_rests") == "yes", actor=actor_of(request))
    except InvalidValue as error:
        messages.error(request, f"{row.name}: {error.sentence}")
        return _page(request, status=400)
    (messages.success if answer.reason is None else messages.error)(request, answer.tell(row.name))
    return redirect("accounts")


def _page(request: PanelRequest, status: int = 200) -> HttpResponseBase:
    now = timezone.now()
    context = {"accounts": list_accounts(now), "proxies": _proxies(now)}
    return render(request, "panel/accounts.html", context, status=status)


def _proxies(now: datetime) -> list[Line] | None:
    """None when Redis does not answer: the page about accounts must open then too."""
    try:
        return list_proxies(connection(), now)
    except RedisError:
        return None
