from __future__ import annotations

import asyncio

from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import Caller, Lease, Refused, Shortage, Slots
from accounts.lines import Place, line_key
from core.redis_pipe import Pipe

ACCOUNT = AccountView(
    1, "a1", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), 1, slots=5
)


async def take(pipe: Pipe, holder: str, team: int) -> Lease | Refused:
    return await Slots(pipe, "one").take([ACCOUNT], "m", holder, life=60, caller=Caller(team_id=team))


async def standing(pipe: Pipe) -> list[str]:
    return [member.decode() for member in await pipe.call("ZRANGE", line_key("m"), 0, -1)]


async def test_who_joins_hears_how_many_stand_before_and_keeps_the_place(pipe: Pipe) -> None:
    first, second = Place(pipe, "m", 1, "r1"), Place(pipe, "m", 1, "r2")

    assert [await first.join(9), await second.join(9), await first.join(9), await second.join(9)] == [0, 1, 0, 1]


async def test_a_line_has_an_end(pipe: Pipe) -> None:
    assert await Place(pipe, "m", 1, "r1").join(1) == 0
    assert await Place(pipe, "m", 1, "r2").join(1) == -1
    assert await standing(pipe) == ["1|r1"]


async def test_nobody_of_the_team_overtakes(pipe: Pipe) -> None:
    await Place(pipe, "m", 1, "r1").join(9)

    assert await take(pipe, "late", 1) == Refused(Shortage.IN_LINE)
    assert isinstance(await take(pipe, "r1", 1), Lease), "the first in line may"
    assert isinstance(await take(pipe, "late", 1), Lease)


async def test_other_teams_and_other_models_are_not_held_up(pipe: Pipe) -> None:
    await Place(pipe, "m", 1, "r1").join(9)
    await Place(pipe, "other", 2, "r2").join(9)

    assert isinstance(await take(pipe, "r3", 2), Lease)


async def test_who_is_served_stands_in_line_no_more(pipe: Pipe) -> None:
    await Place(pipe, "m", 1, "r1").join(9)
    await take(pipe, "r1", 1)

    assert await standing(pipe) == []


async def test_who_leaves_gives_way(pipe: Pipe) -> None:
    place = Place(pipe, "m", 1, "r1")
    await place.join(9)
    place.leave()
    place.leave()

    assert isinstance(await take(pipe, "r2", 1), Lease)


async def test_who_died_in_line_falls_out(pipe: Pipe) -> None:
    await Place(pipe, "m", 1, "dead").join(9)
    await pipe.call("ZADD", f"{line_key('m')}:alive", 1, "1|dead")

    assert isinstance(await take(pipe, "r2", 1), Lease)
    assert await standing(pipe) == []


async def test_a_place_that_was_never_taken_is_not_left(pipe: Pipe) -> None:
    Place(pipe, "m", 1, "r1").leave()
    await asyncio.sleep(0)
    assert await pipe.call("DBSIZE") == 0
