from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.utils import timezone

from accounts import health, proxies, verbs
from accounts.health import Answer
from accounts.leases import cooldowns_key
from accounts.models import Account, PlanUsage
from core.redis import connection
from ir.errors import Reason
from tests.unit.panel.conftest import signed_in


@pytest.fixture
def account(settings: LazySettings, owner: User) -> Account:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    return verbs.create_cursor_account("alpha", "crsr_sim_alpha_long", "http://127.0.0.1:1")


def test_an_account_is_tested_from_its_page_and_the_answer_is_told(
    account: Account, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def ask_now(row: Account, *, end_rests: bool, actor: object) -> Answer:
        asked.append(end_rests)
        return Answer(0.12, reason=Reason.AUTH_REVOKED, code="401")

    monkeypatch.setattr(health, "ask_now", ask_now)
    client = signed_in(owner)
    page = client.post("/accounts/test", {"account": account.pk, "end_rests": "yes"}, follow=True).text
    assert asked == [True]
    for text in ("alpha does not answer: auth revoked (401).", "turn to another account", "needs sign in"):
        assert text in page


def test_an_account_that_cannot_be_asked_or_is_gone_is_refused_in_words(account: Account, owner: User) -> None:
    Account.objects.update(kind="text_chat", transport="text_chat")
    response = signed_in(owner).post("/accounts/test", {"account": account.pk})
    assert response.status_code == 400
    assert "without spending anything" in response.text
    assert "not there any more" in signed_in(owner).post("/accounts/test", {"account": "x"}).text


def test_an_account_whose_rest_is_over_is_shown_as_probing(account: Account, owner: User) -> None:
    connection().hset(cooldowns_key(account.pk), "*", str(int((time.time() - 5) * 1000)))
    connection().hset(cooldowns_key(account.pk), "warm|m", str(int((time.time() - 5) * 1000)))
    page = signed_in(owner).get("/accounts").text
    assert page.count("probing") == 2  # its condition, and what exactly
    assert "Test and wake" in page


def test_the_page_tells_of_proxies_and_who_goes_through_them(account: Account, owner: User) -> None:
    assert "No proxies" in signed_in(owner).get("/accounts").text
    hop = proxies.create_proxy("hop", "socks5://10.0.0.1:1080", user="me", password="canary")
    proxies.set_account_proxy(account, hop)
    page = signed_in(owner).get("/accounts").text
    for text in ("socks5://10.0.0.1:1080", "unknown", "by hop"):
        assert text in page
    assert "canary" not in page


def test_the_page_shows_what_is_used_of_a_plan_and_until_when(account: Account, owner: User) -> None:
    now = timezone.now()
    PlanUsage.objects.create(account=account, auto=0.25, api=1.0, ends_at=now + timedelta(days=3), at=now)
    page = signed_in(owner).get("/accounts").text
    assert "own models 25.0 %" in page
    assert 'value="1.000"' in page
