from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings
from redis import Redis

from accounts.models import Account
from core.audit import Actor
from core.invalid import InvalidValue
from core.models import AuditEntry
from gateway import sessions
from gateway.affinity import PREFIX
from tenants.models import ApiKey
from tenants.verbs import create_team, issue_key

pytestmark = pytest.mark.django_db
ADA = Actor("ada")


@pytest.fixture
def client(redis_url: str, settings: Settings) -> Iterator[Redis]:
    settings.REDIS_URL = redis_url
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def account() -> Account:
    return Account.objects.create(name="alice", kind="cursor", transport="agent_rpc", base_url="https://api2.cursor.sh")


@pytest.fixture
def key() -> ApiKey:
    return issue_key(create_team("Red"), "ci")[0]


def bind(client: Redis, name: str, account_id: int) -> None:
    client.set(PREFIX + name, f"{account_id}|5|5")


def last() -> tuple[str, str, str, object]:
    row = AuditEntry.objects.latest("pk")
    return row.actor, row.verb, row.object_type, row.before


def test_an_account_lets_go_of_its_conversations(client: Redis, account: Account) -> None:
    bind(client, "7-a", account.pk)
    bind(client, "7-b", account.pk + 1)
    assert sessions.clear_account(account, actor=ADA) == 1
    assert client.exists(PREFIX + "7-b") == 1
    assert last() == ("ada", "account.clear_sessions", "accounts.account", {"sessions": 1})


def test_a_key_s_conversations_are_cleared(client: Redis, key: ApiKey) -> None:
    bind(client, f"{key.pk}-a", 1)
    bind(client, f"{key.pk}-b", 2)
    bind(client, f"{key.pk}1-a", 1)
    assert sessions.clear_key(key, actor=ADA) == 2
    assert last() == ("ada", "key.clear_sessions", "tenants.apikey", {"sessions": 2})


def test_one_conversation_is_cleared_by_its_name(client: Redis, key: ApiKey) -> None:
    bind(client, f"{key.pk}-a", 1)
    assert sessions.clear_session(f"{key.pk}-a", actor=ADA) == 1
    assert sessions.clear_session(f"{key.pk}-a", actor=ADA) == 0
    assert last() == ("ada", "session.clear", "tenants.apikey", {"session": f"{key.pk}-a", "bound": 0})


@pytest.mark.parametrize("name", ["", "a", "0-a", "x-a", "-a", "99999999999-a"])
def test_what_is_no_conversation_is_refused(client: Redis, name: str) -> None:
    with pytest.raises(InvalidValue):
        sessions.clear_session(name)
    assert not AuditEntry.objects.exists()


def test_the_command_line_does_all_three(client: Redis, account: Account, key: ApiKey) -> None:
    def run(*words: str) -> str:
        out = StringIO()
        call_command("sessions", "clear", *words, stdout=out)
        return out.getvalue()

    for name in ("a", "b", "c", "d"):
        bind(client, f"{key.pk}-{name}", account.pk if name == "a" else 0)
    assert run("--account", "alice") == "1 conversation was cleared.\n"
    assert run("--session", f"{key.pk}-b") == "1 conversation was cleared.\n"
    assert run("--key", key.public_id) == "2 conversations were cleared.\n"
    assert last()[0] == "command line"
    for words in (("--account", "bob"), ("--key", "nobody"), ("--session", "x")):
        with pytest.raises(CommandError):
            run(*words)
