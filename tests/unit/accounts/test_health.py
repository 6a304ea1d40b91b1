from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest
import redis
from django.conf import LazySettings

from accounts import cursor, health, verbs
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.cooldowns import EFFECTS
from accounts.credentials import Bearers
from accounts.cursor import Token
from accounts.failures import Next
from accounts.knowledge import QUOTA, SERVED, USABLE
from accounts.leases import cooldowns_key
from accounts.offered import Offered
from accounts.proxies import CHECKS
from core.encryption import seal
from core.outbound import AllowList, Outbound
from core.redis_pipe import Pipe
from core.settings import Settings
from ir.errors import Fault, Reason, Stage


def account(number: int, **fields: object) -> AccountView:
    view = AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), number
    )
    return msgspec.structs.replace(view, **fields)


class Upstream:
    """Tokens that live ``life`` seconds; ``fails`` is raised in their place while it is set."""

    def __init__(self) -> None:
        self.life = 3600.0
        self.exchanged: list[str] = []
        self.fails: Fault | None = None

    async def exchange(self, outbound: Outbound, base_url: str, api_key: str) -> Token:
        if self.fails is not None:
            raise self.fails
        self.exchanged.append(api_key)
        return Token(f"t{len(self.exchanged)}", time.time() + self.life)

    async def usable_models(self, outbound: Outbound, base_url: str, jwt: str) -> tuple[Offered, ...]:
        return (Offered("gpt-1"), Offered("gpt-2"))


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Upstream:
    upstream = Upstream()
    monkeypatch.setattr(cursor, "exchange", upstream.exchange)
    monkeypatch.setattr(cursor, "usable_models", upstream.usable_models)
    return upstream


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


async def test_the_job_renews_the_tokens_that_are_in_use_and_end_soon(pipe: Pipe, upstream: Upstream) -> None:
    accounts = [account(1), account(2), account(3, state=AccountState.BLOCKED)]
    sealed = {number: seal(f"k{number}") for number in (1, 2, 3)}
    async with Outbound(allowed=AllowList([])) as outbound:
        bearers = Bearers(pipe, outbound, now=lambda: time.time() - 3500)
        for each in accounts[::2]:
            upstream.life = 100
            await bearers.get(each, sealed[each.credential_id])
        await bearers.close()
    upstream.exchanged.clear()
    upstream.life = 3600
    assert await health.renew(pipe, accounts, sealed, Settings()) == {"good": 1, "renewed": 1, "failed": 0}
    assert upstream.exchanged == ["k1"]
    assert await health.renew(pipe, accounts, sealed, Settings()) == {"good": 2, "renewed": 0, "failed": 0}


async def test_an_account_says_how_many_models_it_would_serve(pipe: Pipe, upstream: Upstream) -> None:
    async with Outbound(allowed=AllowList([])) as outbound:
        answer = await health.ask(Bearers(pipe, outbound), outbound, account(1), seal("k1"))
    assert (answer.models, answer.reason, answer.consequence) == (2, None, None)


async def test_a_refused_question_tells_the_row_of_the_table_and_changes_nothing(
    pipe: Pipe, upstream: Upstream, client: redis.Redis
) -> None:
    upstream.fails = Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="401")
    async with Outbound(allowed=AllowList([])) as outbound:
        answer = await health.ask(Bearers(pipe, outbound), outbound, account(1), seal("k1"))
    assert (answer.reason, answer.code) == (Reason.AUTH_REVOKED, "401")
    assert answer.consequence is not None
    assert (answer.consequence.next, answer.consequence.state) == (Next.SWITCH, AccountState.NEEDS_SIGN_IN)
    assert not client.exists(cooldowns_key(1), EFFECTS)


@pytest.mark.django_db
def test_what_is_known_of_accounts_that_are_gone_is_forgotten(client: redis.Redis, settings: LazySettings) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    row = verbs.create_cursor_account("alpha", "crsr_sim_alpha", "http://127.0.0.1:1")
    for name in (USABLE, QUOTA, SERVED):
        client.hset(name, mapping={str(row.pk): "x", str(row.pk + 1): "x"})
    client.hset(CHECKS, mapping={"direct": "x", "77": "x"})
    assert health.sweep(client) == 4
    assert client.hkeys(USABLE) == [str(row.pk).encode()]
    assert client.hkeys(CHECKS) == [b"direct"]
    assert health.sweep(client) == 0
