from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts import effects
from accounts.catalogue import ensure_catalogue
from accounts.compile import AccountState, Transport
from accounts.cooldowns import EFFECTS
from accounts.listing import list_accounts
from accounts.models import Account, Cooldown
from accounts.verbs import set_state
from config import demo
from core import redis
from core.models import AuditEntry

pytestmark = pytest.mark.django_db

SIMULATOR = "http://127.0.0.1:8090"


@pytest.fixture(autouse=True)
def _may_call_the_simulator(settings: Any) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1:8090"]


def test_a_start_wakes_what_the_scripts_put_out_of_use(tmp_path: Path) -> None:
    ensure_catalogue()
    demo.install(tmp_path, SIMULATOR, None)
    alpha, beta, gamma = Account.objects.filter(transport=Transport.AGENT_RPC).order_by("name")
    set_state(alpha, AccountState.NEEDS_SIGN_IN, "auth_revoked")
    set_state(beta, AccountState.BLOCKED, "suspicious")
    Cooldown.objects.create(account=gamma, until=timezone.now() + timedelta(hours=1), reason="quota")
    demo.install(tmp_path, SIMULATOR, None)
    assert {line.condition for line in list_accounts(timezone.now())} == {"ready"}


def test_what_the_gateway_found_out_just_before_the_stop_is_woken_from_as_well(tmp_path: Path) -> None:
    ensure_catalogue()
    demo.install(tmp_path, SIMULATOR, None)
    account = Account.objects.earliest("pk")
    found = {
        "account": account.pk, "credential": account.credential.pk, "model": "", "until": "99999999999999",
        "reason": "auth_revoked", "state": "needs_sign_in",
    }  # fmt: skip
    redis.connection().xadd(EFFECTS, found)  # type: ignore[arg-type]
    demo.install(tmp_path, SIMULATOR, None)
    verbs = AuditEntry.objects.filter(object_id=str(account.pk), verb="account.set_state").order_by("pk")
    assert [entry.after and entry.after["state"] for entry in verbs] == ["needs_sign_in", "ready"]
    assert effects.apply_effects(redis.connection(), claim_after=0) == 0


def test_a_start_forgets_the_tokens_of_the_simulator_before(tmp_path: Path) -> None:
    ensure_catalogue()
    demo.install(tmp_path, SIMULATOR, None)
    mine = Account.objects.earliest("pk").credential.pk
    client = redis.connection()
    client.mset({f"poolgate:bearer:{mine}": "of the last one", "poolgate:bearer:0": "of another account"})
    demo.install(tmp_path, SIMULATOR, None)
    assert client.mget(f"poolgate:bearer:{mine}", "poolgate:bearer:0") == [None, b"of another account"]


def test_a_start_with_all_in_order_changes_nothing(tmp_path: Path) -> None:
    ensure_catalogue()
    first = demo.install(tmp_path, SIMULATOR, None)
    entries = AuditEntry.objects.count()
    assert demo.install(tmp_path, SIMULATOR, None) == first
    assert AuditEntry.objects.count() == entries
