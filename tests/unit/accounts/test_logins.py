from __future__ import annotations

import json

import pytest
from django.conf import LazySettings

from accounts import logins, verbs
from accounts.compile import Transport, compile_account
from accounts.logins import Login
from accounts.models import Account, Credential
from core.encryption import open_sealed
from core.invalid import InvalidValue
from core.models import AuditEntry
from tests.unit.accounts import jwt

NOW = 1_800_000_000.0
DAY = 86_400.0
FAR = 4_000_000_000.0


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"accessToken": jwt.make(NOW + DAY), "refreshToken": "r", "authId": "a"}),
        json.dumps({"access_token": jwt.make(NOW + DAY), "refresh_token": "r"}),
    ],
)
def test_a_login_is_taken_as_the_sign_in_answers_it(text: str) -> None:
    login = logins.parse(text, NOW)
    assert (login.refresh, login.at, login.expires_at) == ("r", NOW, NOW + DAY)
    assert "r" not in repr(login).removeprefix("Login(at=")


def test_a_session_token_alone_is_a_login_without_refresh() -> None:
    assert logins.parse(f" {jwt.make(NOW + DAY)}\n", NOW).refresh == ""


@pytest.mark.parametrize("text", ["", "{", "{}", '{"accessToken": 5}', "crsr_key", jwt.make(NOW - 1)])
def test_what_is_no_login_or_over_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        logins.parse(text, NOW)


@pytest.mark.parametrize(
    ("age", "left", "ahead", "due"),
    [(10, 50, 60, False), (31, 29, 60, True), (55, 5, 4, False), (55, 5, 6, True)],
)
def test_a_login_is_due_ahead_of_its_end_but_not_in_the_first_half_of_its_life(
    age: float, left: float, ahead: float, due: bool
) -> None:
    login = Login(jwt.make(NOW + left * DAY), "r", NOW - age * DAY)
    assert login.is_due(NOW, ahead * DAY) is due


@pytest.fixture
def account(settings: LazySettings, redis_url: str, db: None) -> Account:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    text = json.dumps({"accessToken": jwt.make(FAR, "first"), "refreshToken": "refresh-1"})
    return verbs.create_cursor_account("alpha", text, "http://127.0.0.1:1", credential=Credential.Kind.LOGIN_TOKEN)


def test_an_imported_login_is_sealed_and_its_end_is_known(account: Account) -> None:
    row = account.credential
    assert logins.decode(open_sealed(bytes(row.sealed))).refresh == "refresh-1"
    assert (row.kind, row.version, row.expires_at and row.expires_at.timestamp()) == ("login_token", 1, FAR)
    assert b"refresh-1" not in bytes(row.sealed)
    assert compile_account(account).login


def test_a_login_serves_the_agent_rpc_alone(account: Account) -> None:
    with pytest.raises(InvalidValue, match="browser login"):
        verbs.set_transport(account, Transport.AUTO)
    verbs.replace_credential(account, "crsr_sim_alpha")
    verbs.set_transport(account, Transport.AUTO)
    with pytest.raises(InvalidValue, match="browser login"):
        verbs.replace_credential(account, jwt.make(FAR), Credential.Kind.LOGIN_TOKEN)
    assert Credential.objects.get(account=account).kind == Credential.Kind.API_KEY


def test_what_is_no_login_is_refused_by_its_field(account: Account) -> None:
    with pytest.raises(InvalidValue) as refused:
        verbs.replace_credential(account, "crsr_key", Credential.Kind.LOGIN_TOKEN)
    assert refused.value.field == "login"


def test_a_newer_login_takes_the_rows_place_only_over_the_version_that_was_read(account: Account) -> None:
    row, newer = account.credential, Login(jwt.make(FAR, "second"), "refresh-2", NOW)
    assert logins.rotate(row.pk, 1, newer)
    assert not logins.rotate(row.pk, 1, Login(jwt.make(FAR, "slow"), "refresh-3", NOW))
    kept = logins.read(row.pk)
    assert kept is not None
    assert (kept.version, logins.decode(open_sealed(kept.login))) == (2, newer)
    entry = AuditEntry.objects.get(verb="account.rotate_login")
    assert entry.after is not None
    assert entry.after["version"] == 2
    assert "refresh-2" not in str(entry.after)


def test_a_login_that_an_admin_replaced_is_not_written_over(account: Account) -> None:
    old = account.credential.pk
    verbs.replace_credential(account, jwt.make(FAR, "imported"), Credential.Kind.LOGIN_TOKEN)
    assert logins.read(old) is None
    assert not logins.rotate(old, 1, Login(jwt.make(FAR, "slow"), "r", NOW))
