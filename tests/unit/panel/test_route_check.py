from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from accounts.catalogue import define_model
from accounts.compile import AccountState
from accounts.groups import create_group
from accounts.leases import cooldowns_key, running_key, slots_key
from accounts.models import Account, Group
from accounts.troubles import TROUBLE
from accounts.verbs import create_cursor_account, set_state
from core import redis
from core.audit import SYSTEM
from core.settings_store import set_setting
from tenants.models import ApiKey, Role, Team
from tenants.verbs import issue_key, revoke_key
from tests.unit.panel.conftest import make_user, signed_in

MODEL = "composer-2.5"


@pytest.fixture
def key(red: Team) -> ApiKey:
    define_model(MODEL)
    return issue_key(red, "laptop", max_concurrency=2)[0]


@pytest.fixture
def group(red: Team) -> Group:
    return create_group("Main", teams=[red])


@pytest.fixture
def account(group: Group) -> Account:
    return create_cursor_account("alice", "crsr_secret_of_alice", groups=[group], slots=1)


def ask(client: Client, key: str, model: str = MODEL, **more: str) -> Any:
    return client.get("/api/route-check", {"key": key, "model": model, **more})


def blocked(client: Client, key: str, model: str = MODEL, **more: str) -> tuple[str, int, str]:
    found = ask(client, key, model, **more).json()
    assert found["serves"] is False
    return found["blocked"]["step"], found["blocked"]["status"], found["blocked"]["code"]


def now_ms() -> int:
    return int(redis.connection().time()[0]) * 1000


def test_a_request_that_would_be_served_names_its_accounts(owner: User, key: ApiKey, account: Account) -> None:
    found = ask(signed_in(owner), key.public_id).json()

    assert found["serves"] is True
    assert found["blocked"] is None
    assert (found["served_model"], found["upstream_model"]) == (MODEL, MODEL)
    assert [(one["name"], one["standing"], one["in_use"], one["slots"]) for one in found["candidates"]] == [
        ("alice", "ready", 0, 1)
    ]


def test_nothing_is_spent(owner: User, key: ApiKey, account: Account) -> None:
    ask(signed_in(owner), key.public_id)

    assert redis.connection().keys("poolgate:slots:*") == []
    assert redis.connection().keys("poolgate:caller:*") == []


def test_each_step_may_be_the_first_in_the_way(owner: User, key: ApiKey, group: Group) -> None:
    client = signed_in(owner)

    assert blocked(client, key.public_id, protocol="gemini") == ("protocol", 404, "gemini_native_disabled")
    assert blocked(client, key.public_id, "nobody-knows") == ("model", 404, "model_not_found")
    assert blocked(client, key.public_id) == ("accounts", 503, "no_account")
    account = create_cursor_account("alice", "crsr_secret_of_alice", groups=[group], slots=1)
    redis.connection().zadd(running_key("key", key.pk), {"a": now_ms() + 60_000, "b": now_ms() + 60_000})
    assert blocked(client, key.public_id) == ("limits", 429, "concurrency_exceeded")
    redis.connection().delete(running_key("key", key.pk))
    redis.connection().zadd(slots_key(account.pk), {"c": now_ms() + 60_000})
    assert blocked(client, key.public_id) == ("pool", 503, "no_capacity")
    redis.connection().delete(slots_key(account.pk))
    assert ask(client, key.public_id).json()["serves"] is True


def test_messages_says_529_where_it_would(owner: User, key: ApiKey) -> None:
    assert blocked(signed_in(owner), key.public_id, protocol="messages")[1] == 529


def test_a_rest_says_when_it_ends(owner: User, key: ApiKey, account: Account) -> None:
    redis.connection().hset(cooldowns_key(account.pk), MODEL, str(now_ms() + 90_000))

    found = ask(signed_in(owner), key.public_id).json()

    assert found["candidates"][0]["standing"] == "resting"
    assert 80 < found["blocked"]["retry_after"] <= 91


def test_an_account_that_is_out_of_use_leaves_no_candidate(owner: User, key: ApiKey, account: Account) -> None:
    set_state(account, AccountState.BLOCKED, "blocked")

    found = ask(signed_in(owner), key.public_id).json()

    assert "resting or switched off" in found["blocked"]["message"]


def test_a_key_that_has_ended_is_the_first_thing_in_the_way(owner: User, key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(days=1))
    assert blocked(signed_in(owner), key.public_id) == ("key", 401, "invalid_api_key")

    revoke_key(key)
    assert blocked(signed_in(owner), key.public_id) == ("key", 401, "invalid_api_key")


def test_a_member_may_ask_for_a_key_of_the_team_and_sees_no_account(red: Team, key: ApiKey, account: Account) -> None:
    response = ask(signed_in(make_user("member", red, Role.MEMBER)), key.public_id)

    assert response.json()["candidates"][0]["name"] == "account 1"
    assert "alice" not in response.text


def test_a_key_of_another_team_does_not_exist(blue: Team, key: ApiKey) -> None:
    response = ask(signed_in(make_user("stranger", blue, Role.OWNER)), key.public_id)

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "key_not_found"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"key": "abcdefgh"}, "model"),
        ({"model": MODEL}, "key"),
        ({"key": "abcdefgh", "model": MODEL, "protocol": "smtp"}, "protocol"),
        ({"key": "abcdefgh", "model": ""}, "model"),
        ({"key": "abcdefgh", "model": "x" * 161}, "model"),
        ({"key": "pg_live_abcdefgh_secret_x", "model": MODEL}, "key"),
    ],
)
def test_an_impossible_question_names_its_field(owner: User, query: dict[str, str], param: str) -> None:
    response = signed_in(owner).get("/api/route-check", query)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert "secret" not in response.text


def test_the_command_says_the_same(key: ApiKey, account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("route_check", key.public_id, MODEL)
    words = capsys.readouterr().out
    call_command("route_check", key.public_id, MODEL, "--json")

    assert f"{MODEL} by chat would be served as {MODEL}." in words
    assert "alice  ready  0 of 1 slots" in words
    assert json.loads(capsys.readouterr().out)["serves"] is True


def test_the_gate_of_gemini_is_looked_at(owner: User, key: ApiKey, account: Account) -> None:
    set_setting("gemini_native_enabled", True, SYSTEM)

    assert ask(signed_in(owner), key.public_id, protocol="gemini").json()["serves"] is True


def test_an_upstream_that_is_down_and_a_way_out_that_rests_are_told(owner: User, key: ApiKey, account: Account) -> None:
    client, ends = redis.connection(), now_ms() + 60_000
    circuit = {"opened_at": now_ms(), "next_canary": now_ms() + 5000, "interval": 5000}
    client.hset(TROUBLE, f"circuit|agent_rpc|api2.cursor.sh|{MODEL}", json.dumps(circuit))

    down = ask(signed_in(owner), key.public_id).json()
    client.hset(TROUBLE, "egress|direct", ends)
    cut_off = ask(signed_in(owner), key.public_id).json()

    assert down["candidates"][0]["standing"] == "circuit_open"
    assert 3 < down["blocked"]["retry_after"] <= 6
    assert cut_off["candidates"][0]["standing"] == "way_out_rests"
    assert 50 < cut_off["blocked"]["retry_after"] <= 61

    client.hset(TROUBLE, "paused|direct", 1)
    paused = ask(signed_in(owner), key.public_id).json()
    assert (paused["serves"], paused["candidates"][0]["standing"]) == (False, "way_out_paused")


@pytest.mark.parametrize("key", ["", "a\0b", "ééééé", "'; --", "x" * 9000])
def test_what_is_no_public_id_is_not_found(owner: User, key: str) -> None:
    response = signed_in(owner).get("/api/route-check", {"key": key, "model": MODEL})

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "key_not_found"


def test_a_bug_of_ours_is_an_error_in_json(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr("panel.route_check.check", fail)
    response = signed_in(owner).get("/api/route-check", {"key": "abcdefgh", "model": MODEL})

    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert "secret" not in response.text
