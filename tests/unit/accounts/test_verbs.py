from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import cast

import pytest
import redis
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import Settings

from accounts import catalogue, cooldowns, groups, verbs
from accounts.compile import AccountState, Transport, compile_account
from accounts.cooldowns import Resting
from accounts.leases import cooldowns_key
from accounts.models import Account, CatalogueModel, Cooldown, Credential, Group
from accounts.naming import compile_names
from accounts.offers import OFFERS
from accounts.troubles import TROUBLE
from core.audit import Actor
from core.encryption import keyring, open_sealed
from core.invalid import InvalidValue
from core.models import AuditEntry
from tenants.models import Team

ADA = Actor("ada")
SECRET = "crsr_0123456789abcdefghijklmnop"

pytestmark = pytest.mark.django_db


def trail() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("verb", flat=True))


@pytest.fixture
def group() -> Group:
    return groups.create_group("Main pool")


@pytest.fixture
def account(group: Group) -> Account:
    return verbs.create_cursor_account("one", SECRET, groups=[group], actor=ADA)


def test_a_group_is_open_to_the_teams_it_was_given() -> None:
    red, blue = [Team.objects.create(name=name, slug=name) for name in ("red", "blue")]
    group = groups.create_group("Main pool", teams=[red], actor=ADA)
    groups.allow_teams(group, [blue], actor=ADA)
    assert list(group.teams.all()) == [blue]
    entry = AuditEntry.objects.latest("id")
    assert (entry.before, entry.after) == (
        {"name": "Main pool", "slug": "main-pool", "teams": ["red"]},
        {"name": "Main pool", "slug": "main-pool", "teams": ["blue"]},
    )


def test_a_group_without_a_usable_name_is_refused(group: Group) -> None:
    for name in ("", "***", "Main pool", "x" * 65):
        with pytest.raises(InvalidValue):
            groups.create_group(name)


def test_a_deleted_group_leaves_its_accounts(account: Account, group: Group) -> None:
    groups.delete_group(group)
    assert Account.objects.get().groups.count() == 0


def test_an_account_keeps_its_key_sealed(account: Account, group: Group) -> None:
    credential = Credential.objects.get(account=account)
    assert open_sealed(credential.sealed) == SECRET.encode()
    assert SECRET.encode() not in bytes(credential.sealed)
    assert credential.last_four == "mnop"
    assert list(account.groups.all()) == [group]
    shown = f"{account!r} {account} {credential!r} {credential} {list(AuditEntry.objects.values())}"
    assert SECRET not in shown
    assert trail() == ["group.create", "account.create"]


def test_of_a_short_key_not_even_four_characters_are_kept(account: Account) -> None:
    assert verbs.replace_credential(account, "short").last_four == ""


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        ("name", {"name": "one"}),
        ("name", {"name": "x" * 65}),
        ("base_url", {"base_url": "https://evil.example"}),
        ("base_url", {"base_url": "http://127.0.0.1:9"}),
        ("api_key", {"api_key": ""}),
        ("api_key", {"api_key": "two words"}),
        ("api_key", {"api_key": "schlüssel"}),
        ("slots", {"slots": 0}),
        ("allowed_models", {"allowed_models": ["a b"]}),
    ],
)
def test_a_bad_account_is_refused_by_field_and_leaves_nothing(
    account: Account, field: str, columns: dict[str, object]
) -> None:
    with pytest.raises(InvalidValue) as caught:
        verbs.create_cursor_account(**({"name": "two", "api_key": SECRET} | columns))  # type: ignore[arg-type]
    assert caught.value.field == field
    assert SECRET not in str(caught.value)
    assert list(Account.objects.all()) == [account]
    assert trail() == ["group.create", "account.create"]


def test_a_host_that_the_operator_named_is_taken(settings: Settings) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    assert verbs.create_cursor_account("sim", SECRET, "http://127.0.0.1:9/").base_url == "http://127.0.0.1:9"


def test_a_state_is_set_once(account: Account) -> None:
    verbs.set_state(account, AccountState.BLOCKED, "blocked", actor=ADA)
    verbs.set_state(account, AccountState.BLOCKED, "blocked", actor=ADA)
    account.refresh_from_db()
    assert (account.state, account.state_reason) == ("blocked", "blocked")
    assert trail().count("account.set_state") == 1


def test_the_switch_of_an_admin_leaves_the_state_alone(account: Account) -> None:
    verbs.set_enabled(account, False)
    verbs.set_enabled(account, True)
    assert (account.enabled, account.state) == (True, "ready")
    assert trail()[-2:] == ["account.disable", "account.enable"]


def test_an_account_is_drained_and_filled_again_once_each(account: Account) -> None:
    for draining in (True, True, False, False):
        verbs.set_draining(account, draining, actor=ADA)
        account.refresh_from_db()
        assert account.draining is draining
        assert compile_account(account).draining is draining
    assert trail()[-2:] == ["account.drain", "account.fill"]


def test_a_replaced_credential_has_a_new_id_and_ends_the_wait_for_a_sign_in(account: Account) -> None:
    old = account.credential.pk
    verbs.set_state(account, AccountState.NEEDS_SIGN_IN, "auth_revoked")
    new = verbs.replace_credential(account, "crsr_another_key_0000000000", actor=ADA)
    assert new.pk != old
    assert Credential.objects.get() == new
    assert (account.state, account.state_reason, account.credential) == ("ready", "", new)


def test_a_replaced_credential_does_not_lift_a_block(account: Account) -> None:
    verbs.set_state(account, AccountState.BLOCKED, "blocked")
    verbs.replace_credential(account, "crsr_another_key_0000000000")
    assert account.state == "blocked"


def rest(client: redis.Redis, account: Account, model: str) -> None:
    until = timezone.now() + timedelta(hours=1)
    Cooldown.objects.create(account=account, model=model, until=until, reason="quota")
    cooldowns.restore(client, [Resting(account.pk, model, until.timestamp())], time.time())


def resting(client: redis.Redis, account: Account) -> set[bytes]:
    return set(cast("dict[bytes, bytes]", client.hgetall(cooldowns_key(account.pk))))


def test_cleared_cooldowns_are_gone_from_redis_and_the_rows(account: Account, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for model in ("", "gpt-5.2", "composer-2.5"):
            rest(client, account, model)
        verbs.clear_cooldowns(account, "gpt-5.2", actor=ADA)
        assert resting(client, account) == {b"*", b"composer-2.5"}
        assert set(Cooldown.objects.values_list("model", flat=True)) == {"", "composer-2.5"}
        verbs.clear_cooldowns(account, "", actor=ADA)
        assert resting(client, account) == {b"composer-2.5"}
        verbs.clear_cooldowns(account, actor=ADA)
        assert resting(client, account) == set()
    assert not Cooldown.objects.exists()
    entry = AuditEntry.objects.filter(verb="account.clear_cooldowns").latest("id")
    assert entry.before is not None
    assert [item["model"] for item in entry.before["cooldowns"]] == ["composer-2.5"]


def test_waking_an_account_ends_the_rest_of_its_way_out_and_says_so(account: Account, redis_url: str) -> None:
    ends = int(time.time() * 1000) + 600_000
    with redis.Redis.from_url(redis_url) as client:
        client.hset(TROUBLE, mapping={"egress|direct": ends, "egress|7": ends})
        verbs.clear_cooldowns(account, "gpt-5.2")
        assert client.hlen(TROUBLE) == 2, "one model alone was woken"
        verbs.clear_cooldowns(account)
        assert client.hkeys(TROUBLE) == [b"egress|7"]
    entry = AuditEntry.objects.filter(verb="account.clear_cooldowns").latest("id")
    assert entry.before == {"way_out": "direct", "cooldowns": []}


def test_without_redis_no_cooldown_is_cleared(account: Account, settings: Settings) -> None:
    Cooldown.objects.create(account=account, until=timezone.now() + timedelta(hours=1), reason="quota")
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(redis.RedisError):
        verbs.clear_cooldowns(account)
    assert Cooldown.objects.exists()


def test_a_deleted_account_takes_its_credential_along(account: Account) -> None:
    verbs.delete_account(account, actor=ADA)
    assert not Credential.objects.exists()
    assert trail()[-1] == "account.delete"


def test_a_model_is_added_and_then_changed() -> None:
    catalogue.define_model("sim-*", owner="simulator")
    catalogue.define_model("sim-*", context_tokens=4096, max_output_tokens=1024, actor=ADA)
    row = CatalogueModel.objects.get()
    assert (row.owner, row.context_tokens) == ("simulator", 4096)
    assert AuditEntry.objects.filter(before__context_tokens=200_000, after__context_tokens=4096).exists()


def test_a_bad_model_is_not_stored() -> None:
    with pytest.raises(InvalidValue):
        catalogue.define_model("claude-thinking")
    with pytest.raises(TypeError, match="has no colour"):
        catalogue.define_model("claude", colour="red")
    assert not CatalogueModel.objects.exists()


def test_an_alias_is_defined_and_then_points_elsewhere() -> None:
    for name in ("small", "big"):
        catalogue.define_model(name)
    catalogue.define_alias("fast", "small")
    catalogue.define_alias("fast", "big-thinking", actor=ADA)
    named = compile_names(CatalogueModel.objects.all()).find("fast")
    assert named is not None
    assert named.public == "big-thinking"
    assert AuditEntry.objects.filter(verb="alias.define", before__alias_of="small").exists()


@pytest.mark.parametrize(
    ("name", "target", "field", "sentence"),
    [
        ("small", "big", "name", "is a model"),
        ("a", "nothing", "alias_of", "there is no model"),
        ("a", "a", "alias_of", "circle"),
        ("b", "a", "alias_of", "circle"),
        ("*", "nothing", "alias_of", "circle"),
        ("a", "", "alias_of", "must be the name"),
    ],
)
def test_an_alias_that_leads_nowhere_is_not_stored(name: str, target: str, field: str, sentence: str) -> None:
    catalogue.define_model("small")
    catalogue.define_model("big")
    CatalogueModel.objects.create(name="a", alias_of="b") if name == "b" else None
    with pytest.raises(InvalidValue, match=sentence) as caught:
        catalogue.define_alias(name, target)
    assert caught.value.field == field
    assert not CatalogueModel.objects.filter(name=name).exclude(alias_of="").exists()


def test_a_model_that_aliases_lead_to_is_not_deleted_and_an_alias_is_no_model() -> None:
    small = catalogue.define_model("small")
    alias = catalogue.define_alias("fast", "small-thinking")
    with pytest.raises(InvalidValue, match="aliases lead to it: fast"):
        catalogue.delete_model(small)
    with pytest.raises(InvalidValue, match="is an alias"):
        catalogue.define_model("fast")
    catalogue.delete_model(alias)
    catalogue.delete_model(small)
    assert trail()[-2:] == ["alias.delete", "model.delete"]


def test_a_change_that_would_close_a_circle_is_refused() -> None:
    catalogue.define_model("small")
    catalogue.define_alias("*", "small")
    with pytest.raises(InvalidValue, match="circle"):
        catalogue.define_model("small", enabled=False)
    assert CatalogueModel.objects.get(name="small").enabled


def test_an_empty_catalogue_is_filled_once_and_every_offer_compiles() -> None:
    assert catalogue.ensure_catalogue() == len(OFFERS)
    assert set(compile_names(CatalogueModel.objects.all()).models) == {offer.name for offer in OFFERS}
    catalogue.delete_model(CatalogueModel.objects.get(name="default"))
    assert catalogue.ensure_catalogue() == 0
    assert not CatalogueModel.objects.filter(name="default").exists()


@pytest.fixture
def use_keys(settings: Settings) -> Callable[..., None]:
    def use(*keys: str) -> None:
        settings.POOLGATE_ENCRYPTION_KEYS = list(keys)

    return use


def test_rotation_reseals_every_credential_and_the_old_key_may_leave(
    account: Account, settings: Settings, use_keys: Callable[..., None]
) -> None:
    old, new = settings.POOLGATE_ENCRYPTION_KEYS[0], Fernet.generate_key().decode()
    use_keys(new, old)
    out = StringIO()
    call_command("rotate_keys", stdout=out)
    assert "accounts.Credential.sealed: 1 sealed anew, 0 could not be opened" in out.getvalue()
    use_keys(new)
    sealed = Credential.objects.get().sealed
    assert keyring().is_current(bytes(sealed))
    assert open_sealed(sealed) == SECRET.encode()
    again = StringIO()
    call_command("rotate_keys", stdout=again)
    assert "accounts.Credential.sealed: 0 sealed anew, 0 could not be opened, 1 have the first key" in again.getvalue()


def test_rotation_without_the_old_key_says_so_and_changes_nothing(
    account: Account, use_keys: Callable[..., None]
) -> None:
    before = bytes(account.credential.sealed)
    use_keys(Fernet.generate_key().decode())
    with pytest.raises(CommandError, match="1 secrets are sealed with a key that is not configured"):
        call_command("rotate_keys", stdout=StringIO())
    assert bytes(Credential.objects.get().sealed) == before


def test_the_way_to_an_account_is_changed_on_record_and_only_to_one_of_its_kind(account: Account) -> None:
    verbs.set_transport(account, Transport.AUTO, actor=ADA)
    verbs.set_transport(account, Transport.AUTO, actor=ADA)
    assert trail().count("account.set_transport") == 1
    with pytest.raises(InvalidValue):
        verbs.set_transport(account, Transport.TEXT_CHAT, actor=ADA)
    account.refresh_from_db()
    assert account.transport == "auto"


def test_a_text_server_is_the_operators_own_and_names_its_models(settings: Settings, group: Group) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    row = verbs.create_text_account("text", SECRET, "http://127.0.0.1:9/", [group], allowed_models=["text-*"])
    assert (row.kind, row.transport, row.base_url) == ("text_chat", "text_chat", "http://127.0.0.1:9")
    with pytest.raises(InvalidValue, match="models"):
        verbs.create_text_account("two", SECRET, "http://127.0.0.1:9/", allowed_models=[])
    with pytest.raises(InvalidValue, match="Cursor's hosts"):
        verbs.create_text_account("three", SECRET, "https://cursor.com", allowed_models=["text-*"])
