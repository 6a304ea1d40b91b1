from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
import redis
from django.conf import LazySettings
from django.utils import timezone

from accounts import cursor, usable, verbs
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.cooldowns import EFFECTS
from accounts.cursor import Token
from accounts.knowledge import USABLE, Usable, note_served
from accounts.leases import cooldowns_key
from accounts.models import Account, Cooldown
from accounts.offered import Offered
from accounts.usable import PROVEN_FRESH, end_gates, refresh
from core.encryption import seal
from core.models import AuditEntry
from core.outbound import Outbound
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage


def account(number: int, **fields: object) -> AccountView:
    view = AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), number
    )
    return msgspec.structs.replace(view, **fields)


class Upstream:
    """``t-KEY-N`` for the N-th exchange of a key; what is in ``refuses`` is refused with its fault."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.asked: list[str] = []
        self.told: list[str] = []
        self.refuses: dict[str, Fault] = {}

    async def exchange(self, outbound: Outbound, base_url: str, api_key: str) -> Token:
        if api_key in self.refuses:
            raise self.refuses[api_key]
        self.exchanges += 1
        return Token(f"t-{api_key}-{self.exchanges}", time.time() + 3600)

    async def usable_models(self, outbound: Outbound, base_url: str, jwt: str) -> tuple[Offered, ...]:
        self.asked.append(jwt)
        if jwt in self.refuses:
            raise self.refuses[jwt]
        return (Offered("gpt-1", aliases=("one",)), Offered(jwt), Offered("gpt-9-high"))

    async def available_models(self, outbound: Outbound, base_url: str, jwt: str) -> tuple[Offered, ...]:
        self.told.append(jwt)
        return (Offered("gpt-9", variants={"gpt-9-high": {"effort": "high"}}), Offered("gpt-1", context_tokens=9000))


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch, settings: LazySettings) -> Upstream:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    upstream = Upstream()
    monkeypatch.setattr(cursor, "exchange", upstream.exchange)
    monkeypatch.setattr(cursor, "usable_models", upstream.usable_models)
    monkeypatch.setattr(cursor, "available_models", upstream.available_models)
    return upstream


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


async def test_every_ready_account_is_asked_and_the_answer_is_kept(
    pipe: Pipe, upstream: Upstream, client: redis.Redis
) -> None:
    accounts = [account(1), account(2), account(3, state=AccountState.BLOCKED), account(4, kind=AccountKind.PROVIDER)]
    harvest = await refresh(pipe, accounts, {number: seal(f"k{number}") for number in (1, 2, 3, 4)})
    assert (sorted(harvest.found), harvest.failed) == ([1, 2], 0)
    assert usable.read(client, 1) == harvest.found[1]
    assert "gpt-1" in harvest.found[1].models
    assert usable.read(client, 3) is None


async def test_a_list_holds_every_name_of_a_model_and_the_base_of_each_variant(pipe: Pipe, upstream: Upstream) -> None:
    harvest = await refresh(pipe, [account(1)], {1: seal("k1")})
    assert set(harvest.found[1].models) == {"gpt-1", "one", "t-k1-1", "gpt-9-high", "gpt-9"}


async def test_more_about_models_is_asked_of_one_account_alone(pipe: Pipe, upstream: Upstream) -> None:
    harvest = await refresh(pipe, [account(1), account(2)], {1: seal("k1"), 2: seal("k2")})
    assert len(upstream.told) == 1
    assert harvest.offered["gpt-1"].context_tokens == 9000


async def test_a_failed_refresh_leaves_the_old_answer_and_the_other_accounts_alone(
    pipe: Pipe, upstream: Upstream, client: redis.Redis
) -> None:
    sealed = {1: seal("k1"), 2: seal("k2")}
    before = (await refresh(pipe, [account(1)], sealed)).found
    await pipe.call("DEL", "poolgate:bearer:1")
    upstream.refuses["k1"] = Fault(Reason.TRANSIENT, Stage.CONNECT)
    harvest = await refresh(pipe, [account(1), account(2)], sealed)
    assert (sorted(harvest.found), harvest.failed) == ([2], 1)
    assert usable.read(client, 1) == before[1]
    assert client.exists(EFFECTS) == 0


async def test_a_refused_key_puts_the_account_to_rest(pipe: Pipe, upstream: Upstream, client: redis.Redis) -> None:
    upstream.refuses["k1"] = Fault(Reason.AUTH_REVOKED, Stage.AUTH)
    assert (await refresh(pipe, [account(1)], {1: seal("k1")})).found == {}
    assert client.hexists(cooldowns_key(1), "*")
    assert client.xlen(EFFECTS) == 1


async def test_an_expired_token_is_renewed_once(pipe: Pipe, upstream: Upstream) -> None:
    upstream.refuses["t-k1-1"] = Fault(Reason.AUTH_EXPIRED, Stage.AUTH)
    harvest = await refresh(pipe, [account(1)], {1: seal("k1")})
    assert "t-k1-2" in harvest.found[1].models
    assert upstream.asked == ["t-k1-1", "t-k1-2"]


@pytest.mark.django_db
def test_only_the_rest_of_a_gated_model_that_is_usable_ends_and_the_trail_says_so(
    client: redis.Redis, settings: LazySettings
) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    row: Account = verbs.create_cursor_account("alpha", "crsr_sim_alpha", "http://127.0.0.1:1")
    until = timezone.now() + timedelta(hours=1)
    for model, reason in (("gpt-1", "model_gated"), ("gpt-2", "model_gated"), ("gpt-3", "model_limit")):
        Cooldown.objects.create(account=row, model=model, until=until, reason=reason)
        client.hset(cooldowns_key(row.pk), model, "9999999999999")
    assert end_gates({row.pk: Usable(("gpt-1", "gpt-3"), 1.0)}) == 1
    assert sorted(client.hkeys(cooldowns_key(row.pk))) == [b"gpt-2", b"gpt-3"]
    assert sorted(Cooldown.objects.values_list("model", flat=True)) == ["gpt-2", "gpt-3"]
    assert AuditEntry.objects.get(verb="account.clear_cooldowns").reason == "the catalogue offers it"


async def test_an_account_that_served_lately_is_not_asked_while_its_list_is_young(
    pipe: Pipe, upstream: Upstream, client: redis.Redis
) -> None:
    accounts, sealed = [account(1), account(2)], {1: seal("k1"), 2: seal("k2")}
    await refresh(pipe, accounts, sealed)
    await note_served(pipe, [1], time.time() - 60)
    await note_served(pipe, [2], time.time() - 3600)
    upstream.asked.clear()
    harvest = await refresh(pipe, accounts, sealed)
    assert (sorted(harvest.found), len(upstream.asked)) == ([2], 1)
    assert "gpt-1" in harvest.kept
    old = Usable(("gpt-1",), time.time() - PROVEN_FRESH - 1)
    client.hset(USABLE, "1", msgspec.json.encode(old))
    assert sorted((await refresh(pipe, accounts, sealed)).found) == [1, 2]
