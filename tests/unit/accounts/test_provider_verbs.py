from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from accounts import catalogue, verbs
from accounts.channels import channel_id
from accounts.compile import AccountKind, Transport, compile_account
from accounts.models import Account, CatalogueModel, Channel
from core.encryption import open_sealed
from core.invalid import InvalidValue
from core.models import AuditEntry

KEY = "sk-0123456789abcdefghijklmnop"
URL = "https://api.example.com/v1"

pytestmark = pytest.mark.django_db


def create(name: str = "one", key: str = KEY, **more: Any) -> Account:
    given: dict[str, Any] = {"base_url": URL, "transport": Transport.OPENAI_CHAT, "models": {"fast": "vendor-1"}}
    return verbs.create_provider_account(name, key, **(given | more))


def test_a_provider_account_is_compiled_with_its_channel() -> None:
    view = compile_account(create(effort="high"))
    assert (view.kind, view.transport) == (AccountKind.PROVIDER, Transport.OPENAI_CHAT)
    assert view.channel is not None
    assert (view.channel.url, view.channel.effort) == (f"{URL}/chat/completions", "high")
    assert (view.serves("fast"), view.serves("vendor-1"), view.model_id("fast")) == (True, False, "vendor-1")


def test_its_models_join_the_catalogue_unless_they_are_there() -> None:
    catalogue.define_model("known", context_tokens=5000, max_output_tokens=100)
    create(models=["known", "fresh"], context_tokens=9000, max_output_tokens=4096, thinking_budget=2048)
    rows = {row.name: (row.upstream, row.context_tokens) for row in CatalogueModel.objects.all()}
    assert rows == {"known": ("", 5000), "fresh": ("provider", 9000)}


def test_a_base_url_that_is_an_endpoint_decides_the_transport() -> None:
    row = create(base_url="HTTPS://API.example.com/v1/responses/")
    assert (row.transport, row.base_url) == (Transport.OPENAI_RESPONSES, "https://api.example.com/v1/responses")


def test_the_same_channel_is_not_made_twice() -> None:
    create("one")
    with pytest.raises(InvalidValue):
        create("one")
    assert Channel.objects.count() == 1
    create("three")


def test_a_new_key_gives_a_new_channel_id_and_the_same_account() -> None:
    row = create()
    before = row.channel.channel_id
    credential = verbs.replace_credential(row, "sk-another")
    assert Channel.objects.get(account=row).channel_id != before
    assert open_sealed(bytes(credential.sealed)) == b"sk-another"


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        ("base_url", {"base_url": "https://10.0.0.1"}),
        ("base_url", {"base_url": "http://api.example.com"}),
        ("names", {"models": []}),
        ("name", {"models": ["a-thinking"]}),
        ("effort", {"effort": "much"}),
        ("headers", {"headers": {"authorization": "x"}}),
        ("api_key", {"key": "two words"}),
    ],
)
def test_wrong_input_names_its_field_and_leaves_nothing(field: str, columns: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as caught:
        create(**columns)
    assert caught.value.field == field
    assert not Account.objects.exists()
    assert not CatalogueModel.objects.exists()


def test_an_inner_address_needs_the_operators_word(settings: Settings) -> None:
    settings.POOLGATE_PRIVATE_NETWORKS = ["10.0.0.0/8"]
    assert create(base_url="http://10.0.0.1:8000").base_url == "http://10.0.0.1:8000"


def test_the_trail_shows_the_channel_and_no_key() -> None:
    create(headers={"x-title": "pool"})
    entry = AuditEntry.objects.get(verb="account.create")
    assert entry.after is not None
    assert entry.after["channel"]["headers"] == {"x-title": "pool"}
    assert KEY not in str(list(AuditEntry.objects.values()))


def test_a_removed_account_takes_its_channel_along() -> None:
    verbs.delete_account(create())
    assert not Channel.objects.exists()


def test_an_edit_changes_what_is_given_and_is_audited_once() -> None:
    row = create(effort="high")
    old = row.channel.channel_id
    verbs.update_provider_account(
        row, name="two", base_url="https://API.example.com/v4/", models={"fast": "vendor-2", "new": "vendor-3"},
        effort="low", headers={"X-Team": "a"}, idle_timeout=60, priority=7, slots=9,
    )  # fmt: skip
    view = compile_account(Account.objects.get(pk=row.pk))
    assert view.channel is not None
    assert (view.name, view.priority, view.slots, view.transport) == ("two", 7, 9, Transport.OPENAI_CHAT)
    assert (view.channel.url, view.channel.effort) == ("https://api.example.com/v4/chat/completions", "low")
    assert (view.model_id("fast"), view.channel.idle_timeout, view.channel.headers) == ("vendor-2", 60, {"x-team": "a"})
    assert view.channel.channel_id == channel_id("https://api.example.com/v4", ["vendor-2", "vendor-3"], KEY, "two")
    assert CatalogueModel.objects.filter(name="new").exists()
    entry = AuditEntry.objects.get(verb="account.update")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["name"], entry.before["channel"]["channel_id"]) == ("one", old)
    assert (entry.after["name"], entry.after["channel"]["effort"]) == ("two", "low")
    assert KEY not in str(entry.before) + str(entry.after)


def test_an_edit_without_a_change_leaves_no_trace() -> None:
    row = create()
    entries = AuditEntry.objects.count()
    verbs.update_provider_account(row, name="one", base_url=URL, models={"fast": "vendor-1"})
    assert AuditEntry.objects.count() == entries


def test_an_edit_may_bring_a_new_key_and_another_wire() -> None:
    row = create()
    verbs.update_provider_account(row, api_key="sk-another", transport=Transport.ANTHROPIC_MESSAGES)
    assert row.transport == Transport.ANTHROPIC_MESSAGES
    assert open_sealed(bytes(row.credential.sealed)) == b"sk-another"
    assert row.channel.channel_id == channel_id(URL, ["vendor-1"], "sk-another", "one")


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        ("name", {"name": "other"}),
        ("base_url", {"base_url": "https://10.0.0.1"}),
        ("base_url", {"base_url": "ftp://x"}),
        ("names", {"models": {}}),
        ("effort", {"effort": "huge"}),
        ("extra_params", {"extra_params": {"model": "dear"}}),
        ("headers", {"headers": {"authorization": "x"}}),
        ("thinking_budget", {"thinking_budget": 5}),
        ("slots", {"slots": 0}),
        ("api_key", {"api_key": "two words"}),
    ],
)
def test_a_bad_edit_names_its_field_and_changes_nothing(field: str, columns: dict[str, Any]) -> None:
    create("other", key="sk-other")
    row = create()
    before = (Account.objects.filter(pk=row.pk).values().get(), Channel.objects.filter(account=row).values().get())
    with pytest.raises(InvalidValue) as refused:
        verbs.update_provider_account(row, **columns)
    assert refused.value.field == field
    after = (Account.objects.filter(pk=row.pk).values().get(), Channel.objects.filter(account=row).values().get())
    assert after == before


def test_an_edit_cannot_make_a_channel_that_is_there() -> None:
    row = create("one")
    other = create("two")
    Channel.objects.filter(account=other).update(channel_id=channel_id(URL, ["vendor-9"], KEY, "one"))
    with pytest.raises(InvalidValue, match="there is a channel"):
        verbs.update_provider_account(row, models={"fast": "vendor-9"})


def test_only_a_provider_account_is_edited_so_and_only_its_own_columns() -> None:
    cursor = verbs.create_cursor_account("c", "key-of-cursor")
    with pytest.raises(InvalidValue, match="no provider account"):
        verbs.update_provider_account(cursor, priority=3)
    with pytest.raises(TypeError):
        verbs.update_provider_account(create(), state="ready")
