from __future__ import annotations

import pytest

from accounts.compile import AccountState, AccountView, Transport, compile_account, compile_accounts, compile_model
from accounts.models import Account, CatalogueModel, Credential, Group
from accounts.queries import account_rows, groups_of_teams, sealed_credentials
from core.invalid import InvalidValue
from tenants.models import Team


def account(**columns: object) -> Account:
    usual: dict[str, object] = {
        "name": "one",
        "kind": "cursor",
        "transport": "agent_rpc",
        "base_url": "https://api2.cursor.sh/",
        "allowed_models": ["claude-*"],
        "client_type": "cli",
        "client_version": "1.2",
    }
    row = Account.objects.create(**(usual | columns))
    Credential.objects.create(account=row, sealed=b"sealed", last_four="abcd")
    return row


@pytest.mark.django_db
def test_a_view_holds_what_the_row_says_and_no_credential() -> None:
    row = account(priority=5, slots=7)
    group = Group.objects.create(name="main", slug="main")
    row.groups.add(group)
    assert compile_accounts(account_rows()) == (
        AccountView(
            id=row.pk,
            name="one",
            kind="cursor",  # type: ignore[arg-type]
            transport="agent_rpc",  # type: ignore[arg-type]
            base_url="https://api2.cursor.sh",
            groups=frozenset({group.pk}),
            credential_id=row.credential.pk,
            priority=5,
            slots=7,
            models=("claude-*",),
            client_type="cli",
            client_version="1.2",
        ),
    )
    assert sealed_credentials() == {row.credential.pk: b"sealed"}


@pytest.mark.django_db
def test_all_accounts_take_two_queries(django_assert_num_queries: object) -> None:
    for number in range(3):
        account(name=f"account {number}")
    with django_assert_num_queries(2):  # type: ignore[operator]
        assert len(compile_accounts(account_rows())) == 3


@pytest.mark.django_db
def test_a_switched_off_account_is_disabled_whatever_its_state() -> None:
    assert compile_account(account(enabled=False, state="blocked")).state is AccountState.DISABLED


@pytest.mark.django_db
def test_an_account_without_credential_needs_a_sign_in() -> None:
    row = account()
    row.credential.delete()
    row.refresh_from_db()
    view = compile_account(row)
    assert (view.state, view.credential_id) == (AccountState.NEEDS_SIGN_IN, 0)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("column", "bad"),
    [
        ("name", " "),
        ("kind", "bank"),
        ("transport", "pigeon"),
        ("state", "tired"),
        ("slots", 0),
        ("slots", 1001),
        ("priority", 1001),
        ("base_url", "api2.cursor.sh"),
        ("base_url", "ftp://api2.cursor.sh"),
        ("base_url", "https://user:pw@api2.cursor.sh"),
        ("base_url", "https://api2.cursor.sh/?key=1"),
        ("base_url", "https://api2.cursor.sh:port"),
        ("allowed_models", "claude"),
        ("allowed_models", ["two words"]),
        ("allowed_models", [7]),
        ("client_type", "a b"),
        ("client_version", "1\r\nx-evil: 1"),
    ],
)
def test_a_bad_column_is_refused_by_name(column: str, bad: object) -> None:
    row = account()
    setattr(row, column, bad)
    with pytest.raises(InvalidValue) as caught:
        compile_account(row)
    assert caught.value.field == column
    assert caught.value.sentence.endswith((".", "-"))


@pytest.mark.django_db
def test_teams_are_given_the_groups_that_were_allowed_them() -> None:
    teams = [Team.objects.create(name=name, slug=name) for name in ("red", "blue", "none")]
    first, second = [Group.objects.create(name=name, slug=name) for name in ("first", "second")]
    first.teams.set(teams[:2])
    second.teams.set(teams[:1])
    assert groups_of_teams() == {teams[0].pk: {first.pk, second.pk}, teams[1].pk: {first.pk}}


def test_an_account_with_patterns_serves_what_matches() -> None:
    view = AccountView(1, "one", "cursor", "agent_rpc", "", frozenset(), 1, models=("claude-*", "gpt-5.2"))  # type: ignore[arg-type]
    assert [view.serves(name) for name in ("claude-sonnet-4.6", "gpt-5.2", "gpt-5")] == [True, True, False]


def test_a_model_is_asked_for_by_its_own_name_unless_told_otherwise() -> None:
    assert compile_model(CatalogueModel(name="gpt-5.2")).upstream_id == "gpt-5.2"
    assert compile_model(CatalogueModel(name="fast", upstream_id="gpt-5.2")).upstream_id == "gpt-5.2"
    pattern = compile_model(CatalogueModel(name="sim-*"))
    assert (pattern.upstream_id, pattern.is_pattern) == ("", True)


def test_a_model_thinks_in_the_usual_way_unless_told_otherwise() -> None:
    assert compile_model(CatalogueModel(name="a")).thinking_parameters == {"thinking": "true"}
    assert compile_model(CatalogueModel(name="a", thinking_parameters={})).thinking_parameters == {}


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        ("name", ""),
        ("name", "two words"),
        ("name", "claude-thinking"),
        ("upstream_id", "claude-*"),
        ("upstream_id", "a b"),
        ("context_tokens", 1023),
        ("max_output_tokens", 0),
        ("max_output_tokens", 200_001),
        ("parameters", ["thinking"]),
        ("parameters", {"thinking": True}),
        ("parameters", {"a b": "c"}),
        ("thinking_parameters", {"effort": "x" * 129}),
    ],
)
def test_a_bad_model_is_refused_by_column(column: str, bad: object) -> None:
    row = CatalogueModel(name="claude")
    setattr(row, column, bad)
    with pytest.raises(InvalidValue) as caught:
        compile_model(row)
    assert caught.value.field == column


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "transport", "base_url", "column"),
    [
        ("cursor", "text_chat", "https://api2.cursor.sh", "transport"),
        ("text_chat", "agent_rpc", "http://models.internal", "transport"),
        ("text_chat", "text_chat", "https://cursor.com", "base_url"),
        ("text_chat", "text_chat", "https://api.Cursor.com/x", "base_url"),
        ("text_chat", "text_chat", "https://a.b.cursor.sh.", "base_url"),
    ],
)
def test_a_transport_belongs_to_a_kind_and_text_chat_to_servers_of_ones_own(
    kind: str, transport: str, base_url: str, column: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        compile_account(account(kind=kind, transport=transport, base_url=base_url))
    assert caught.value.field == column


@pytest.mark.django_db
def test_an_account_has_its_ways_in_order_and_an_address_for_each() -> None:
    cursors = compile_account(account(transport="auto"))
    assert cursors.ways == (Transport.AGENT_RPC, Transport.CLOUD_AGENTS)
    assert [cursors.address(way) for way in cursors.ways] == ["https://api2.cursor.sh", "https://api.cursor.com"]
    own = compile_account(account(name="two", transport="cloud_agents", base_url="http://127.0.0.1:9"))
    assert (own.ways, own.address(Transport.CLOUD_AGENTS)) == ((Transport.CLOUD_AGENTS,), "http://127.0.0.1:9")
    text = compile_account(
        account(name="three", kind="text_chat", transport="text_chat", base_url="http://notcursor.com")
    )
    assert text.ways == (Transport.TEXT_CHAT,)
