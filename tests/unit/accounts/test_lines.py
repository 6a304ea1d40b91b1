from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import Caller, Lease, Refused, Shortage, Slots, held_key, name_holder, slots_key, waiting_key
from accounts.lines import LEAVE, SILENCE, Line, Place, name_pool
from accounts.slot_scripts import RELEASE, TAKE
from core.redis_pipe import Pipe
from ops.record import Record
from ops.recorder import Recorder

MODEL, LIFE = "m", 60.0


def account(number: int, slots: int = 1) -> AccountView:
    return AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), number,
        slots=slots,
    )  # fmt: skip


ONE, WIDE = [account(1)], [account(1, slots=10)]


class Waiting:
    """A request that waits for one of ``accounts``."""

    def __init__(
        self, pipe: Pipe, name: str, accounts: Sequence[AccountView], *, team: int = 1, process: str = "one",
        model: str = MODEL, limit: int = 0,
    ) -> None:  # fmt: skip
        self.holder = name_holder(team, process, name)
        self.caller = Caller(key_id=7, limit=limit, team_id=team)
        self.slots = Slots(pipe, process)
        self.line = Line(team, name_pool(view.id for view in accounts), model)
        self.place = Place(pipe, process, self.slots, self.line, self.holder, life=LIFE, caller=self.caller)
        self.accounts = accounts
        self.lease: Lease | None = None

    async def ask(self) -> Shortage | int:
        """The account that it got, or why it got none."""
        answer = await self.place.ask(self.accounts)
        if isinstance(answer, Refused):
            return answer.shortage
        self.lease = answer
        return answer.account.id

    async def take(self, *, polite: bool = True) -> Shortage | int:
        answer = await self.slots.take(
            self.accounts, self.line.model, self.holder, life=LIFE, caller=self.caller, polite=polite
        )
        if isinstance(answer, Refused):
            return answer.shortage
        self.lease = answer
        return answer.account.id

    async def give_back(self) -> None:
        assert self.lease is not None
        await self.slots.release(self.lease)


@pytest.fixture(autouse=True)
async def _learned(pipe: Pipe) -> None:
    await pipe.learn(TAKE, RELEASE, LEAVE)


async def fill(pipe: Pipe, accounts: Sequence[AccountView], count: int, *, team: int = 9) -> list[Waiting]:
    """So many slots in use by a team."""
    holding = [Waiting(pipe, f"busy{team}-{number}", accounts, team=team) for number in range(count)]
    for one in holding:
        assert isinstance(await one.take(polite=False), int)
    return holding


async def test_only_the_first_in_line_is_given_a_slot_and_then_the_next(pipe: Pipe) -> None:
    [busy] = await fill(pipe, ONE, 1)
    first, second = (Waiting(pipe, name, ONE, process=process) for name, process in (("r1", "one"), ("r2", "two")))

    assert await first.ask() is Shortage.FULL
    assert await second.ask() is Shortage.IN_LINE
    assert (first.place.ahead, second.place.ahead) == (0, 1)
    await busy.give_back()
    assert await second.ask() is Shortage.IN_LINE, "it is not its turn"
    assert await first.ask() == 1
    assert await second.ask() is Shortage.FULL
    await first.give_back()
    assert await second.ask() == 1


async def test_slots_that_become_free_together_are_taken_together(pipe: Pipe) -> None:
    three = [account(1, slots=2), account(2)]
    busy = await fill(pipe, three, 3)
    first, second, third = (Waiting(pipe, f"r{number}", three) for number in range(3))
    for one in (first, second, third):
        await one.ask()
    await busy[0].give_back()
    await busy[1].give_back()

    assert await third.ask() is Shortage.IN_LINE, "both are for those before it"
    assert await second.ask() == 1
    assert await third.ask() is Shortage.IN_LINE
    assert await first.ask() == 1


async def test_while_somebody_waits_a_newcomer_that_could_wait_too_lets_them_go_first(pipe: Pipe) -> None:
    await fill(pipe, ONE, 1)
    await Waiting(pipe, "r1", ONE).ask()
    late = Waiting(pipe, "late", [*ONE, account(2)])

    assert await late.take() is Shortage.IN_LINE
    assert await late.take(polite=False) == 2, "who has been at an account before does not queue up again"


async def test_a_line_with_nobody_in_it_leaves_nothing_behind(pipe: Pipe) -> None:
    waiting = Waiting(pipe, "r1", ONE)
    assert await waiting.ask() == 1
    await waiting.give_back()

    assert await pipe.call("KEYS", "*") == []


async def test_who_leaves_gives_way_and_may_leave_twice(pipe: Pipe) -> None:
    [busy] = await fill(pipe, ONE, 1)
    first, second = Waiting(pipe, "r1", ONE), Waiting(pipe, "r2", ONE)
    await first.ask()
    await second.ask()
    first.place.leave()
    first.place.leave()
    await busy.give_back()

    assert await second.ask() == 1
    assert await pipe.call("EXISTS", waiting_key(MODEL)) == 0


async def test_closing_the_record_leaves_the_line(pipe: Pipe) -> None:
    [busy] = await fill(pipe, ONE, 1)
    first, second = Waiting(pipe, "r1", ONE), Waiting(pipe, "r2", ONE)
    await first.ask()
    await second.ask()
    record = Record(request_id="r1", started_at=1.0, protocol="chat", endpoint="/v1/chat/completions", team_id=1)
    await Recorder(pipe, "one").close_again(record)
    await busy.give_back()

    assert await second.ask() == 1
    assert await pipe.call("HKEYS", held_key("one")) == [second.holder.encode()]


async def test_what_a_dead_process_had_in_line_falls_out(pipe: Pipe) -> None:
    two = [account(1, slots=2)]
    busy, _ = await fill(pipe, two, 2)
    for number in range(2):
        await Waiting(pipe, f"d{number}", two, process="dead").ask()
    alive = Waiting(pipe, "r1", two)
    await busy.give_back()
    assert await alive.ask() is Shortage.IN_LINE
    await asyncio.sleep(SILENCE + 0.1)

    assert await alive.ask() == 1


async def test_who_only_seemed_dead_has_its_place_again(pipe: Pipe) -> None:
    [busy] = await fill(pipe, ONE, 1)
    slow, other = Waiting(pipe, "r1", ONE, process="slow"), Waiting(pipe, "r2", ONE)
    await slow.ask()
    await other.ask()
    await asyncio.sleep(SILENCE + 0.1)
    assert await other.ask() is Shortage.FULL, "it is the first now"
    assert await slow.ask() is Shortage.FULL, "and now no more"
    await busy.give_back()

    assert await other.ask() is Shortage.IN_LINE
    assert await slow.ask() == 1


async def test_other_accounts_and_other_models_have_lines_of_their_own(pipe: Pipe) -> None:
    await fill(pipe, ONE, 1)
    await Waiting(pipe, "r1", ONE).ask()

    assert await Waiting(pipe, "r2", [account(2)]).ask() == 2, "what the first waits for is of no use to it"
    assert await Waiting(pipe, "r3", [account(3)], model="other").take() == 3


async def test_a_limit_is_told_and_costs_the_place(pipe: Pipe) -> None:
    busy = Waiting(pipe, "r0", ONE, limit=1)
    await busy.take()
    assert await Waiting(pipe, "r1", ONE, limit=1).ask() is Shortage.KEY_BUSY

    await busy.give_back()
    assert await pipe.call("EXISTS", waiting_key(MODEL)) == 0


async def test_a_rest_is_told_to_the_first_in_line(pipe: Pipe) -> None:
    clock = await pipe.call("TIME")
    await pipe.call("HSET", "poolgate:cool:1", "*", (int(clock[0]) + 60) * 1000)
    answer = await Waiting(pipe, "r1", ONE).place.ask(ONE)

    assert isinstance(answer, Refused)
    assert answer.shortage is Shortage.COOLED
    assert answer.soonest is not None


async def test_nobody_to_ask_is_nothing_to_wait_for(pipe: Pipe) -> None:
    assert await Waiting(pipe, "r1", []).ask() is Shortage.NO_ACCOUNT


async def test_a_line_has_twice_as_many_places_as_there_are_slots(pipe: Pipe) -> None:
    two = [account(1, slots=2)]
    await fill(pipe, two, 2)
    got = [await Waiting(pipe, f"r{number}", two).ask() for number in range(5)]

    assert got == [Shortage.FULL, *[Shortage.IN_LINE] * 3, Shortage.LINE_FULL]


async def test_a_team_that_fills_the_line_does_not_keep_others_out_of_theirs(pipe: Pipe) -> None:
    two = [account(1, slots=2)]
    await fill(pipe, two, 2)
    for number in range(4):
        await Waiting(pipe, f"g{number}", two, team=1).ask()

    assert await Waiting(pipe, "g4", two, team=1).ask() is Shortage.LINE_FULL
    got = [await Waiting(pipe, f"s{number}", two, team=2).ask() for number in range(3)]
    assert got == [Shortage.FULL, Shortage.IN_LINE, Shortage.LINE_FULL], "two of four places are theirs"


async def test_a_crowded_pool_keeps_a_team_to_its_share_while_others_wait(pipe: Pipe) -> None:
    busy = await fill(pipe, WIDE, 10, team=1)
    greedy, small = Waiting(pipe, "g", WIDE, team=1), Waiting(pipe, "s", WIDE, team=2)
    assert [await greedy.ask(), await small.ask()] == [Shortage.FULL, Shortage.FULL]
    await busy[0].give_back()

    assert await greedy.ask() is Shortage.SHARE
    assert await small.ask() == 1
    await busy[1].give_back()
    assert await greedy.ask() == 1, "nobody else waits any more"


async def test_in_a_crowded_pool_the_teams_end_up_with_equal_shares(pipe: Pipe) -> None:
    busy = await fill(pipe, WIDE, 10, team=1)
    greedy = [Waiting(pipe, f"g{number}", WIDE, team=1) for number in range(8)]
    small = [Waiting(pipe, f"s{number}", WIDE, team=2) for number in range(8)]
    got = {1: 10, 2: 0}
    for one in busy:
        got[1] -= 1
        await one.give_back()
        for line in (greedy, small):
            for waiting in list(line):
                if isinstance(await waiting.ask(), int):
                    got[waiting.caller.team_id] += 1
                    line.remove(waiting)

    assert got == {1: 5, 2: 5}


async def test_below_four_fifths_of_use_and_wishes_nobody_is_held_back(pipe: Pipe) -> None:
    busy = await fill(pipe, WIDE, 10, team=1)
    greedy, small = Waiting(pipe, "g", WIDE, team=1), Waiting(pipe, "s", WIDE, team=2)
    await greedy.ask()
    await small.ask()
    for one in busy[:5]:
        await one.give_back()

    assert await greedy.ask() == 1


async def test_slots_that_become_free_together_are_shared_too(pipe: Pipe) -> None:
    busy = await fill(pipe, WIDE, 10, team=1)
    greedy = [Waiting(pipe, f"g{number}", WIDE, team=1) for number in range(10)]
    small = [Waiting(pipe, f"s{number}", WIDE, team=2) for number in range(10)]
    for one in (*greedy, *small):
        await one.ask()
    for one in busy:
        await one.give_back()
    got = [await one.ask() for one in greedy]

    assert got.count(1) == 5
    assert [await one.ask() for one in small].count(1) == 5


async def test_a_team_that_waits_for_other_accounts_holds_nobody_back(pipe: Pipe) -> None:
    other = [account(2)]
    busy = await fill(pipe, WIDE, 10, team=1)
    await fill(pipe, other, 1, team=2)
    greedy, stranger = Waiting(pipe, "g", WIDE, team=1), Waiting(pipe, "s", other, team=2)
    await greedy.ask()
    await stranger.ask()
    await busy[0].give_back()

    assert await greedy.ask() == 1


async def test_what_a_team_runs_elsewhere_does_not_count_against_its_share_here(pipe: Pipe) -> None:
    await fill(pipe, [account(2, slots=50)], 50, team=1)
    busy = await fill(pipe, WIDE, 10, team=3)
    mine, other = Waiting(pipe, "m", WIDE, team=1), Waiting(pipe, "o", WIDE, team=2)
    await mine.ask()
    await other.ask()
    await busy[0].give_back()

    assert await mine.ask() == 1


async def test_teams_that_have_their_shares_do_not_wait_for_each_other(pipe: Pipe) -> None:
    """Both have half of what they may use; the account between them is free, and one of the two must get it."""
    mine, theirs, between = [account(1, slots=5)], [account(2, slots=5)], account(3, slots=1)
    await fill(pipe, mine, 5, team=1)
    await fill(pipe, theirs, 5, team=2)
    [busy] = await fill(pipe, [between], 1, team=3)
    first = Waiting(pipe, "f", [*mine, between], team=1)
    second = Waiting(pipe, "s", [*theirs, between], team=2)
    await first.ask()
    await second.ask()
    await busy.give_back()

    assert 3 in [await first.ask(), await second.ask()]


async def test_an_account_that_was_taken_in_line_counts_as_any_other(pipe: Pipe) -> None:
    waiting = Waiting(pipe, "r1", ONE)
    await waiting.ask()

    assert await pipe.call("ZRANGE", slots_key(1), 0, -1) == [waiting.holder.encode()]
    assert waiting.slots.loads() == {1: 1}
