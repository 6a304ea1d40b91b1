"""The pool as a state machine against the real server: two processes choose, take, fail, recover and give back.

What must hold whatever they do: nobody is let at an account that rests, nor beside a canary at one that comes back; no
account serves more than its slots; and in the end nothing is held.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from accounts import cooldowns
from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import Caller, Lease, Slots, cooldowns_key, running_key, slots_key
from accounts.pool import PoolView, choose, rank
from accounts.slot_scripts import RELEASE, TAKE
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage

MODEL = "m"
ACCOUNTS = rank(
    AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), number,
        slots=2, priority=priority,
    )
    for number, priority in ((1, 1), (2, 1), (3, 2), (4, 2))
)  # fmt: skip
REASONS = st.sampled_from(
    [Reason.RATE_LIMIT, Reason.QUOTA, Reason.MODEL_GATED, Reason.DEVICE_LIMIT, Reason.TRANSIENT, Reason.BAD_REQUEST,
     Reason.CAPACITY]
)  # fmt: skip
TEAM_LIMIT = 5


class PoolMachine(RuleBasedStateMachine):
    """``leases``: what is held, by request; ``resting`` is read from the server before each step that it decides."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.pipe = self.runner.run(Pipe.connect(url))
        self.run_now(self.pipe.call("FLUSHDB"))
        self.run_now(self.pipe.learn(TAKE, RELEASE))
        self.slots = [Slots(self.pipe, "one"), Slots(self.pipe, "two")]
        self.leases: dict[str, Lease] = {}
        self.count = 0

    def run_now(self, what: Awaitable[Any]) -> Any:
        async def wrap() -> Any:
            return await what

        return self.runner.run(wrap())

    def fields(self, number: int) -> dict[str, int]:
        told = self.run_now(self.pipe.call("HGETALL", cooldowns_key(number)))
        return {name.decode(): int(value) for name, value in zip(told[::2], told[1::2], strict=True)}

    def pick(self, which: int) -> str:
        return sorted(self.leases)[which % len(self.leases)]

    def home(self, holder: str) -> Slots:
        return self.slots[int(holder[1:]) % 2]

    @rule(seed=st.integers(0, 999), hears=st.booleans())
    def request(self, seed: int, hears: bool) -> None:
        self.count += 1
        holder = f"r{self.count}"
        slots, draws = self.home(holder), random.Random(seed).random
        view = PoolView(loads=slots.loads(), cooled=slots.hints.cooled() if hears else ())
        order = [choice.account for choice in choose(ACCOUNTS, view, model=MODEL, draws=draws)]
        before = {account.id: self.fields(account.id) for account in ACCOUNTS}
        now = time.time() * 1000
        team = sum(1 for _ in self.leases)
        answer = self.run_now(
            slots.take(order, MODEL, holder, life=600, caller=Caller(team_id=9, team_limit=TEAM_LIMIT))
        )
        if not isinstance(answer, Lease):
            return
        assert team < TEAM_LIMIT
        told = before[answer.account.id]
        rests = [told.get(name, 0) for name in ("*", MODEL, "hold|*", f"hold|{MODEL}")]
        assert max(rests) <= now + 50, "it rested"
        half_open = [name for name in ("*", MODEL) if name in told]
        assert answer.canary == bool(half_open)
        assert all(told.get(f"canary|{name}", 0) <= now + 50 for name in half_open), "another one tries it already"
        self.leases[holder] = answer

    @rule(which=st.integers(0, 99), reason=REASONS, hint=st.sampled_from([None, 30.0]), judged=st.booleans())
    def fail(self, which: int, reason: Reason, hint: float | None, judged: bool) -> None:
        if not self.leases:
            return
        holder = self.pick(which)
        account, fault = self.leases[holder].account, Fault(reason, Stage.HEADERS, retry_after=hint)
        before = self.fields(account.id)
        applied = self.run_now(cooldowns.apply(self.pipe, account, MODEL, fault, 0.0, peers=ACCOUNTS))
        if applied.held and judged:
            self.run_now(cooldowns.confirm(self.pipe, account, MODEL, fault, 0.0, peers=ACCOUNTS))
        elif applied.held:
            self.run_now(cooldowns.drop(self.pipe, account, MODEL, fault))
        after = self.fields(account.id)
        assert all(after.get(name, 0) >= before.get(name, 0) for name in ("*", MODEL)), "a rest was shortened"
        if reason in (Reason.BAD_REQUEST, Reason.CAPACITY):
            assert after == before
        self.give_back(holder)

    @rule(which=st.integers(0, 99))
    def serve(self, which: int) -> None:
        if not self.leases:
            return
        holder = self.pick(which)
        lease = self.leases[holder]
        if lease.canary:
            self.run_now(cooldowns.recovered(self.pipe, lease.account, MODEL))
        self.give_back(holder)

    @rule(number=st.integers(1, 4), name=st.sampled_from(["*", MODEL, "hold|*", f"hold|{MODEL}", f"canary|{MODEL}"]))
    def time_passes(self, number: int, name: str) -> None:
        if name in self.fields(number):
            self.run_now(self.pipe.call("HSET", cooldowns_key(number), name, int(time.time() * 1000) - 100))

    def give_back(self, holder: str) -> None:
        lease = self.leases.pop(holder)
        self.run_now(self.home(holder).release(lease))
        self.run_now(self.pipe.call("ZREM", running_key("team", 9), holder))
        self.run_now(self.pipe.call("HDEL", f"poolgate:held:{('one', 'two')[int(holder[1:]) % 2]}", f"{holder}|team"))

    @invariant()
    def nobody_serves_more_than_its_slots(self) -> None:
        for account in ACCOUNTS:
            members = {one.decode() for one in self.run_now(self.pipe.call("ZRANGE", slots_key(account.id), 0, -1))}
            assert members == {holder for holder, lease in self.leases.items() if lease.account.id == account.id}
            assert len(members) <= account.slots

    def teardown(self) -> None:
        for holder in list(self.leases):
            self.give_back(holder)
        held = [self.run_now(self.pipe.call("HLEN", f"poolgate:held:{name}")) for name in ("one", "two")]
        self.runner.run(self.pipe.close())
        self.runner.close()
        assert held == [0, 0]


def test_the_pool_keeps_its_promises(redis_url: str) -> None:
    limits = settings(max_examples=40, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(lambda: PoolMachine(redis_url), settings=limits)  # type: ignore[arg-type]  # any factory
