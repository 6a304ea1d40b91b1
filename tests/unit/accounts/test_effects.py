from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis
from django.conf import LazySettings
from django.utils import timezone

from accounts import cooldowns, effects, verbs
from accounts.compile import AccountState
from accounts.cooldowns import EFFECTS
from accounts.effects import apply_effects, restore_cooldowns
from accounts.leases import cooldowns_key
from accounts.models import Account, Cooldown
from core.models import AuditEntry
from core.publish import VERSION_KEY
from core.stream import Inbox
from ir.errors import Reason

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def account(settings: LazySettings) -> Account:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    return verbs.create_cursor_account("alpha", "crsr_sim_alpha", "http://127.0.0.1:1")


def suffer(
    client: redis.Redis, account: Account, *, model: str = "", seconds: float = 60, state: str = "",
    reason: Reason = Reason.RATE_LIMIT, credential: int | None = None,
) -> None:  # fmt: skip
    """Puts on the stream what the script of ``cooldowns`` puts there."""
    until = int((time.time() + seconds) * 1000)
    client.hset(cooldowns_key(account.pk), model or "*", str(until))
    client.xadd(
        EFFECTS,
        {
            "until": until, "account": account.pk, "model": model, "reason": reason.value, "state": state,
            "credential": account.credential.pk if credential is None else credential,
        },
    )  # fmt: skip


def test_a_cooldown_becomes_a_row(client: redis.Redis, account: Account) -> None:
    suffer(client, account, model="m", seconds=60)
    assert apply_effects(client) == 1
    row = Cooldown.objects.get()
    assert (row.account_id, row.model, row.reason) == (account.pk, "m", "rate_limit")
    assert row.until == pytest.approx(timezone.now() + timedelta(seconds=60), abs=timedelta(seconds=2))
    assert client.xlen(EFFECTS) == 0


def test_a_longer_rest_replaces_the_row_and_a_shorter_one_does_not(client: redis.Redis, account: Account) -> None:
    for seconds in (60, 600, 30):
        suffer(client, account, seconds=seconds)
        apply_effects(client)
    row = Cooldown.objects.get()
    assert row.until == pytest.approx(timezone.now() + timedelta(seconds=600), abs=timedelta(seconds=2))


def test_a_state_is_changed_with_an_audit_row_and_published(
    client: redis.Redis, account: Account, django_capture_on_commit_callbacks: object
) -> None:
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        apply_effects(client)
    account.refresh_from_db()
    assert (account.state, account.state_reason) == (AccountState.NEEDS_SIGN_IN, "auth_revoked")
    assert AuditEntry.objects.filter(verb="account.set_state", object_id=str(account.pk)).count() == 1
    assert client.get(VERSION_KEY) == b"1"


def test_an_effect_read_twice_does_nothing_more(client: redis.Redis, account: Account) -> None:
    suffer(client, account, state="blocked", reason=Reason.BLOCKED)
    (entry,) = Inbox(client, EFFECTS).read(10)
    effects.apply(client, effects.read(entry.fields))
    assert apply_effects(client, claim_after=0) == 1  # its reader died before it settled
    assert AuditEntry.objects.filter(verb="account.set_state").count() == 1
    assert Cooldown.objects.count() == 1


def test_an_account_that_an_admin_put_aside_keeps_its_state(client: redis.Redis, account: Account) -> None:
    verbs.set_state(account, AccountState.DISABLED, "by hand")
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED)
    apply_effects(client)
    account.refresh_from_db()
    assert (account.state, account.state_reason) == (AccountState.DISABLED, "by hand")


def test_the_fault_of_a_replaced_credential_changes_no_state(client: redis.Redis, account: Account) -> None:
    old = account.credential.pk
    verbs.replace_credential(account, "crsr_sim_other")
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED, credential=old)
    apply_effects(client)
    account.refresh_from_db()
    assert account.state == AccountState.READY


def test_the_rest_that_a_replaced_credential_earned_is_taken_back(client: redis.Redis, account: Account) -> None:
    old = account.credential.pk
    verbs.replace_credential(account, "crsr_sim_other")
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED, credential=old)
    apply_effects(client)
    assert not client.exists(cooldowns_key(account.pk))
    assert not Cooldown.objects.exists()


def test_a_fault_from_before_a_repair_does_not_undo_it(
    client: redis.Redis, account: Account, django_capture_on_commit_callbacks: object
) -> None:
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED)
    apply_effects(client)
    account.refresh_from_db()
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED)  # on its way while an admin acts
    time.sleep(0.002)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        verbs.set_state(account, AccountState.READY)
    apply_effects(client)
    account.refresh_from_db()
    assert account.state == AccountState.READY
    assert not Cooldown.objects.exists()
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED)
    apply_effects(client)
    account.refresh_from_db()
    assert account.state == AccountState.NEEDS_SIGN_IN


def test_a_cooldown_that_was_cleared_meanwhile_is_not_written(client: redis.Redis, account: Account) -> None:
    suffer(client, account, model="m")
    cooldowns.clear(client, account.pk)
    apply_effects(client)
    assert not Cooldown.objects.exists()


def test_the_effect_on_a_deleted_account_is_dropped(client: redis.Redis, account: Account) -> None:
    suffer(client, account)
    verbs.delete_account(account)
    assert apply_effects(client) == 1
    assert client.xlen(EFFECTS) == 0


def test_what_is_no_effect_goes_to_the_dead_list_and_holds_up_nobody(client: redis.Redis, account: Account) -> None:
    client.xadd(EFFECTS, {"until": "soon"})
    suffer(client, account)
    client.xadd(EFFECTS, {"account": "1", "credential": "1", "model": "", "until": "1", "reason": "?", "state": ""})
    assert apply_effects(client) == 3
    assert Cooldown.objects.count() == 1
    assert (client.xlen(EFFECTS), client.xlen(f"{EFFECTS}:dead")) == (0, 2)


def test_cooldowns_come_back_after_redis_lost_them_and_old_rows_go(client: redis.Redis, account: Account) -> None:
    now = timezone.now()
    for model, ends in (
        ("m", now + timedelta(hours=1)),
        ("n", now - timedelta(hours=1)),
        ("o", now - timedelta(days=2)),
    ):
        Cooldown.objects.create(account=account, model=model, until=ends, reason="quota")
    assert restore_cooldowns(client) == 1
    assert client.hkeys(cooldowns_key(account.pk)) == [b"m"]
    assert set(Cooldown.objects.values_list("model", flat=True)) == {"m", "n"}


@pytest.mark.parametrize("way", ["by hand", "by a new key"])
def test_an_account_that_is_ready_again_rests_no_more_but_for_its_models(
    client: redis.Redis, account: Account, way: str, django_capture_on_commit_callbacks: object
) -> None:
    suffer(client, account, state="needs_sign_in", reason=Reason.AUTH_REVOKED, seconds=600)
    suffer(client, account, model="m", seconds=600)
    apply_effects(client)
    account.refresh_from_db()
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        if way == "by hand":
            verbs.set_state(account, AccountState.READY)
        else:
            verbs.replace_credential(account, "crsr_sim_other")
    assert client.hkeys(cooldowns_key(account.pk)) == [b"m"]
    assert list(Cooldown.objects.values_list("model", flat=True)) == ["m"]


def test_a_block_is_said_aloud_once(client: redis.Redis, account: Account, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        suffer(client, account, state="blocked", reason=Reason.BLOCKED)
    apply_effects(client)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", f"ALARM account {account.pk} is blocked (blocked): an admin has to look")
    ]
