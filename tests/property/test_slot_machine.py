"""Slots as a state machine against the real server: no account above its slots, no slot lost, none invented."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import RELEASE, Caller, Lease, Refused, Shortage, Slots, held_key, running_key, slots_key
from core.redis_pipe import Pipe
from ops.record import Record
from ops.recorder import RECORDS, Recorder

ACCOUNTS = [
    AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), number,
        slots=slots,
    )
    for number, slots in ((1, 1), (2, 2), (3, 3))
]  # fmt: skip
HOLDERS = st.sampled_from([f"r{number}" for number in range(8)])
PROCESSES = st.sampled_from(["one", "two"])
CALLER_LIMIT = 4


class SlotMachine(RuleBasedStateMachine):
    """``held``: holder → account id, ``counted``: holders in the caller's set. A holder belongs to one process."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.pipe = self.runner.run(Pipe.connect(url))
        self.run_now(self.pipe.call("FLUSHDB"))
        self.run_now(self.pipe.learn(RELEASE))
        self.slots = {name: Slots(self.pipe, name) for name in ("one", "two")}
        self.recorders = {name: Recorder(self.pipe, name) for name in ("one", "two")}
        self.held: dict[str, int] = {}
        self.leases: dict[str, Lease] = {}
        self.counted: set[str] = set()
        self.closed = 0

    def run_now(self, what: Awaitable[Any]) -> Any:
        async def wrap() -> Any:
            return await what

        return self.runner.run(wrap())

    def home(self, holder: str) -> str:
        return "one" if int(holder[1:]) % 2 else "two"

    @rule(holder=HOLDERS, order=st.permutations(ACCOUNTS), many=st.integers(1, 3), limited=st.booleans())
    def take(self, holder: str, order: list[AccountView], many: int, limited: bool) -> None:
        caller = Caller(1, CALLER_LIMIT) if limited else Caller()
        answer = self.run_now(self.slots[self.home(holder)].take(order[:many], "m", holder, life=600, caller=caller))
        self.held.pop(holder, None)
        self.leases.pop(holder, None)
        if limited and holder not in self.counted and len(self.counted) >= CALLER_LIMIT:
            assert answer == Refused(Shortage.KEY_BUSY)
            return
        load = {view.id: list(self.held.values()).count(view.id) for view in ACCOUNTS}
        free = [view for view in order[:many] if load[view.id] < view.slots]
        if not free:
            assert isinstance(answer, Refused)
            assert answer.shortage is Shortage.FULL
            assert [one.account_id for one in answer.passed] == [view.id for view in order[:many]]
            return
        assert isinstance(answer, Lease)
        assert (answer.account, answer.load) == (free[0], load[free[0].id])
        self.held[holder] = answer.account.id
        self.leases[holder] = answer
        if limited:
            self.counted.add(holder)

    @rule(holder=HOLDERS)
    def give_back(self, holder: str) -> None:
        lease = self.leases.get(holder)
        if lease is not None:
            self.run_now(self.slots[self.home(holder)].release(lease))
            self.held.pop(holder, None)

    @rule(holder=HOLDERS)
    def close(self, holder: str) -> None:
        record = Record(request_id=holder, started_at=1.0, protocol="chat", endpoint="/v1/chat/completions")
        self.run_now(self.recorders[self.home(holder)].close_again(record))
        self.held.pop(holder, None)
        self.leases.pop(holder, None)
        self.counted.discard(holder)
        self.closed += 1

    @rule(process=PROCESSES)
    def renew(self, process: str) -> None:
        mine = [holder for holder in self.held if self.home(holder) == process]
        counted = [holder for holder in self.counted if self.home(holder) == process]
        # A renewed score is a changed one unless it falls into the same millisecond.
        assert self.run_now(self.slots[process].renew([*{*mine, *counted}], life=900)) <= len(mine) + len(counted)

    @invariant()
    def the_server_agrees(self) -> None:
        for view in ACCOUNTS:
            members = {member.decode() for member in self.run_now(self.pipe.call("ZRANGE", slots_key(view.id), 0, -1))}
            assert members == {holder for holder, number in self.held.items() if number == view.id}
            assert len(members) <= view.slots
        members = {member.decode() for member in self.run_now(self.pipe.call("ZRANGE", running_key("key", 1), 0, -1))}
        assert members == self.counted
        fields = sum(self.run_now(self.pipe.call("HLEN", held_key(name))) for name in ("one", "two"))
        assert fields == len(self.held) + len(self.counted)
        assert self.run_now(self.pipe.call("XLEN", RECORDS)) == self.closed

    def teardown(self) -> None:
        self.runner.run(self.pipe.close())
        self.runner.close()


def test_slots_are_never_lost_nor_invented(redis_url: str) -> None:
    limits = settings(max_examples=60, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(lambda: SlotMachine(redis_url), settings=limits)  # type: ignore[arg-type]  # any factory
