from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts.compile import AccountState, Transport
from accounts.listing import list_accounts
from accounts.models import Account, Cooldown
from accounts.verbs import ensure_catalogue, set_state
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
