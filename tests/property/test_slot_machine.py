"""Slots as a state machine against the real server, with two processes of which one may die.

No account above what it may serve (its slots, fewer while it warms up, one while it comes back from a rest), no caller
above a limit, nobody overtaken in line, no slot lost, none invented.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import Any

import pytest
import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from accounts import lines
from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import (
    Caller,
    Lease,
    Refused,
    Shortage,
    Slots,
    cooldowns_key,
    held_key,
    name_holder,
    running_key,
    slots_key,
    waiting_key,
)
from accounts.lines import LEAVE, PLACES_A_SLOT, Line, Place, name_pool
from accounts.slot_scripts import RELEASE
from core.redis_pipe import Pipe
from ops.drain import reap_lost
from ops.record import Record
from ops.recorder import RECORDS, Recorder

ACCOUNTS = [
    AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), number,
        slots=slots,
    )
    for number, slots in ((1, 1), (2, 2), (3, 4))
]  # fmt: skip
SLOTS = {view.id: view.slots for view in ACCOUNTS}
NUMBERS = st.integers(0, 7)
LIMITS = {"key": 3, "member": 4, "team": 5}
WORDS = {"key": Shortage.KEY_BUSY, "member": Shortage.MEMBER_BUSY, "team": Shortage.TEAM_BUSY}
PAST_WARMING = 70_000
PARTS = st.sets(st.sampled_from(sorted(LIMITS)))


class SlotMachine(RuleBasedStateMachine):
    """A holder is known by its number, which says process and team. ``held``: number → account; ``counted``: part →
    numbers; ``line``: numbers in the order of coming; ``half_open``: account → number of its canary or None; ``warm``:
    account → share of its slots."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.pipe = self.runner.run(Pipe.connect(url))
        self.client = redis.Redis.from_url(url)
        self.client.flushdb()
        self.run_now(self.pipe.learn(RELEASE, LEAVE))
        self.slots = {name: Slots(self.pipe, name) for name in ("one", "two")}
        self.recorders = {name: Recorder(self.pipe, name) for name in ("one", "two")}
        self.places: dict[int, Place] = {}
        self.leases: dict[int, Lease] = {}
        self.held: dict[int, int] = {}
        self.counted: dict[str, set[int]] = {part: set() for part in LIMITS}
        self.line: list[int] = []
        self.half_open: dict[int, int | None] = {}
        self.warm: dict[int, float] = {}
        self.lingers = False
        self.filed = 0

    def run_now(self, what: Awaitable[Any]) -> Any:
        async def wrap() -> Any:
            return await what

        return self.runner.run(wrap())

    def home(self, number: int) -> str:
        return "one" if number % 2 else "two"

    def team(self, number: int) -> int:
        return 1 + number // 4

    def holder(self, number: int) -> str:
        return name_holder(self.team(number), self.home(number), f"r{number}")

    def caller(self, number: int, parts: set[str]) -> Caller:
        limits = {part: most if part in parts else 0 for part, most in LIMITS.items()}
        return Caller(1, limits["key"], 1, limits["member"], 1, limits["team"])

    def busy(self, number: int, parts: set[str]) -> Shortage | None:
        """The first limit that is reached."""
        for part in ("key", "member", "team"):
            counted = self.counted[part]
            if part in parts and number not in counted and len(counted) >= LIMITS[part]:
                return WORDS[part]
        return None

    def room(self, account: int) -> int:
        """How many more the account may serve."""
        most = SLOTS[account]
        if account in self.half_open:
            busy = self.half_open[account] is not None or list(self.held.values()).count(account) >= most
            return 0 if busy else 1
        if account in self.warm:
            most = max(1, math.floor(most * self.warm[account]))
        return most - list(self.held.values()).count(account)

    def let_go(self, number: int) -> None:
        account = self.held.pop(number, None)
        self.leases.pop(number, None)
        if account is not None and self.half_open.get(account) == number:
            self.half_open[account] = None

    def check(
        self, number: int, parts: set[str], order: list[AccountView], answer: Lease | Refused, before: int = 0
    ) -> None:
        """An answer to a request that was allowed to look at the accounts, behind so many others."""
        rooms = [view for view in order for _ in range(max(self.room(view.id), 0))]
        free = rooms[before:]
        if not free:
            assert isinstance(answer, Refused)
            assert answer.shortage is (Shortage.IN_LINE if before else Shortage.FULL)
            assert [one.account_id for one in answer.passed] == [view.id for view in order]
            return
        assert isinstance(answer, Lease)
        account = answer.account.id
        assert account == free[0].id
        assert answer.load == list(self.held.values()).count(account)
        assert answer.canary == (account in self.half_open)
        if account in self.half_open:
            self.half_open[account] = number
        self.held[number], self.leases[number] = account, answer
        for part in parts:
            self.counted[part].add(number)

    @rule(number=NUMBERS, order=st.permutations(ACCOUNTS), many=st.integers(1, 3), parts=PARTS, polite=st.booleans())
    def take(self, number: int, order: list[AccountView], many: int, parts: set[str], polite: bool) -> None:
        slots, caller = self.slots[self.home(number)], self.caller(number, parts)
        answer = self.run_now(
            slots.take(order[:many], "m", self.holder(number), life=600, caller=caller, polite=polite)
        )
        self.let_go(number)
        if (busy := self.busy(number, parts)) is not None:
            assert answer == Refused(busy)
        elif polite and (self.line or self.lingers):
            assert answer == Refused(Shortage.IN_LINE)
        else:
            self.check(number, parts, order[:many], answer)

    @rule(number=NUMBERS, order=st.permutations(ACCOUNTS), parts=PARTS)
    def wait(self, number: int, order: list[AccountView], parts: set[str]) -> None:
        """All stand in one line: they are of one team as far as waiting goes."""
        if number in self.held:
            return
        caller, process = self.caller(number, parts), self.home(number)
        line = Line(1, name_pool(SLOTS), "m")
        place = self.places.get(number) or Place(
            self.pipe, process, self.slots[process], line, self.holder(number), life=600, caller=caller
        )
        place._caller = caller  # it may say so anew each time
        answer = self.run_now(place.ask(order))
        if (busy := self.busy(number, parts)) is not None:
            assert answer == Refused(busy)
            self.leave_line(number)
            return
        if number not in self.line:
            if len(self.line) >= PLACES_A_SLOT * sum(SLOTS.values()):
                assert answer == Refused(Shortage.LINE_FULL)
                return
            self.line.append(number)
            self.places[number] = place
        before = self.line.index(number)
        assert place.ahead == before
        self.check(number, parts, order, answer, before)
        if number in self.held:
            self.leave_line(number)

    def leave_line(self, number: int) -> None:
        self.places.pop(number, None)
        if number in self.line:
            self.line.remove(number)

    @rule(number=NUMBERS)
    def stop_waiting(self, number: int) -> None:
        if number in self.places:
            self.places[number].leave()
            self.leave_line(number)

    @rule(number=NUMBERS)
    def give_back(self, number: int) -> None:
        lease = self.leases.get(number)
        if lease is not None:
            for _ in range(2):
                self.run_now(self.slots[self.home(number)].release(lease))
            self.let_go(number)

    @rule(number=NUMBERS)
    def close(self, number: int) -> None:
        record = Record(
            request_id=f"r{number}", started_at=1.0, protocol="chat", endpoint="/v1/chat/completions",
            team_id=self.team(number),
        )  # fmt: skip
        self.run_now(self.recorders[self.home(number)].close_again(record))
        self.forget(number)
        self.filed += 1

    def forget(self, number: int) -> None:
        """Without stepping out of the line: that somebody waits may be believed for a while."""
        self.lingers = self.lingers or number in self.line
        self.let_go(number)
        self.leave_line(number)
        for numbers in self.counted.values():
            numbers.discard(number)

    @rule(process=st.sampled_from(["one", "two"]))
    def die(self, process: str) -> None:
        """Its requests are reaped; the next life of the process has the same name here, and nothing."""
        self.run_now(self.recorders[process].beat())
        self.run_now(self.recorders[process].leave())
        assert reap_lost(self.client) == 0  # nothing was admitted: only what is held is given back
        for number in range(8):
            if self.home(number) == process:
                self.forget(number)

    @rule(account=st.sampled_from(sorted(SLOTS)), field=st.sampled_from(["*", "m"]))
    def rest_ends(self, account: int, field: str) -> None:
        """It has rested until a moment ago."""
        self.recover(account)
        self.client.hset(cooldowns_key(account), field, self.now() - 1000)
        self.half_open[account] = None

    @rule(
        account=st.sampled_from(sorted(SLOTS)),
        age=st.sampled_from([(1000, 0.25), (25_000, 0.5), (45_000, 0.75), (PAST_WARMING, 1.0)]),
        field=st.sampled_from(["*", "m"]),
    )
    def warm_up(self, account: int, age: tuple[int, float], field: str) -> None:
        self.recover(account)
        self.client.hset(cooldowns_key(account), f"warm|{field}", self.now() - age[0])
        self.warm[account] = age[1]

    @rule(account=st.sampled_from(sorted(SLOTS)))
    def recover(self, account: int) -> None:
        self.client.delete(cooldowns_key(account))
        self.half_open.pop(account, None)
        self.warm.pop(account, None)

    def now(self) -> int:
        seconds, micros = self.client.time()
        return seconds * 1000 + micros // 1000

    @rule(process=st.sampled_from(["one", "two"]))
    def renew(self, process: str) -> None:
        mine = {number for number in {*self.held, *set().union(*self.counted.values())} if self.home(number) == process}
        things = sum(number in group for number in mine for group in (self.held, *self.counted.values()))
        # A renewed score is a changed one unless it falls into the same millisecond.
        holders = [self.holder(number) for number in mine]
        assert self.run_now(self.slots[process].renew(holders, life=900)) <= things

    @invariant()
    def the_server_agrees(self) -> None:
        for view in ACCOUNTS:
            held = {self.holder(number) for number, account in self.held.items() if account == view.id}
            assert set(self.members(slots_key(view.id))) == held
            assert len(held) <= view.slots
        for part, numbers in self.counted.items():
            assert set(self.members(running_key(part, 1))) == {self.holder(number) for number in numbers}
            assert len(numbers) <= LIMITS[part]
        canaries = sum(number is not None for number in self.half_open.values())
        fields = sum(self.client.hlen(held_key(name)) for name in ("one", "two"))
        counted = sum(len(numbers) for numbers in self.counted.values())
        assert canaries <= fields - len(self.held) - counted - len(self.line) <= len(self.held)
        assert self.client.xlen(RECORDS) == self.filed

    @invariant()
    def the_line_agrees(self) -> None:
        members = self.members(Line(1, name_pool(SLOTS), "m").key)
        assert members == [self.holder(number) for number in self.line]
        told = self.client.exists(waiting_key("m")) == 1
        assert told if self.line else (self.lingers or not told)
        self.lingers = self.lingers and told

    def members(self, key: str) -> list[str]:
        return [member.decode() for member in self.run_now(self.pipe.call("ZRANGE", key, 0, -1))]

    def teardown(self) -> None:
        for number in range(8):
            self.close(number)
        assert [self.client.exists(held_key(name)) for name in ("one", "two")] == [0, 0]
        self.client.close()
        self.runner.run(self.pipe.close())
        self.runner.close()


def test_slots_are_never_lost_nor_invented(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SILENCE", 60.0)  # a machine that stalls is no process that died
    limits = settings(max_examples=60, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(lambda: SlotMachine(redis_url), settings=limits)  # type: ignore[arg-type]  # any factory
