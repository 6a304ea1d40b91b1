"""Sign-in, sign-out and one's own password."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from redis import RedisError

from panel import throttle
from panel.access import PanelRequest, Role, actor_of
from tenants.verbs import change_password

NOT_ACCEPTED = "That name and password do not belong together."
NOT_AVAILABLE = "Signing in is not possible right now: Redis does not answer. Try again in a moment."


@sensitive_post_parameters("password")
def sign_in(request: PanelRequest) -> HttpResponseBase:
    """The same words whether the name is unknown, the password wrong or the user switched off."""
    target = _next(request)
    if request.visitor.role is not Role.ANYONE:
        return redirect(target)
    if request.method != "POST":
        return _form(request, target, "", 200)
    address, name = request.META.get("REMOTE_ADDR", ""), request.POST.get("username", "")[:150]
    try:
        wait = throttle.count_attempt(address, name)
        if wait:
            response = _form(request, target, f"Too many attempts. Try again in {-(-wait // 60)} min.", 429)
            response.headers["Retry-After"] = str(wait)
            return response
        form = AuthenticationForm(request, data=request.POST)
        if not form.is_valid():
            return _form(request, target, NOT_ACCEPTED, 400)
        throttle.forget_attempts(address, name)
    except RedisError:
        return _form(request, target, NOT_AVAILABLE, 503)
    login(request, form.get_user())
    return redirect(target)


def sign_out(request: HttpRequest) -> HttpResponseBase:
    logout(request)
    return redirect("sign_in")


@sensitive_post_parameters()
def password(request: PanelRequest) -> HttpResponseBase:
    """Changes one's own password; with the one-time password still in force this is the only page there is."""
    user = request.user
    assert isinstance(user, User)  # noqa: S101 (the access table lets nobody else in)
    form = PasswordChangeForm(user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        change_password(user, form.cleaned_data["new_password1"], actor=actor_of(request))
        update_session_auth_hash(request, user)
        messages.success(request, "Your password is changed. Other sessions of yours are signed out.")
        return redirect("overview")
    status = 400 if form.errors else 200
    context = {"form": form, "forced": request.visitor.must_change_password}
    return render(request, "panel/password.html", context, status=status)


def _form(request: PanelRequest, target: str, error: str, status: int) -> HttpResponse:
    context = {"next": target, "error": error, "name": request.POST.get("username", "")[:150]}
    return render(request, "panel/sign_in.html", context, status=status)


def _next(request: HttpRequest) -> str:
    """Where to go afterwards: a path of ours, never another site."""
    target = request.POST.get("next") or request.GET.get("next") or "/"
    safe = url_has_allowed_host_and_scheme(target, allowed_hosts=None, require_https=request.is_secure())
    return target if safe and not target.startswith(reverse("sign_in")) else "/"
