from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from accounts import verbs
from accounts.compile import AccountState, Transport, compile_account
from accounts.groups import create_group
from accounts.models import Account, Group
from core.encryption import open_sealed
from core.models import AuditEntry
from tests.unit.panel.conftest import signed_in

KEY = "sk-0123456789abcdefghijklmnop"
COMMON = {"name": "one", "priority": "7", "slots": "2", "proxy": "", "notes": "", "api_key": KEY}
CURSOR = COMMON | {"transport": "auto", "client_type": "cli", "client_version": "1.2", "allowed_models": "gpt-*\nother"}
TEXT = COMMON | {"base_url": "http://models.lan:8000", "allowed_models": "llama"}
PROVIDER = COMMON | {
    "transport": "openai_chat",
    "base_url": "https://api.example.com/v4/",
    "names": "fast=vendor-1, plain",
    "effort": "high",
    "dialect": "",
    "extra_params": '{"top_k": 3}',
    "headers": '{"X-Title": "a"}',
    "context_tokens": "90000",
    "max_output_tokens": "8000",
    "thinking_budget": "2048",
    "idle_timeout": "60",
}


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


@pytest.fixture
def group(owner: User) -> Group:
    return create_group("main")


def add(client: Client, kind: str, values: dict[str, str], group: Group) -> str:
    page = client.post(f"/accounts/new/{kind}", values | {"groups": str(group.pk)}, follow=True)
    assert page.status_code == 200, page.text
    return page.text


def test_a_cursor_account_is_added_and_its_key_not_shown(client: Client, group: Group) -> None:
    page = add(client, "cursor", CURSOR, group)
    view = compile_account(Account.objects.get())
    assert (view.name, view.transport, view.priority, view.slots) == ("one", Transport.AUTO, 7, 2)
    assert (view.client_type, view.client_version, view.groups) == ("cli", "1.2", frozenset({group.pk}))
    assert view.models == ("gpt-*", "other")
    assert "one is in the pool" in page
    assert KEY not in page
    assert "…mnop" in page
    entry = AuditEntry.objects.get(verb="account.create")
    assert (entry.actor, entry.ip) == ("boss", "127.0.0.1")


def test_a_text_server_is_added(client: Client, group: Group, settings: Settings) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = ("models.lan:8000",)
    add(client, "text_chat", TEXT, group)
    row = Account.objects.get()
    assert (row.kind, row.base_url, row.allowed_models) == ("text_chat", "http://models.lan:8000", ["llama"])


def test_a_provider_is_added_with_its_channel(client: Client, group: Group) -> None:
    page = add(client, "provider", PROVIDER, group)
    row = Account.objects.get()
    assert (row.base_url, row.channel.names) == ("https://api.example.com/v4", {"fast": "vendor-1", "plain": "plain"})
    assert (row.channel.effort, row.channel.extra_params) == ("high", {"top_k": 3})
    assert (row.channel.headers, row.channel.idle_timeout) == ({"X-Title": "a"}, 60)
    assert row.channel.channel_id in page
    assert row.channel.channel_id in client.get("/accounts").text
    assert KEY not in page


@pytest.mark.parametrize(
    ("kind", "field", "value", "sentence"),
    [
        ("cursor", "name", "", "This field is required."),
        ("cursor", "api_key", "two words", "must be one word"),
        ("cursor", "transport", "pigeon", "Select a valid choice."),
        ("cursor", "proxy", "12345", "Select a valid choice."),
        ("cursor", "slots", "0", "must be from 1 to 1000."),
        ("text_chat", "allowed_models", "", "name the models that the server has."),
        ("text_chat", "base_url", "https://evil.example", "evil.example"),
        ("provider", "base_url", "https://10.0.0.1", "10.0.0.1 is no public address."),
        ("provider", "names", "a b=", ""),
        ("provider", "names", "?", "use 1 to 128 letters"),
        ("provider", "extra_params", "{", "This is no JSON."),
        ("provider", "extra_params", "[]", "This is no JSON object."),
        ("provider", "extra_params", '{"model": "x"}', "must not hold model."),
        ("provider", "extra_params", "[" * 9000, "This is no JSON."),
        ("provider", "headers", '{"authorization": "x"}', "looks like a credential"),
        ("provider", "thinking_budget", "9000", "below the output limit"),
        ("provider", "effort", "huge", "Select a valid choice."),
    ],
)
def test_a_refused_value_is_marked_beside_its_field(
    client: Client, group: Group, kind: str, field: str, value: str, sentence: str
) -> None:
    values = {"cursor": CURSOR, "text_chat": TEXT, "provider": PROVIDER}[kind] | {field: value}
    page = client.post(f"/accounts/new/{kind}", values)
    if not sentence:
        assert page.status_code == 302
        return
    assert page.status_code == 400
    assert sentence in page.text
    assert KEY not in page.text
    assert not Account.objects.exists()


def test_there_is_no_form_for_a_kind_that_does_not_exist(client: Client) -> None:
    assert client.get("/accounts/new/pigeon").status_code == 404
    assert client.get("/accounts/987654").status_code == 404
    assert client.get(f"/accounts/{10**30}").status_code == 404


def test_a_provider_is_edited_and_the_form_untouched_changes_nothing(client: Client, group: Group) -> None:
    add(client, "provider", PROVIDER, group)
    row = Account.objects.get()
    form = client.get(f"/accounts/{row.pk}").context["form"]
    same = {name: value for name, value in form.initial.items() if value not in (None, False)}
    assert client.post(f"/accounts/{row.pk}", same).status_code == 302
    assert not AuditEntry.objects.filter(verb="account.update").exists()

    old = row.channel.channel_id
    page = client.post(
        f"/accounts/{row.pk}", same | {"name": "two", "names": "fast=vendor-2", "endpoint": "on"}, follow=True
    )
    assert "two is saved" in page.text
    row = Account.objects.get()
    assert (row.name, row.channel.names, row.channel.endpoint) == ("two", {"fast": "vendor-2"}, "custom")
    assert row.channel.channel_id != old
    assert open_sealed(bytes(row.credential.sealed)) == KEY.encode()
    entry = AuditEntry.objects.get(verb="account.update")
    assert (entry.actor, (entry.before or {})["name"], (entry.after or {})["name"]) == ("boss", "one", "two")

    refused = client.post(f"/accounts/{row.pk}", same | {"effort": "low", "base_url": "ftp://x"})
    assert refused.status_code == 400
    assert "must be an http or https address." in refused.text
    assert Account.objects.get().channel.effort == "high"


def test_an_account_is_switched_drained_and_woken(client: Client, group: Group) -> None:
    row = verbs.create_cursor_account("one", KEY, groups=[group])
    verbs.set_state(row, AccountState.BLOCKED, "blocked")
    for action, column, value in (
        ("disable", "enabled", False), ("enable", "enabled", True),
        ("drain", "draining", True), ("fill", "draining", False), ("wake", "state", "ready"),
    ):  # fmt: skip
        assert client.post(f"/accounts/{row.pk}/act", {"action": action}).status_code == 302
        assert getattr(Account.objects.get(), column) == value
    assert client.post(f"/accounts/{row.pk}/act", {"action": "explode"}).status_code == 400
    assert "account.clear_cooldowns" in AuditEntry.objects.values_list("verb", flat=True)


def test_a_key_is_replaced_and_never_shown(client: Client, group: Group) -> None:
    row = verbs.create_cursor_account("one", KEY, groups=[group])
    refused = client.post(f"/accounts/{row.pk}/key", {"api_key": "two words"})
    assert (refused.status_code, "must be one word" in refused.text) == (400, True)
    assert "two words" not in refused.text
    done = client.post(f"/accounts/{row.pk}/key", {"api_key": "new-key-0123456789"}, follow=True)
    assert "one has a new key" in done.text
    assert "new-key-0123456789" not in done.text
    assert open_sealed(bytes(Account.objects.get().credential.sealed)) == b"new-key-0123456789"


def test_an_account_is_deleted_only_when_the_box_is_ticked(client: Client, group: Group) -> None:
    row = verbs.create_cursor_account("one", KEY, groups=[group])
    unsure = client.post(f"/accounts/{row.pk}/delete")
    assert (unsure.status_code, "Tick the box" in unsure.text) == (400, True)
    assert "one is gone" in client.post(f"/accounts/{row.pk}/delete", {"sure": "yes"}, follow=True).text
    assert not Account.objects.exists()
