from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis
from django.contrib.auth.models import User
from django.test import Client

from core.models import AuditEntry
from panel import throttle
from panel.sign_in import NOT_ACCEPTED, NOT_AVAILABLE
from tenants.models import Team
from tenants.verbs import create_owner
from tests.unit.panel.conftest import PASSWORD, make_user, signed_in

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer


def attempt(client: Client, name: str, password: str, target: str = "/", address: str = "192.0.2.1") -> Answer:
    form = {"username": name, "password": password, "next": target}
    return client.post("/sign-in", form, REMOTE_ADDR=address)


def test_the_right_password_opens_the_page_that_was_asked_for(red: Team) -> None:
    make_user("ann", red)
    client = Client()

    response = attempt(client, "ann", PASSWORD, "/requests?outcome=ok")

    assert response.headers["Location"] == "/requests?outcome=ok"
    assert client.get("/requests").status_code == 200


def test_an_unknown_name_and_a_wrong_password_read_the_same(red: Team) -> None:
    make_user("ann", red)

    pages = [attempt(Client(), name, "wrong").text.replace(name, "") for name in ("ann", "bob")]

    assert all(NOT_ACCEPTED in page for page in pages)
    assert _without_token(pages[0]) == _without_token(pages[1])


def _without_token(page: str) -> list[str]:
    return [line for line in page.splitlines() if "csrfmiddlewaretoken" not in line]


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/sign-in"])
def test_nobody_is_sent_to_another_site_or_in_a_circle(red: Team, target: str) -> None:
    make_user("ann", red)

    assert attempt(Client(), "ann", PASSWORD, target).headers["Location"] == "/"


def test_after_five_wrong_guesses_even_the_right_password_has_to_wait(red: Team) -> None:
    make_user("ann", red)
    for _ in range(throttle.PER_NAME):
        assert attempt(Client(), "ann", "wrong").status_code == 400

    response = attempt(Client(), "Ann", PASSWORD)

    assert response.status_code == 429
    assert 0 < int(response.headers["Retry-After"]) <= throttle.WINDOW_S


def test_guesses_from_elsewhere_do_not_lock_the_owner_of_the_name_out(red: Team) -> None:
    make_user("ann", red)
    for _ in range(throttle.PER_NAME + 1):
        attempt(Client(), "ann", "wrong", address="198.51.100.7")

    assert attempt(Client(), "ann", PASSWORD, address="192.0.2.1").status_code == 302


def test_one_address_cannot_try_many_names(red: Team) -> None:
    for number in range(throttle.PER_ADDRESS):
        throttle.count_attempt("192.0.2.1", f"name-{number}")

    assert attempt(Client(), "fresh-name", "wrong").status_code == 429


def test_a_success_forgets_the_wrong_guesses(red: Team) -> None:
    make_user("ann", red)
    for _ in range(3):
        for _ in range(throttle.PER_NAME - 1):
            attempt(Client(), "ann", "wrong")
        assert attempt(Client(), "ann", PASSWORD).status_code == 302


def test_no_name_that_was_typed_is_kept_in_redis(red: Team, redis_url: str) -> None:
    attempt(Client(), "my-password-in-the-wrong-field", "x")

    with redis.Redis.from_url(redis_url) as client:
        kept = [key.decode() for key in client.keys("*sign-in*")]

    assert len(kept) == 2
    assert not any("my-password" in key for key in kept)


def test_without_redis_nobody_can_guess_and_the_page_says_why(red: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("ann", red)

    def fail(address: str, name: str) -> int:
        raise redis.ConnectionError

    monkeypatch.setattr(throttle, "count_attempt", fail)
    response = attempt(Client(), "ann", PASSWORD)

    assert response.status_code == 503
    assert NOT_AVAILABLE in response.text


def test_a_form_without_a_token_is_refused(red: Team) -> None:
    client = Client(enforce_csrf_checks=True)

    response = attempt(client, "ann", PASSWORD)

    assert response.status_code == 403
    assert "This form has expired" in response.text


def test_signing_out_ends_the_session_and_needs_a_post(red: Team) -> None:
    client = signed_in(make_user("ann", red))

    assert client.get("/sign-out").status_code == 405
    assert client.post("/sign-out").headers["Location"] == "/sign-in"
    assert client.get("/").status_code == 302


def test_the_one_time_password_opens_nothing_but_the_change_of_itself(redis_url: str, db: None) -> None:
    one_time = create_owner()
    client = Client()
    attempt(client, "admin", one_time)

    assert client.get("/").headers["Location"] == "/password"
    assert client.get("/accounts").headers["Location"] == "/password"
    live = client.get("/overview/live", headers={"HX-Request": "true"})
    assert live.headers["HX-Redirect"] == "/password"
    assert client.get("/password").status_code == 200


def test_a_chosen_password_replaces_the_one_time_one_and_is_audited(redis_url: str, db: None) -> None:
    one_time = create_owner()
    client = Client()
    attempt(client, "admin", one_time)
    elsewhere = signed_in(User.objects.get(username="admin"))

    form = {"old_password": one_time, "new_password1": PASSWORD, "new_password2": PASSWORD}
    response = client.post("/password", form, follow=True)

    assert response.redirect_chain == [("/", 302)]
    assert "Your password is changed" in response.text
    assert elsewhere.get("/").status_code == 302
    assert attempt(Client(), "admin", one_time).status_code == 400
    entry = AuditEntry.objects.get(verb="user.change_password")
    assert (entry.actor, entry.before, entry.after) == ("admin", None, None)


@pytest.mark.parametrize("chosen", ["short", "password12345", "123456789012"])
def test_a_weak_password_is_refused_with_its_reason(redis_url: str, db: None, chosen: str) -> None:
    one_time = create_owner()
    client = Client()
    attempt(client, "admin", one_time)

    form = {"old_password": one_time, "new_password1": chosen, "new_password2": chosen}
    response = client.post("/password", form)

    assert response.status_code == 400
    assert "invalid-feedback" in response.text
    assert client.get("/").headers["Location"] == "/password"


def test_changing_a_password_needs_the_old_one(red: Team) -> None:
    client = signed_in(make_user("ann", red))

    form = {"old_password": "wrong", "new_password1": "another-long-one", "new_password2": "another-long-one"}

    assert client.post("/password", form).status_code == 400
