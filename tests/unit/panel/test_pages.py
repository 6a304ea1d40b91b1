from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.leases import slots_key
from accounts.models import Account, Cooldown, Credential, Group
from core.version import VERSION
from ops.record import Attempt, Outcome
from tenants.models import Team
from tenants.verbs import issue_key
from tests.unit.panel.conftest import make_record, make_user, signed_in


@pytest.fixture
def account(redis_url: str, db: None) -> Account:
    row = Account.objects.create(name="first", kind="cursor", transport="agent_rpc", base_url="https://api2.cursor.sh")
    Credential.objects.create(account=row, sealed=b"sealed-bytes", last_four="w9xz")
    row.groups.add(Group.objects.create(name="Main", slug="main"))
    return row


def test_the_owner_of_an_empty_installation_is_told_what_is_missing(owner: User) -> None:
    page = signed_in(owner).get("/").text

    assert "No accounts yet" in page
    assert "manage.py accounts add" in page
    assert "No requests in the last 24 hours" in page
    assert "None yet" in page
    assert f"Poolgate {VERSION}" in page


def test_a_person_without_a_team_is_told_whom_to_ask(db: None) -> None:
    page = signed_in(make_user("loner")).get("/").text

    assert "You are in no team" in page


def test_the_overview_shows_pool_outcomes_and_recent_requests(owner: User, red: Team, account: Account) -> None:
    key, _ = issue_key(red, "laptop")
    make_record("req-1", red.pk, key_id=key.pk)
    make_record("req-2", red.pk, Outcome.UPSTREAM_ERROR, code="upstream_error")

    page = signed_in(owner).get("/").text

    assert "first" in page
    assert "laptop" in page
    assert "50.0 % served" in page
    assert "upstream error" in page
    assert "2,400 in" in page


def test_the_live_part_is_the_same_part_alone(owner: User, red: Team) -> None:
    make_record("req-1", red.pk)

    part = signed_in(owner).get("/overview/live").text

    assert "req-1" in part
    assert "<html" not in part


def test_the_pool_is_not_shown_to_members(red: Team, account: Account) -> None:
    page = signed_in(make_user("viewer", red)).get("/").text

    assert "pool-title" not in page
    assert "/accounts" not in page


def test_the_page_says_how_to_connect_to_this_very_address(owner: User) -> None:
    page = signed_in(owner).get("/", SERVER_NAME="localhost", SERVER_PORT="8123").text

    assert "http://localhost:8123/v1</code>" in page
    assert "curl http://localhost:8123/v1/chat/completions" in page


def test_the_chart_counts_by_minute_and_by_whose_doing_it_was(owner: User, red: Team) -> None:
    for number, outcome in enumerate(Outcome):
        make_record(f"req-{number}", red.pk, outcome, started_at=timezone.now().timestamp())

    series = signed_in(owner).get("/overview/chart").json()

    assert {name: len(values) for name, values in series.items()} == dict.fromkeys(("at", "ok", "caller", "failed"), 60)
    assert [sum(series[name]) for name in ("ok", "caller", "failed")] == [1, 3, 4]


def test_the_account_list_shows_state_cooldowns_and_four_characters_of_the_key(owner: User, account: Account) -> None:
    until = timezone.now() + timedelta(minutes=5)
    Cooldown.objects.create(account=account, model="gpt-5.2", until=until, reason="rate_limited")
    Cooldown.objects.create(account=account, model="", until=timezone.now() - timedelta(1), reason="over")

    page = signed_in(owner).get("/accounts").text

    assert "…w9xz" in page
    assert "sealed-bytes" not in page
    assert "gpt-5.2: rate limited" in page
    assert "over" not in page.partition("<tbody>")[2].partition("</tbody>")[0]


def test_slots_in_use_are_those_that_have_not_expired(owner: User, account: Account, redis_url: str) -> None:
    now_ms = int(timezone.now().timestamp() * 1000)
    with redis.Redis.from_url(redis_url) as client:
        client.zadd(slots_key(account.pk), {"gone": now_ms - 1000, "here": now_ms + 60_000, "too": now_ms + 60_000})

    assert "2 of 3" in signed_in(owner).get("/accounts").text


def test_the_account_list_opens_without_redis_and_admits_what_it_does_not_know(
    owner: User, account: Account, settings: Any
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    assert "– of 3" in signed_in(owner).get("/accounts").text


def test_filters_live_in_the_address_and_narrow_the_list(owner: User, red: Team) -> None:
    make_record("req-ok", red.pk)
    make_record("req-bad", red.pk, Outcome.UPSTREAM_ERROR)
    make_record("req-messages", red.pk, protocol="messages")
    client = signed_in(owner)

    assert _ids(client, "?outcome=upstream_error") == {"req-bad"}
    assert _ids(client, "?protocol=messages") == {"req-messages"}
    assert _ids(client, "?model=nothing") == set()
    assert _ids(client, "?outcome=nonsense&hours=9999999999999&protocol=%00") == {"req-ok", "req-bad", "req-messages"}


def test_pages_go_back_in_time_without_gap_or_repetition(owner: User, red: Team) -> None:
    at = timezone.now().timestamp() - 60
    for number in range(120):
        make_record(f"req-{number:03}", red.pk, started_at=at - number // 3)
    client = signed_in(owner)

    seen: list[str] = []
    query = "?protocol=chat"
    while query:
        response = client.get(f"/requests{query}")
        seen += [line.record.request_id for line in response.context["page"].lines]
        query = response.context["older"]

    assert len(seen) == len(set(seen)) == 120


@pytest.mark.parametrize("before", ["nonsense", "2026-01-01T00:00:00~x", "2026-01-01T00:00:00+00:00~", "~"])
def test_a_page_that_nobody_was_given_is_a_bad_request(owner: User, before: str) -> None:
    response = signed_in(owner).get("/requests", {"before": before})

    assert response.status_code == 400
    assert "That address is not complete" in response.text


def test_a_name_that_the_panel_does_not_know_is_for_the_operator_to_add(client: Client) -> None:
    response = client.get("/sign-in", headers={"Host": "gate.example.org"})

    assert response.status_code == 400
    assert "adds the name to POOLGATE_ALLOWED_HOSTS" in response.text
    assert "gate.example.org" not in response.text


def test_the_list_costs_three_queries_however_long(
    owner: User, red: Team, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    key, _ = issue_key(red, "laptop")
    for number in range(30):
        make_record(f"req-{number}", red.pk, key_id=key.pk)
    client = signed_in(owner)

    with django_assert_num_queries(6):  # session, user, one-time password; records, teams, keys
        client.get("/requests")


def test_one_request_shows_attempts_sizes_and_codes(owner: User, red: Team, account: Account) -> None:
    tried = Attempt(account.pk, "agent_rpc", 0, 90, "connect", "rate_limited", "account", "resource_exhausted", 30)
    make_record("req-1", red.pk, attempts=(tried, Attempt(account.pk + 1, "agent_rpc", 95)), request_bytes=2048)

    page = signed_in(owner).get("/requests/req-1").text

    for text in ("first", "deleted", "rate limited", "resource_exhausted", "30 s", "2.0 KiB", "served"):
        assert text in page


def test_members_see_attempts_but_not_whose_account_it_was(red: Team, account: Account) -> None:
    tried = Attempt(account.pk, "agent_rpc", 0, 90, "connect", "rate_limited", "account", "resource_exhausted", 30)
    make_record("req-1", red.pk, attempts=(tried,), process="worker-7", client_ip="192.0.2.77", upstream_model="secret")

    page = signed_in(make_user("viewer", red)).get("/requests/req-1").text

    assert "rate limited" in page
    for text in ("first</td>", "resource_exhausted", "worker-7", "192.0.2.77", "secret"):
        assert text not in page


def test_what_callers_chose_is_escaped(owner: User, red: Team) -> None:
    make_record("req-1", red.pk, model="<script>alert(1)</script>", ignored=("<img src=x>",))

    for address in ("/", "/requests", "/requests/req-1"):
        page = signed_in(owner).get(address).text
        assert "<script>alert" not in page
        assert "<img src=x>" not in page


def test_a_page_that_breaks_says_so_and_no_more(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("panel.accounts.list_accounts", fail)
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    response = client.get("/accounts")

    assert response.status_code == 500
    assert "Something broke on our side" in response.text
    assert "secret detail" not in response.text


def _ids(client: Client, query: str) -> set[str]:
    return {line.record.request_id for line in client.get(f"/requests{query}").context["page"].lines}
