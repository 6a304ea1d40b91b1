"""Adding, editing and removing accounts, for the operator: pages over the verbs of ``accounts.verbs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.contrib import messages
from django.forms import Form
from django.http import Http404
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from redis import RedisError

from accounts import verbs
from accounts.compile import AccountState
from accounts.kinds import AccountKind
from accounts.listing import list_accounts
from accounts.models import Account
from core.invalid import InvalidValue
from panel.access import PanelRequest, actor_of
from panel.account_forms import (
    AccountForm,
    CursorForm,
    KeyForm,
    ProviderEditForm,
    ProviderForm,
    TextForm,
    new_values,
    provider_values,
)

KINDS: Mapping[str, tuple[str, type[AccountForm], Callable[..., Account]]] = {
    AccountKind.CURSOR: ("New Cursor account", CursorForm, verbs.create_cursor_account),
    AccountKind.TEXT_CHAT: ("New text server", TextForm, verbs.create_text_account),
    AccountKind.PROVIDER: ("New provider", ProviderForm, verbs.create_provider_account),
}
"""Kind → what its page is called, its form, and the verb that makes one."""


def account_new(request: PanelRequest, kind: str) -> HttpResponseBase:
    """Adds an account of a kind; Http404 for what is none."""
    if kind not in KINDS:
        raise Http404
    title, form_class, create = KINDS[kind]
    if request.method != "POST":
        return render(request, "panel/account_new.html", {"form": form_class(initial=new_values(kind)), "title": title})
    form = form_class(request.POST)
    if form.is_valid():
        try:
            row = create(**form.columns(), actor=actor_of(request))
        except InvalidValue as error:
            form.refuse(_as_shown(error))
        else:
            messages.success(request, f"{row.name} is in the pool within a second.")
            return redirect("account", row.pk)
    return render(request, "panel/account_new.html", {"form": form, "title": title}, status=400)


def account(request: PanelRequest, number: int) -> HttpResponseBase:
    """One account: how it is, what can be done with it, and for a provider its settings."""
    row = _find(number)
    if request.method != "POST":
        return _page(request, row)
    if row.kind != AccountKind.PROVIDER:
        messages.error(request, "Only provider accounts have settings here.")
        return _page(request, row, status=400)
    form = ProviderEditForm(request.POST)
    if form.is_valid():
        try:
            verbs.update_provider_account(row, **form.columns(), actor=actor_of(request))
        except InvalidValue as error:
            form.refuse(_as_shown(error))
        else:
            messages.success(request, f"{row.name} is saved, in force within a second.")
            return redirect("account", row.pk)
    return _page(request, _find(number), form=form, status=400)


def account_act(request: PanelRequest, number: int) -> HttpResponseBase:
    """``action``: enable, disable, drain, fill or wake."""
    row, actor = _find(number), actor_of(request)
    try:
        match request.POST.get("action"):
            case "enable" | "disable" as action:
                verbs.set_enabled(row, action == "enable", actor=actor)
            case "drain" | "fill" as action:
                verbs.set_draining(row, action == "drain", actor=actor)
            case "wake":
                verbs.set_state(row, AccountState.READY, actor=actor)
                verbs.clear_cooldowns(row, actor=actor)
            case _:
                messages.error(request, "There is no such action.")
                return _page(request, row, status=400)
    except RedisError:
        messages.error(request, "Redis does not answer: rests cannot be ended now.")
        return _page(request, _find(number), status=503)
    messages.success(request, f"{row.name}: done, in force within a second.")
    return redirect("account", row.pk)


def account_key(request: PanelRequest, number: int) -> HttpResponseBase:
    """Replaces the key. An account that waited for one is ready again."""
    row = _find(number)
    form = KeyForm(request.POST)
    if form.is_valid():
        try:
            verbs.replace_credential(row, form.cleaned_data["api_key"], actor=actor_of(request))
        except InvalidValue as error:
            form.refuse(error)
        else:
            messages.success(request, f"{row.name} has a new key.")
            return redirect("account", row.pk)
    return _page(request, row, key_form=form, status=400)


def account_delete(request: PanelRequest, number: int) -> HttpResponseBase:
    """Only with the box ticked: the key goes with the account."""
    row = _find(number)
    if request.POST.get("sure") != "yes":
        return _page(request, row, status=400, unsure=True)
    verbs.delete_account(row, actor=actor_of(request))
    messages.success(request, f"{row.name} is gone. Its records stay.")
    return redirect("accounts")


def _page(
    request: PanelRequest,
    row: Account,
    *,
    form: Form | None = None,
    key_form: KeyForm | None = None,
    status: int = 200,
    unsure: bool = False,
) -> HttpResponseBase:
    if form is None and row.kind == AccountKind.PROVIDER:
        form = ProviderEditForm(initial=provider_values(row))
    line = next(line for line in list_accounts(timezone.now()) if line.account.pk == row.pk)
    context = {"row": row, "line": line, "form": form, "key_form": key_form or KeyForm(), "unsure": unsure}
    return render(request, "panel/account.html", context, status=status)


def _find(number: int) -> Account:
    row = Account.objects.select_related("channel").filter(pk=number).first()
    if row is None:
        raise Http404
    return row


def _as_shown(error: InvalidValue) -> InvalidValue:
    """Some columns are checked under names of their own."""
    return InvalidValue({"models": "names"}.get(error.field, error.field), error.sentence)
