from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import URLResolver, get_resolver, path, reverse

from accounts.models import Account
from panel.access import API, RULES, Role
from panel.accounts import accounts
from panel.urls import urlpatterns
from tenants.models import ApiKey, Team
from tenants.models import Role as TeamRole
from tests.unit.panel.conftest import make_record, make_user, signed_in

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
NUMBER = 70_001
ARGUMENTS: dict[str, list[object]] = {
    "request": ["req-red"],
    "key": ["keyofred"],
    "key_revoke": ["keyofred"],
    "account_new": ["provider"],
    **{name: [NUMBER] for name in ("account", "account_act", "account_key", "account_delete")},
}


def named_routes(resolver: URLResolver, space: str = "") -> Iterator[str]:
    """The names of all routes, those of included APIs with their namespace in front."""
    yield from (space + name for name in resolver.reverse_dict if isinstance(name, str))
    for name, (_, inner) in resolver.namespace_dict.items():
        yield from named_routes(inner, f"{space}{name}:")


def address(name: str) -> str:
    return reverse(name, args=ARGUMENTS.get(name, []))


@pytest.fixture
def people(red: Team, blue: Team, owner: User) -> dict[Role, Client]:
    make_record("req-red", red.pk)
    ApiKey.objects.create(team=red, name="laptop", public_id="keyofred", digest=b"", last_four="abcd")
    Account.objects.create(pk=NUMBER, name="a", kind="cursor", transport="agent_rpc", base_url="https://a.example")
    return {
        Role.ANYONE: Client(),
        Role.SIGNED_IN: signed_in(make_user("loner")),
        Role.VIEWER: signed_in(make_user("viewer", red)),
        Role.MEMBER: signed_in(make_user("member", red, TeamRole.MEMBER)),
        Role.ADMIN: signed_in(make_user("admin-of-red", red, TeamRole.ADMIN)),
        Role.OWNER: signed_in(owner),
    }


def test_each_route_has_a_rule_and_each_rule_a_route() -> None:
    assert set(named_routes(get_resolver())) == set(RULES)


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_role_meets_exactly_what_the_table_says(people: dict[Role, Client], name: str) -> None:
    rule = RULES[name]
    for role, client in people.items():
        for method in METHODS:
            if name == "sign_out" and method == "POST" and role >= rule.least:
                continue  # ends the session that the next line of the walk needs; test_sign_in has it
            response = client.generic(method, address(name))
            expected = _expected(name, role, method)
            assert expected(response.status_code), (name, role, method, response.status_code)


def _expected(name: str, role: Role, method: str) -> Callable[[int], bool]:
    rule = RULES[name]
    if role is Role.ANYONE and name.startswith(API) and role < rule.least:
        return lambda status: status == 401
    if role < rule.least:
        return (lambda status: status == 302) if role is Role.ANYONE else (lambda status: status == 403)
    if method not in rule.methods:
        return lambda status: status == 405
    if name == "sign_in" and role > Role.ANYONE:
        return lambda status: status == 302
    if name == "api:api-root":
        return lambda status: status == 404  # a name to build addresses with, not a page
    if name == "api:route_check":
        return lambda status: status == 400  # no question
    if name == "api:drill" and method == "GET":
        return lambda status: status == 409  # no simulator here
    if name == "request" and role is Role.SIGNED_IN:
        return lambda status: status == 404  # of no team: that record does not exist for them
    if method == "POST":
        return lambda status: status == 400  # an empty form
    return lambda status: status == 200


def test_a_record_of_another_team_does_not_exist(red: Team, blue: Team) -> None:
    make_record("req-red", red.pk)
    stranger = signed_in(make_user("stranger", blue, TeamRole.OWNER))

    assert stranger.get(address("request")).status_code == 404
    assert "req-red" not in stranger.get(address("requests")).text
    assert "req-red" not in stranger.get(address("overview")).text
    assert sum(stranger.get(address("overview_chart")).json()["ok"]) == 0


def test_a_record_of_no_team_is_for_the_owner_alone(red: Team, owner: User) -> None:
    make_record("req-lost", None)

    assert signed_in(make_user("viewer", red)).get("/requests/req-lost").status_code == 404
    assert signed_in(owner).get("/requests/req-lost").status_code == 200


def test_a_member_of_two_teams_sees_both_and_has_the_higher_role(red: Team, blue: Team) -> None:
    make_record("req-red", red.pk)
    make_record("req-blue", blue.pk)
    user = make_user("both", red)
    user.memberships.create(team=blue, role=TeamRole.ADMIN)

    page = signed_in(user).get(address("requests")).text

    assert "req-red" in page
    assert "req-blue" in page


@pytest.mark.parametrize("path", ["/requests/a%00", "/keys/%00", "/static/%00"])
def test_a_name_with_a_nul_in_it_is_not_found(owner: User, path: str) -> None:
    assert signed_in(owner).get(path).status_code == 404


def test_a_route_without_a_rule_is_not_found_even_for_the_owner(owner: User) -> None:
    routes = ModuleType("routes")
    routes.urlpatterns = [*urlpatterns, path("forgotten", accounts, name="forgotten")]  # type: ignore[attr-defined]
    client = signed_in(owner)

    with override_settings(ROOT_URLCONF=routes):
        assert client.get("/accounts").status_code == 200
        assert client.get("/forgotten").status_code == 404


def test_anonymous_visitors_are_sent_to_sign_in_and_come_back(db: None) -> None:
    response = Client().get("/requests?outcome=ok")

    assert response.headers["Location"] == "/sign-in?next=%2Frequests%3Foutcome%3Dok"


def test_a_live_part_without_a_session_moves_the_whole_page_to_sign_in(db: None) -> None:
    response = Client().get(address("overview_live"), headers={"HX-Request": "true"})

    assert response.status_code == 401
    assert response.headers["HX-Redirect"] == "/sign-in"


def test_a_page_is_never_cached(owner: User) -> None:
    assert "no-store" in signed_in(owner).get("/").headers["Cache-Control"]


def test_a_user_who_was_switched_off_is_out_at_once(red: Team) -> None:
    user = make_user("gone", red)
    client = signed_in(user)
    User.objects.filter(pk=user.pk).update(is_active=False)

    assert client.get("/").status_code == 302
