"""The control plane against the strict simulator: real sockets, real tokens, real refusals."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec
import pytest
import redis
from django.conf import LazySettings
from django.core.management import call_command

from accounts import cursor, health, logins, tasks, usable, verbs
from accounts.catalogue import ensure_catalogue
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.credentials import Bearers
from accounts.leases import cooldowns_key
from accounts.models import Account, CatalogueModel, Cooldown, Credential, PlanUsage
from core import settings_store
from core.audit import SYSTEM
from core.encryption import open_sealed, seal
from core.outbound import AllowList, Outbound
from core.redis import connection as redis_connection
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason
from tests.plugins.simulator import Simulator


@pytest.fixture
async def outbound(simulator: Simulator) -> AsyncIterator[Outbound]:
    async with Outbound(allowed=AllowList([urlsplit(simulator.url).netloc])) as outbound:
        yield outbound


def view(simulator: Simulator, name: str, number: int = 1) -> AccountView:
    return AccountView(
        number, name, AccountKind.CURSOR, Transport.AGENT_RPC, simulator.url, frozenset(), credential_id=number
    )


async def test_a_key_becomes_a_token_that_lists_the_accounts_models(simulator: Simulator, outbound: Outbound) -> None:
    token = await cursor.exchange(outbound, simulator.url, simulator.keys["alpha"])
    models = await cursor.usable_models(outbound, simulator.url, token.jwt)
    assert {"default", "claude-sonnet-4.6"} <= {model.id for model in models}
    details = {model.id: model for model in await cursor.available_models(outbound, simulator.url, token.jwt)}
    assert details["gpt-5.2"].context_tokens == 272_000
    assert details["gpt-5.2"].variants["gpt-5.2-high"] == {"effort": "high"}


async def test_a_key_that_is_none_is_refused_for_good(simulator: Simulator, outbound: Outbound) -> None:
    with pytest.raises(Fault) as fault:
        await cursor.exchange(outbound, simulator.url, "crsr_sim_nobody")
    assert fault.value.reason is Reason.AUTH_REVOKED


async def test_the_raw_key_is_no_bearer(simulator: Simulator, outbound: Outbound) -> None:
    with pytest.raises(Fault) as fault:
        await cursor.usable_models(outbound, simulator.url, simulator.keys["alpha"])
    assert fault.value.reason is Reason.AUTH_EXPIRED


async def test_a_hundred_callers_cost_one_exchange(simulator: Simulator, outbound: Outbound, pipe: Pipe) -> None:
    before = simulator.accounts()["alpha"]["exchanges"]
    bearers = Bearers(pipe, outbound)
    alpha, sealed = view(simulator, "alpha"), seal(simulator.keys["alpha"])
    got = await asyncio.gather(*[bearers.get(alpha, sealed) for _ in range(100)])
    assert len(set(got)) == 1
    assert simulator.accounts()["alpha"]["exchanges"] == before + 1


@pytest.fixture
def accounts(simulator: Simulator, settings: LazySettings, redis_url: str) -> dict[str, Account]:
    settings.POOLGATE_UPSTREAM_HOSTS = [urlsplit(simulator.url).netloc]
    keys = {"alpha": simulator.keys["alpha"], "wrong": "crsr_sim_nobody"}
    return {name: verbs.create_cursor_account(name, key, simulator.url) for name, key in keys.items()}


@pytest.mark.django_db(transaction=True)
def test_the_refresh_keeps_what_is_usable_and_puts_aside_whose_key_is_refused(
    accounts: dict[str, Account], redis_url: str
) -> None:
    tasks.refresh_catalogue()
    tasks.apply_effects()
    with redis.Redis.from_url(redis_url) as client:
        kept = usable.read(client, accounts["alpha"].pk)
        assert kept is not None
        assert "claude-sonnet-4.6" in kept.models
        assert usable.read(client, accounts["wrong"].pk) is None
        client.flushdb()
        tasks.restore_cooldowns()
        assert client.keys("poolgate:cool:*") == [b"poolgate:cool:%d" % accounts["wrong"].pk]
    states = dict(Account.objects.values_list("name", "state"))
    assert states == {"alpha": AccountState.READY, "wrong": AccountState.NEEDS_SIGN_IN}
    assert list(Cooldown.objects.values_list("account__name", "model", "reason")) == [("wrong", "", "auth_revoked")]


@pytest.fixture
def login(simulator: Simulator, settings: LazySettings, redis_url: str) -> Account:
    settings.POOLGATE_UPSTREAM_HOSTS = [urlsplit(simulator.url).netloc]
    text = json.dumps(simulator.sign_in("beta"))
    return verbs.create_cursor_account("beta", text, simulator.url, credential=Credential.Kind.LOGIN_TOKEN)


def set_knobs(**values: object) -> None:
    for name, value in values.items():
        settings_store.set_setting(name, value, SYSTEM)


@pytest.mark.django_db(transaction=True)
def test_a_browser_login_serves_and_each_refresh_uses_its_token_up(login: Account, simulator: Simulator) -> None:
    set_knobs(oauth_client_id="sim-client")
    for version in (2, 3):
        Credential.objects.update(expires_at=None)
        kept = logins.read(login.credential.pk)
        assert kept is not None
        old = logins.decode(open_sealed(kept.login))
        logins.rotate(login.credential.pk, kept.version, msgspec.structs.replace(old, at=0.0))
        Credential.objects.update(version=version - 1)
        tasks.renew_credentials()
        assert Credential.objects.get().version == version
    tasks.refresh_catalogue()
    assert [entry["transport"] for entry in simulator.log()].count("refresh") == 2
    assert usable.read(redis_connection(), login.pk) is not None
    login.refresh_from_db()
    assert login.state == AccountState.READY


@pytest.mark.django_db(transaction=True)
def test_a_session_that_the_upstream_ended_needs_a_sign_in(login: Account, simulator: Simulator) -> None:
    set_knobs(oauth_client_id="sim-client", login_refresh_ahead=8760)
    kept = logins.read(login.credential.pk)
    assert kept is not None
    old = logins.decode(open_sealed(kept.login))
    logins.rotate(login.credential.pk, 1, msgspec.structs.replace(old, at=0.0))
    simulator.fault("beta", "key_bad")
    tasks.renew_credentials()
    tasks.apply_effects()
    login.refresh_from_db()
    assert (login.state, login.state_reason) == (AccountState.NEEDS_SIGN_IN, "auth_revoked")
    verbs.replace_credential(login, json.dumps(simulator.sign_in("beta")), Credential.Kind.LOGIN_TOKEN)
    assert login.state == AccountState.READY


async def test_a_login_is_polled_until_it_is_approved_and_only_with_its_verifier(
    simulator: Simulator, outbound: Outbound
) -> None:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"verifier").digest()).rstrip(b"=").decode()
    poll = f"{simulator.url}/auth/poll?uuid=u1&verifier="
    assert (await outbound.call("GET", poll + "verifier")).status == 404
    simulator.approve("gamma", "u1", challenge)
    assert (await outbound.call("GET", poll + "other")).status == 404
    answer = await outbound.call("GET", poll + "verifier")
    login = logins.parse(answer.body.decode(), 0.0)
    access, _ = await cursor.refresh(outbound, simulator.url, "sim-client", login.refresh)
    assert await cursor.usable_models(outbound, simulator.url, access)
    with pytest.raises(Fault) as fault:
        await cursor.refresh(outbound, simulator.url, "sim-client", login.refresh)
    assert fault.value.upstream_code == "session_over"


@pytest.mark.django_db(transaction=True)
def test_an_account_is_asked_now_and_only_one_that_answers_is_woken(
    accounts: dict[str, Account], simulator: Simulator
) -> None:
    for row in accounts.values():
        redis_connection().hset(cooldowns_key(row.pk), "*", str(2**42))
    good = health.ask_now(accounts["alpha"], end_rests=True)
    assert (good.reason, good.models > 5) == (None, True)
    assert not redis_connection().exists(cooldowns_key(accounts["alpha"].pk))
    bad = health.ask_now(accounts["wrong"], end_rests=True)
    assert (bad.reason, bad.code) == (Reason.AUTH_REVOKED, "401")
    tasks.apply_effects()
    assert Account.objects.get(name="wrong").state == AccountState.READY
    assert redis_connection().exists(cooldowns_key(accounts["wrong"].pk))


@pytest.mark.django_db(transaction=True)
def test_what_the_upstream_offers_waits_in_the_catalogue_and_effort_slugs_ask_for_the_base(
    simulator: Simulator, settings: LazySettings, redis_url: str
) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = [urlsplit(simulator.url).netloc]
    verbs.create_cursor_account("alpha", simulator.keys["alpha"], simulator.url)
    ensure_catalogue()
    tasks.refresh_catalogue()
    new = CatalogueModel.objects.get(name="gpt-5.2-high")
    assert (new.source, new.enabled, new.upstream_id) == ("upstream", False, "gpt-5.2")
    assert (new.parameters, new.context_tokens) == ({"effort": "high"}, 272_000)
    seeded = CatalogueModel.objects.get(name="claude-sonnet-4.6")
    assert (seeded.source, seeded.enabled, seeded.display_name) == ("seed", True, "Claude 4.6 Sonnet")
    assert CatalogueModel.objects.filter(missing_since=None, source="seed").count() == 6
    call_command("catalogue", "list")


@pytest.mark.django_db(transaction=True)
def test_a_spent_plan_rests_until_its_cycle_ends_and_comes_back_when_something_is_left(
    login: Account, simulator: Simulator
) -> None:
    simulator.plan("beta", auto=100, api=103, ends_in=5 * 86_400, texts=True)
    tasks.refresh_quotas()
    tasks.apply_effects()
    rest = Cooldown.objects.get()
    assert (rest.model, rest.reason) == ("", "quota")
    assert abs(rest.until.timestamp() - time.time() - 5 * 86_400) < 60
    usage = PlanUsage.objects.get()
    assert (usage.auto, usage.api, usage.limit_cents) == (1.0, 1.03, 2000)
    simulator.plan("beta", auto=100, api=50)
    tasks.refresh_quotas()
    assert not Cooldown.objects.exists()
    assert not redis_connection().hexists(cooldowns_key(login.pk), "*")


@pytest.mark.django_db(transaction=True)
def test_an_api_key_that_is_not_told_is_not_asked_again_and_nobody_suffers(
    accounts: dict[str, Account], simulator: Simulator
) -> None:
    for _ in range(2):
        tasks.refresh_quotas()
    tasks.apply_effects()
    assert [entry["transport"] for entry in simulator.log()].count("usage") == 1
    assert Account.objects.get(name="alpha").state == AccountState.READY
    assert not Cooldown.objects.filter(account__name="alpha").exists()
    redis_connection().delete(*redis_connection().keys("poolgate:quota-not-told:*"))
    simulator.plan("alpha", auto=20, api=30, told=True)
    tasks.refresh_quotas()
    assert PlanUsage.objects.get().account.name == "alpha"
