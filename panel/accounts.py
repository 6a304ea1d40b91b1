"""The pool's accounts, for the operator."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.listing import list_accounts
from panel.access import PanelRequest


def accounts(request: PanelRequest) -> HttpResponseBase:
    return render(request, "panel/accounts.html", {"accounts": list_accounts(timezone.now())})
