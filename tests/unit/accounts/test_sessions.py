from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from accounts import cursor, logins
from accounts.compile import AccountKind, AccountView, Transport
from accounts.credentials import Bearers
from accounts.logins import Kept, Login
from core.encryption import open_sealed, seal
from core.outbound import AllowList, Outbound
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage
from tests.unit.accounts import jwt

DAY = 86_400.0
ACCOUNT = AccountView(
    1, "a1", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), credential_id=7, login=True
)


class Upstream:
    """Each refresh gives ``sN`` and ``rN`` for sixty days and uses its token up; a used one ends the session."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.good = {"refresh-0"}
        self.refreshes = 0
        self.fails: Fault | None = None

    def token(self, number: int, life: float = 60 * DAY) -> str:
        return jwt.make(self.now + life, f"s{number}")

    async def refresh(self, outbound: Outbound, base_url: str, client_id: str, refresh_token: str) -> tuple[str, str]:
        await asyncio.sleep(0.02)
        if self.fails is not None:
            raise self.fails
        if refresh_token not in self.good:
            raise Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="session_over")
        self.refreshes += 1
        self.good = {f"refresh-{self.refreshes}"}
        return self.token(self.refreshes), f"refresh-{self.refreshes}"


class Row:
    """A vault of one row. ``away``: it cannot be written."""

    def __init__(self, login: Login) -> None:
        self.kept: Kept | None = Kept(seal(logins.encode(login)), 1)
        self.away = False

    async def read(self, credential_id: int) -> Kept | None:
        return self.kept if credential_id == 7 else None

    async def rotate(self, credential_id: int, version: int, login: Login) -> bool:
        if self.away:
            raise Fault(Reason.INTERNAL, Stage.AUTH, upstream_code="vault_down")
        if self.kept is None or self.kept.version != version:
            return False
        self.kept = Kept(seal(logins.encode(login)), version + 1)
        return True

    @property
    def login(self) -> Login:
        assert self.kept is not None
        return logins.decode(open_sealed(self.kept.login))


class Place:
    """Two processes, one upstream, one row that holds a login of ten more days."""

    def __init__(self, pipes: list[Pipe], outbound: Outbound, upstream: Upstream) -> None:
        self.upstream = upstream
        self.client_id = "client"
        self.first = Login(upstream.token(0, 10 * DAY), "refresh-0", upstream.now - 50 * DAY)
        self.row = Row(self.first)
        self.sealed = seal(logins.encode(self.first))
        self.processes = [
            Bearers(pipe, outbound, now=lambda: upstream.now, client_id=lambda: self.client_id, vault=self.row)
            for pipe in pipes
        ]

    async def get(self, process: int = 0) -> str:
        return await self.processes[process].get(ACCOUNT, self.sealed)


@pytest.fixture
async def place(pipe: Pipe, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    upstream, other = Upstream(), await Pipe.connect(redis_url)
    monkeypatch.setattr(cursor, "refresh", upstream.refresh)
    async with Outbound(allowed=AllowList([])) as outbound:
        place = Place([pipe, other], outbound, upstream)
        yield place
        for bearers in place.processes:
            await bearers.close()
    await other.close()


async def test_a_login_that_is_good_is_the_bearer_and_nothing_is_refreshed(place: Place) -> None:
    assert await place.get() == place.first.access
    assert place.upstream.refreshes == 0


async def test_an_ended_login_is_refreshed_once_for_every_caller_of_every_process(place: Place) -> None:
    place.upstream.now += 11 * DAY
    got = await asyncio.gather(*[place.get(number % 2) for number in range(50)])
    assert set(got) == {place.row.login.access}
    assert (place.upstream.refreshes, place.row.login.refresh) == (1, "refresh-1")


async def test_a_refused_login_is_refreshed_and_the_late_ones_get_the_new_one(place: Place) -> None:
    old = await place.get()
    got = await asyncio.gather(*[place.processes[number % 2].renew(ACCOUNT, place.sealed, old) for number in range(20)])
    assert set(got) == {place.row.login.access}
    assert place.upstream.refreshes == 1


async def test_without_a_client_id_a_login_serves_until_it_ends_and_then_asks_for_a_sign_in(place: Place) -> None:
    place.client_id = ""
    place.upstream.now += 10 * DAY - 100
    assert await place.get() == place.first.access
    place.upstream.now += 100
    with pytest.raises(Fault) as fault:
        await place.get()
    assert (fault.value.reason, fault.value.upstream_code) == (Reason.AUTH_REVOKED, "login_ended")
    assert place.upstream.refreshes == 0


async def test_a_login_that_is_not_saved_is_never_refreshed(place: Place) -> None:
    place.row.kept = None
    place.upstream.now += 11 * DAY
    with pytest.raises(Fault) as fault:
        await place.get()
    assert (fault.value.reason, fault.value.upstream_code) == (Reason.AUTH_REVOKED, "login_not_saved")
    assert (place.upstream.refreshes, place.upstream.good) == (0, {"refresh-0"})


async def test_a_session_that_is_over_is_final(place: Place) -> None:
    place.upstream.good = set()
    place.upstream.now += 11 * DAY
    with pytest.raises(Fault) as fault:
        await place.get()
    assert (fault.value.reason, fault.value.upstream_code) == (Reason.AUTH_REVOKED, "session_over")


async def test_who_lost_a_race_for_the_refresh_token_takes_what_the_winner_wrote(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Login(place.upstream.token(9), "refresh-9", place.upstream.now + 11 * DAY)

    async def beaten(*_: object) -> tuple[str, str]:
        await place.row.rotate(7, 1, newer)
        raise Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="session_over")

    monkeypatch.setattr(cursor, "refresh", beaten)
    place.upstream.now += 11 * DAY
    assert await place.get() == newer.access


async def test_a_login_that_was_replaced_during_the_refresh_is_not_written_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_: object) -> tuple[str, str]:
        place.row.kept = Kept(seal(logins.encode(Login(place.upstream.token(5), "imported", 1.0))), 2)
        return place.upstream.token(1), "refresh-1"

    monkeypatch.setattr(cursor, "refresh", slow)
    place.upstream.now += 11 * DAY
    await place.get()
    assert place.row.login.refresh == "imported"


async def test_a_refreshed_login_that_could_not_be_written_down_is_not_lost(place: Place, pipe: Pipe) -> None:
    place.row.away = True
    place.upstream.now += 11 * DAY
    bearer = await place.get()
    kept = await pipe.call("GET", "poolgate:login:7")
    assert b"refresh-1" not in kept
    await pipe.call("DEL", "poolgate:bearer:7")
    place.row.away = False
    assert await place.get(1) == bearer
    assert (place.row.login.refresh, place.upstream.refreshes) == ("refresh-1", 1)
    assert await pipe.call("GET", "poolgate:login:7") is None


async def test_the_job_refreshes_ahead_and_only_what_is_due(place: Place) -> None:
    bearers = place.processes[0]
    assert not await bearers.ahead(ACCOUNT, place.sealed, 5 * DAY)
    assert await bearers.ahead(ACCOUNT, place.sealed, 20 * DAY)
    assert not await bearers.ahead(ACCOUNT, place.sealed, 20 * DAY)
    assert (place.upstream.refreshes, place.row.login.refresh) == (1, "refresh-1")
    assert await place.get(1) in {place.first.access, place.row.login.access}


async def test_a_refresh_ahead_that_fails_on_the_way_leaves_the_login_in_use(place: Place) -> None:
    place.upstream.fails = Fault(Reason.TRANSIENT, Stage.CONNECT)
    with pytest.raises(Fault):
        await place.processes[0].ahead(ACCOUNT, place.sealed, 20 * DAY)
    assert await place.get() == place.first.access
    assert place.row.login == place.first


async def test_neither_token_of_a_login_lies_open_in_redis(place: Place, pipe: Pipe) -> None:
    place.row.away = True
    place.upstream.now += 11 * DAY
    bearer = await place.get()
    kept = [await pipe.call("GET", key) for key in await pipe.call("KEYS", "poolgate:*")]
    assert len(kept) == 2
    assert not any(bearer.encode() in value or b"refresh-1" in value for value in kept)
