from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from accounts import catalogue, verbs
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
