from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from accounts import cursor
from accounts.compile import AccountKind, AccountView, Transport
from accounts.credentials import Bearers
from accounts.cursor import Token
from core.encryption import seal
from core.outbound import AllowList, Outbound
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage

ACCOUNT = AccountView(
    1, "a1", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), credential_id=7
)
HOUR = 3600.0


class Upstream:
    """Counts exchanges and gives tokens ``t1``, ``t2`` …; ``fails`` is raised instead while it is set."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.now = 1_800_000_000.0
        self.life = HOUR
        self.fails: Fault | None = None
        self.keys: set[str] = set()
        self.ways: list[Outbound] = []

    async def exchange(self, outbound: Outbound, base_url: str, api_key: str) -> Token:
        self.exchanges += 1
        self.keys.add(api_key)
        self.ways.append(outbound)
        number = self.exchanges
        await asyncio.sleep(0.02)
        if self.fails is not None:
            raise self.fails
        return Token(f"t{number}", self.now + self.life)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Upstream:
    upstream = Upstream()
    monkeypatch.setattr(cursor, "exchange", upstream.exchange)
    return upstream


@pytest.fixture
def sealed() -> bytes:
    return seal("crsr_sim_alpha")


@pytest.fixture
async def processes(pipe: Pipe, redis_url: str, upstream: Upstream) -> AsyncIterator[list[Bearers]]:
    """Two processes with their own connections."""
    other = await Pipe.connect(redis_url)
    async with Outbound(allowed=AllowList([])) as outbound:
        both = [Bearers(line, outbound, now=lambda: upstream.now) for line in (pipe, other)]
        yield both
        for bearers in both:
            await bearers.close()
    await other.close()


async def test_one_exchange_serves_every_caller_of_every_process(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    got = await asyncio.gather(*[processes[number % 2].get(ACCOUNT, sealed) for number in range(50)])
    assert set(got) == {"t1"}
    assert (upstream.exchanges, upstream.keys) == (1, {"crsr_sim_alpha"})


async def test_a_token_in_hand_costs_no_round_trip(
    processes: list[Bearers], pipe: Pipe, upstream: Upstream, sealed: bytes
) -> None:
    await processes[0].get(ACCOUNT, sealed)
    await pipe.close()
    assert await processes[0].get(ACCOUNT, sealed) == "t1"


async def test_one_renewal_answers_every_caller_that_met_the_401(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    for bearers in processes:
        await bearers.get(ACCOUNT, sealed)
    got = await asyncio.gather(*[processes[number % 2].renew(ACCOUNT, sealed, "t1") for number in range(50)])
    assert set(got) == {"t2"}
    assert upstream.exchanges == 2
    assert await processes[0].renew(ACCOUNT, sealed, "t1") == "t2"  # a late one: it is renewed already
    assert upstream.exchanges == 2


async def test_a_fresh_token_that_is_refused_too_means_the_account_is(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    await processes[0].get(ACCOUNT, sealed)
    fresh = await processes[0].renew(ACCOUNT, sealed, "t1")
    assert await processes[1].get(ACCOUNT, sealed) == fresh
    for bearers in processes:
        with pytest.raises(Fault) as fault:
            await bearers.renew(ACCOUNT, sealed, fresh)
        assert (fault.value.reason, fault.value.stage) == (Reason.AUTH_REVOKED, Stage.AUTH)
    assert upstream.exchanges == 2


async def test_a_renewed_token_that_served_for_a_while_may_be_renewed_again(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    await processes[0].get(ACCOUNT, sealed)
    await processes[0].renew(ACCOUNT, sealed, "t1")
    upstream.now += 600
    assert await processes[0].renew(ACCOUNT, sealed, "t2") == "t3"


async def test_a_token_near_its_end_is_renewed_behind_the_callers_back(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    await processes[0].get(ACCOUNT, sealed)
    upstream.now += HOUR - 200
    assert await processes[0].get(ACCOUNT, sealed) == "t1"
    await asyncio.sleep(0.1)
    assert await processes[0].get(ACCOUNT, sealed) == "t2"
    assert upstream.exchanges == 2


async def test_a_failed_renewal_ahead_of_time_does_not_touch_the_caller(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    await processes[0].get(ACCOUNT, sealed)
    upstream.now += HOUR - 200
    upstream.fails = Fault(Reason.TRANSIENT, Stage.CONNECT)
    for _ in range(3):
        assert await processes[0].get(ACCOUNT, sealed) == "t1"
        await asyncio.sleep(0.05)


async def test_an_expired_token_is_never_given(processes: list[Bearers], upstream: Upstream, sealed: bytes) -> None:
    await processes[0].get(ACCOUNT, sealed)
    upstream.now += HOUR
    assert await processes[0].get(ACCOUNT, sealed) == "t2"


async def test_every_waiting_caller_hears_of_the_fault_and_the_next_one_tries_again(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    upstream.fails = Fault(Reason.AUTH_REVOKED, Stage.AUTH)
    callers = [processes[0].get(ACCOUNT, sealed) for _ in range(5)]
    heard = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(fault) for fault in heard] == [Fault] * 5
    assert upstream.exchanges == 1
    upstream.fails = None
    assert await processes[0].get(ACCOUNT, sealed) == "t2"


async def test_a_caller_that_leaves_does_not_end_the_exchange_for_the_others(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    first = asyncio.create_task(processes[0].get(ACCOUNT, sealed))
    second = asyncio.create_task(processes[0].get(ACCOUNT, sealed))
    await asyncio.sleep(0.005)
    first.cancel()
    assert await second == "t1"
    assert upstream.exchanges == 1


async def test_a_replaced_credential_never_meets_the_old_ones_token(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    await processes[0].get(ACCOUNT, sealed)
    replaced = msgspec.structs.replace(ACCOUNT, credential_id=8)
    assert await processes[0].get(replaced, seal("crsr_sim_other")) == "t2"
    assert upstream.keys == {"crsr_sim_alpha", "crsr_sim_other"}


async def test_an_account_with_a_proxy_signs_in_through_it(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    proxied = msgspec.structs.replace(ACCOUNT, credential_id=9, proxy_url="http://127.0.0.1:1")
    for account in (ACCOUNT, msgspec.structs.replace(ACCOUNT, credential_id=8), proxied):
        await processes[0].get(account, sealed)
    assert upstream.ways[0] is upstream.ways[1]
    assert upstream.ways[2] is not upstream.ways[0]


async def test_without_redis_every_process_exchanges_for_itself(
    processes: list[Bearers], pipe: Pipe, upstream: Upstream, sealed: bytes
) -> None:
    await pipe.close()
    assert await processes[0].get(ACCOUNT, sealed) == "t1"


async def test_neither_token_nor_key_lies_open_in_redis_or_in_a_repr(
    processes: list[Bearers], pipe: Pipe, upstream: Upstream, sealed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exchange(outbound: Outbound, base_url: str, api_key: str) -> Token:
        return Token("canary-token", upstream.now + HOUR)

    monkeypatch.setattr(cursor, "exchange", exchange)
    await processes[0].get(ACCOUNT, sealed)
    kept = [await pipe.call("GET", key) for key in await pipe.call("KEYS", "*")]
    assert kept
    assert not any(b"canary" in value or b"crsr" in value for value in kept)
    assert "canary" not in repr(vars(processes[0]))


async def test_a_credential_that_cannot_be_opened_is_our_fault_not_the_accounts(
    processes: list[Bearers], upstream: Upstream
) -> None:
    with pytest.raises(Fault) as fault:
        await processes[0].get(ACCOUNT, b"00000000:garbage")
    assert fault.value.reason is Reason.INTERNAL


async def test_a_dead_lock_holder_is_waited_for_and_no_longer(
    processes: list[Bearers], pipe: Pipe, upstream: Upstream, sealed: bytes
) -> None:
    await pipe.call("SET", "poolgate:bearer-lock:7", "somebody who died", "PX", 150)
    started = asyncio.get_running_loop().time()
    assert await processes[0].get(ACCOUNT, sealed) == "t1"
    assert asyncio.get_running_loop().time() - started > 0.1


async def test_a_way_that_wants_no_token_gets_the_credential_itself(
    processes: list[Bearers], upstream: Upstream, sealed: bytes
) -> None:
    assert processes[0].key(ACCOUNT, sealed) == "crsr_sim_alpha"
    assert upstream.exchanges == 0
    with pytest.raises(Fault) as fault:
        processes[1].key(ACCOUNT, b"sealed by nobody")
    assert fault.value.reason is Reason.INTERNAL
