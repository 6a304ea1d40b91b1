"""Who may open which page. Denied by default: a URL that has no row in ``RULES`` does not exist.

``AccessMiddleware`` asks this table before any view runs, so no view can forget to. The table says who may come in;
which rows he then sees is his ``Scope`` (``request.visitor.scope``), and a row outside of it answers 404.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.http.response import HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from msgspec import Struct

from core.audit import Actor
from tenants.models import Membership, Profile
from tenants.models import Role as TeamRole
from tenants.scope import Scope


class Role(IntEnum):
    """Each may do what the ones before it may. A person with several teams counts by the highest role."""

    ANYONE = 0
    SIGNED_IN = 1  # without a team
    VIEWER = 2
    MEMBER = 3
    ADMIN = 4  # of a team
    OWNER = 5  # the operator of this installation: a Django superuser


_OF_TEAM_ROLE = {
    TeamRole.VIEWER: Role.VIEWER,
    TeamRole.MEMBER: Role.MEMBER,
    TeamRole.ADMIN: Role.ADMIN,
    TeamRole.OWNER: Role.ADMIN,
}


class Rule(Struct, frozen=True):
    """``least`` is the lowest role that may use the route with one of ``methods``."""

    least: Role
    methods: frozenset[str] = frozenset({"GET", "HEAD"})
    before_password_change: bool = False


_READ_AND_SEND = frozenset({"GET", "HEAD", "POST"})
_ASK = frozenset({"GET"})

RULES: Mapping[str, Rule] = {
    "sign_in": Rule(Role.ANYONE, _READ_AND_SEND, before_password_change=True),
    "sign_out": Rule(Role.SIGNED_IN, frozenset({"POST"}), before_password_change=True),
    "password": Rule(Role.SIGNED_IN, _READ_AND_SEND, before_password_change=True),
    "overview": Rule(Role.SIGNED_IN),
    "overview_live": Rule(Role.SIGNED_IN),
    "overview_chart": Rule(Role.SIGNED_IN),
    "requests": Rule(Role.SIGNED_IN),
    "request": Rule(Role.SIGNED_IN),
    "accounts": Rule(Role.OWNER),
    "account_new": Rule(Role.OWNER, _READ_AND_SEND),
    "account": Rule(Role.OWNER, _READ_AND_SEND),
    "account_act": Rule(Role.OWNER, frozenset({"POST"})),
    "account_key": Rule(Role.OWNER, frozenset({"POST"})),
    "account_delete": Rule(Role.OWNER, frozenset({"POST"})),
    "account_test": Rule(Role.OWNER, frozenset({"POST"})),
    "jobs": Rule(Role.OWNER),
    "jobs_live": Rule(Role.OWNER),
    "keys": Rule(Role.OWNER),
    "key_new": Rule(Role.OWNER, _READ_AND_SEND),
    "key": Rule(Role.OWNER, _READ_AND_SEND),
    "key_revoke": Rule(Role.OWNER, frozenset({"POST"})),
    "settings": Rule(Role.OWNER, _READ_AND_SEND),
    "settings_save": Rule(Role.OWNER, frozenset({"POST"})),
    "settings_history": Rule(Role.OWNER),
    "api:api-root": Rule(Role.SIGNED_IN, _ASK),
    "api:openapi-json": Rule(Role.SIGNED_IN, _ASK),
    "api:openapi-view": Rule(Role.SIGNED_IN, _ASK),
    "api:route_check": Rule(Role.MEMBER, _ASK),
    "api:drill": Rule(Role.OWNER, frozenset({"GET", "POST"})),
}

API = "api:"
"""Begins the names of routes that are asked by programs: they are refused in JSON and sent nowhere."""


class Visitor(Struct, frozen=True):
    """The person behind a request, read once: at most two queries."""

    role: Role
    scope: Scope
    must_change_password: bool = False

    @property
    def is_owner(self) -> bool:
        return self.role is Role.OWNER


class PanelRequest(HttpRequest):
    """What a panel view gets: ``AccessMiddleware`` has put the visitor there."""

    visitor: Visitor


def visitor_of(user: User | AnonymousUser) -> Visitor:
    """Role, scope and whether the one-time password still stands."""
    if not user.is_authenticated:
        return Visitor(Role.ANYONE, Scope())
    must_change = Profile.objects.filter(user_id=user.pk, must_change_password=True).exists()
    if user.is_superuser:
        return Visitor(Role.OWNER, Scope(everything=True), must_change)
    roles = dict(Membership.objects.filter(user_id=user.pk).values_list("team_id", "role"))
    role = max((_OF_TEAM_ROLE[TeamRole(name)] for name in roles.values()), default=Role.SIGNED_IN)
    return Visitor(role, Scope(team_ids=frozenset(roles)), must_change)


def actor_of(request: HttpRequest, reason: str = "") -> Actor:
    """Who the audit trail names for what this request does, and the reason that they gave."""
    return Actor(request.user.get_username(), request.META.get("REMOTE_ADDR") or None, reason)


class AccessMiddleware:
    """Applies ``RULES`` once the route is known, and lets nobody cache what one person was shown.

    Must stand after Django's authentication.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        add_never_cache_headers(response)
        return response

    def process_view(
        self, request: PanelRequest, view: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> HttpResponseBase | None:
        match = request.resolver_match
        rule = RULES.get(match.view_name) if match else None
        if rule is None or "\0" in request.path:  # nothing that Postgres holds has a NUL in its name
            raise Http404
        request.visitor = visitor = visitor_of(request.user)
        if match is not None and match.view_name.startswith(API) and (refused := _refuse_program(request, rule)):
            return refused
        if visitor.role < rule.least and visitor.role is Role.ANYONE:
            return _redirect(request, f"{reverse('sign_in')}?{urlencode({'next': request.get_full_path()})}")
        if visitor.role < rule.least:
            raise PermissionDenied
        if request.method not in rule.methods:
            return HttpResponseNotAllowed(sorted(rule.methods))
        if visitor.must_change_password and not rule.before_password_change:
            return _redirect(request, reverse("password"))
        return None


def api_error(status: int, code: str, message: str, param: str | None = None) -> HttpResponse:
    """An error of the management API."""
    return JsonResponse({"error": {"code": code, "message": message, "param": param}}, status=status)


def _refuse_program(request: PanelRequest, rule: Rule) -> HttpResponseBase | None:
    visitor = request.visitor
    if visitor.role < rule.least and visitor.role is Role.ANYONE:
        return api_error(401, "not_signed_in", "Sign in first.")
    if visitor.role < rule.least:
        return api_error(403, "not_allowed", "Your role may not use this.")
    if visitor.must_change_password:
        return api_error(403, "password_change_needed", "Choose a password of your own first.")
    return None


def _redirect(request: HttpRequest, target: str) -> HttpResponseBase:
    """A live fragment must not be replaced by a whole page: htmx is told to move the browser instead."""
    if "HX-Request" in request.headers:
        return HttpResponse(status=401, headers={"HX-Redirect": target.partition("?")[0]})
    return HttpResponseRedirect(target)
