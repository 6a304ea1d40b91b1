"""Cooldowns as a state machine against the real server: two processes that know nothing of each other, one truth.

Time passes by moving what the server holds into the past. What a script did is compared with a model that is told the
server's time before and after; where the two differ on whether a rest was over, either answer will do.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, cast

import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from accounts import cooldowns
from accounts.compile import AccountKind, AccountView, Transport
from accounts.cooldowns import EFFECTS, Applied, Resting, strikes_key
from accounts.effects import read
from accounts.leases import cooldowns_key
from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage

ACCOUNTS = [
    AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), number
    )
    for number in (1, 2)
]
MODELS = ("m", "n")
FAULTS = {
    "paced": Fault(Reason.RATE_LIMIT, Stage.HEADERS),
    "paced, 7 s": Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=7),
    "paced, 700 s": Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=700),
    "used up": Fault(Reason.QUOTA, Stage.HEADERS),
    "passing": Fault(Reason.TRANSIENT, Stage.HEADERS),
    "forbidden": Fault(Reason.FORBIDDEN, Stage.HEADERS),
    "gated": Fault(Reason.MODEL_GATED, Stage.HEADERS),
    "the caller's": Fault(Reason.BAD_REQUEST, Stage.HEADERS),
}
WHOLE = ("used up", "forbidden")
"""Faults that speak of the account as a whole."""

FINAL = {"paced, 7 s": 7.0, "paced, 700 s": 700.0, "forbidden": 600.0, "gated": 43_200.0}
GROWING = {"paced": (5.0, 300.0), "used up": (900.0, 21_600.0)}
TENTATIVE = (*GROWING, "passing")

PROCESSES = st.sampled_from([0, 1])
SUFFERERS = st.sampled_from(ACCOUNTS)
NAMES = st.sampled_from(sorted(FAULTS))


@dataclass
class Model:
    """Everything in milliseconds. Keys are (account, field)."""

    rests: dict[tuple[int, str], float] = field(default_factory=dict)
    holds: dict[tuple[int, str], float] = field(default_factory=dict)
    warm: dict[tuple[int, str], float] = field(default_factory=dict)
    grown: dict[tuple[int, str], tuple[int, float]] = field(default_factory=dict)
    passing: dict[tuple[int, str], tuple[int, float]] = field(default_factory=dict)

    def cool(self, account: int, model: str, name: str, now: float, peers: bool) -> Applied:
        """What a confirmed fault does."""
        key = (account, "*" if name in WHOLE else model)
        if name not in FINAL and name not in TENTATIVE:
            return Applied()
        self.holds.pop(key, None)
        ends = self.rests.get(key, 0)
        if name in GROWING and ends > now:
            return Applied((ends - now) / 1000)
        seconds = FINAL.get(name, 0.0)
        if name == "passing":
            count, since = self.passing.get(key, (0, now))
            count, since = (1, now) if now - since > 60_000 else (count + 1, since)
            self.passing[key] = count, since
            half_open = 0 < ends <= now
            if count < 2 and not half_open:
                return Applied()
            seconds = 45.0 if count > 2 or half_open else 10.0
        if name in TENTATIVE and peers and ends <= now and self.usable(account, model, now) < 1:
            return Applied(guarded=True)
        if name in GROWING:
            least, most = GROWING[name]
            strikes, over = self.grown.get(key, (0, 0))
            strikes = 1 if now - over > 600_000 else strikes + 1
            seconds = min(least * 2 ** (strikes - 1), most)
            self.grown[key] = strikes, now + seconds * 1000
        if now + seconds * 1000 > ends:
            self.rests[key] = ends = now + seconds * 1000
            self.warm.pop(key, None)
        return Applied((ends - now) / 1000)

    def usable(self, account: int, model: str, now: float) -> int:
        others = [other.id for other in ACCOUNTS if other.id != account]
        return sum(all(self.rests.get((other, what), 0) <= now for what in ("*", model)) for other in others)

    def shift(self, ms: float) -> None:
        self.rests = {key: ends - ms for key, ends in self.rests.items()}
        self.holds = {key: ends - ms for key, ends in self.holds.items()}
        self.warm = {key: since - ms for key, since in self.warm.items()}
        self.grown = {key: (count, over - ms) for key, (count, over) in self.grown.items()}
        self.passing = {key: (count, since - ms) for key, (count, since) in self.passing.items()}


class CooldownMachine(RuleBasedStateMachine):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.client = redis.Redis.from_url(url)
        self.client.flushdb()
        self.pipes = [self.runner.run(Pipe.connect(url)) for _ in range(2)]
        self.model = Model()
        self.rows: dict[tuple[int, str], float] = {}

    def run_now(self, what: Awaitable[Any]) -> Any:
        async def wrap() -> Any:
            return await what

        return self.runner.run(wrap())

    def now(self) -> float:
        seconds, micros = self.client.time()
        return float(seconds * 1000 + micros // 1000)

    def held_by(self, key: str) -> dict[str, float]:
        """What a hash of the server's holds."""
        known = cast("dict[bytes, bytes]", self.client.hgetall(key))
        return {name.decode(): float(value) for name, value in known.items()}

    def compare(self, before: float, got: Applied, account: AccountView, model: str, name: str, peers: bool) -> None:
        """Takes over what the model says for the server's time before or after, whichever the answer fits."""
        tolerated = (self.now() - before + 2) / 1000
        for now in (before, self.now()):
            tried = copy.deepcopy(self.model)
            expected = tried.cool(account.id, model, name, now, peers)
            if (got.held, got.guarded) == (expected.held, expected.guarded) and (
                abs(got.rest - expected.rest) <= tolerated
            ):
                self.model = tried
                break
        else:
            raise AssertionError((name, got, expected))
        key = (account.id, "*" if name in WHOLE else model)
        if got.rest:
            self.adopt(key)

    def adopt(self, key: tuple[int, str]) -> None:
        """The server's own milliseconds in place of the model's."""
        ends = self.held_by(cooldowns_key(key[0])).get(key[1], 0.0)
        if key in self.model.grown and abs(self.model.grown[key][1] - self.model.rests[key]) < 1:
            self.model.grown[key] = self.model.grown[key][0], ends
        assert abs(ends - self.model.rests[key]) < 1000
        self.model.rests[key] = ends

    @rule(process=PROCESSES, account=SUFFERERS, model=st.sampled_from(MODELS), name=NAMES, peers=st.booleans())
    def suffer(self, process: int, account: AccountView, model: str, name: str, peers: bool) -> None:
        """A fault that a request met, and nothing more is known."""
        before, key = self.now(), (account.id, "*" if name in WHOLE else model)
        others = ACCOUNTS if peers else []
        got = self.run_now(cooldowns.apply(self.pipes[process], account, model, FAULTS[name], 0.0, peers=others))
        if name not in TENTATIVE:
            self.compare(before, got, account, model, name, peers=False)
            return
        assert got.held
        if name == "passing":
            assert got == Applied(held=True)
            return
        assert 0 < got.rest <= 5
        self.model.holds[key] = self.held_by(cooldowns_key(account.id)).get(f"hold|{key[1]}", 0.0)
        assert abs(self.model.holds[key] - before - 5000) < 1000

    @rule(process=PROCESSES, account=SUFFERERS, model=st.sampled_from(MODELS), name=NAMES, peers=st.booleans())
    def confirm(self, process: int, account: AccountView, model: str, name: str, peers: bool) -> None:
        """Another account answered the same request; whether the hold is still there or was dropped, does not count."""
        before, others = self.now(), ACCOUNTS if peers else []
        got = self.run_now(cooldowns.confirm(self.pipes[process], account, model, FAULTS[name], 0.0, peers=others))
        self.compare(before, got, account, model, name, peers)

    @rule(account=SUFFERERS, name=st.sampled_from(sorted(GROWING)))
    def confirm_in_both_processes_at_once(self, account: AccountView, name: str) -> None:
        before = self.now()

        async def both() -> list[Applied]:
            return await asyncio.gather(
                *[cooldowns.confirm(pipe, account, "m", FAULTS[name], 0.0) for pipe in self.pipes]
            )

        first, second = self.run_now(both())
        assert abs(first.rest - second.rest) < 1, "they belong together"
        self.compare(before, max(first, second, key=lambda one: one.rest), account, "m", name, peers=False)

    @rule(process=PROCESSES, account=SUFFERERS, model=st.sampled_from(MODELS), name=st.sampled_from(TENTATIVE))
    def drop(self, process: int, account: AccountView, model: str, name: str) -> None:
        self.run_now(cooldowns.drop(self.pipes[process], account, model, FAULTS[name]))
        self.model.holds.pop((account.id, "*" if name in WHOLE else model), None)

    @precondition(lambda self: self.model.rests)
    @rule(process=PROCESSES, account=SUFFERERS, model=st.sampled_from(MODELS))
    def serve(self, process: int, account: AccountView, model: str) -> None:
        now = self.now()
        recovered = self.run_now(cooldowns.recovered(self.pipes[process], account, model))
        over = [key for key in ((account.id, "*"), (account.id, model)) if 0 < self.model.rests.get(key, 0) <= now]
        assert recovered == bool(over)
        for key in over:
            del self.model.rests[key]
            self.model.warm[key] = self.held_by(cooldowns_key(account.id)).get(f"warm|{key[1]}", 0.0)
            assert abs(self.model.warm[key] - now) < 1000

    @rule(account=SUFFERERS, model=st.sampled_from([None, "", *MODELS]))
    def clear(self, account: AccountView, model: str | None) -> None:
        cooldowns.clear(self.client, account.id, model)
        gone = {"*", *MODELS} if model is None else {model or "*"}
        parts = (self.model.rests, self.model.holds, self.model.warm, self.model.grown, self.model.passing, self.rows)
        for part in parts:
            for what in gone:
                part.pop((account.id, what), None)

    @rule(seconds=st.sampled_from([1.3, 4.1, 23.7, 61.9, 317.3, 911.7]))
    def wait(self, seconds: float) -> None:
        ms = int(seconds * 1000)
        for account in ACCOUNTS:
            for name, at in self.held_by(cooldowns_key(account.id)).items():
                self.client.hset(cooldowns_key(account.id), name, str(int(at) - ms))
            for name, at in self.held_by(strikes_key(account.id)).items():
                if name.startswith(("since|", "over|")):
                    self.client.hset(strikes_key(account.id), name, str(int(at) - ms))
        self.rows = {key: until - ms for key, until in self.rows.items()}
        self.model.shift(ms)

    @precondition(lambda self: self.rows)
    @rule(forgotten=st.booleans())
    def bring_back_the_rows(self, forgotten: bool) -> None:
        """As the job does, now and then; ``forgotten``: Redis lost everything before."""
        if forgotten:
            self.client.flushdb()
            self.model = Model()
        now = self.now()
        resting = [
            Resting(account, "" if what == "*" else what, until / 1000) for (account, what), until in self.rows.items()
        ]
        since = now - 600_000 if not self.client.exists(cooldowns.RESTORED) else now
        assert cooldowns.restore(self.client, resting, now / 1000) == sum(until > now for until in self.rows.values())
        for key, until in self.rows.items():
            if until > since:
                self.model.rests[key] = max(self.model.rests.get(key, 0), until)

    @invariant()
    def the_server_agrees(self) -> None:
        for account in ACCOUNTS:
            fields = self.held_by(cooldowns_key(account.id))
            now = self.now()
            parts = (("", self.model.rests), ("warm|", self.model.warm))
            expected = {
                prefix + what: value
                for prefix, part in parts
                for (number, what), value in part.items()
                if number == account.id
            }
            held = {name: value for name, value in fields.items() if name.startswith("hold|") and value > now + 50}
            assert {name: value for name, value in fields.items() if not name.startswith("hold|")} == expected
            for name, until in held.items():
                assert until == self.model.holds[account.id, name.removeprefix("hold|")]
            if fields:
                assert self.client.pttl(cooldowns_key(account.id)) > 0, "nothing stays for ever"

    @invariant()
    def every_rest_has_a_row_and_no_hold_has_one(self) -> None:
        """The rows, as ``accounts.effects`` would write them."""
        for _, values in cast("list[tuple[bytes, dict[bytes, bytes]]]", self.client.xrange(EFFECTS)):
            effect = read(values)
            key = (effect.account_id, effect.model or "*")
            self.rows[key] = max(self.rows.get(key, 0), effect.until * 1000)
        self.client.delete(EFFECTS)
        for key, ends in self.model.rests.items():
            assert self.rows[key] >= ends - 1

    def teardown(self) -> None:
        for pipe in self.pipes:
            self.runner.run(pipe.close())
        self.runner.close()
        self.client.close()


def test_rests_are_what_their_faults_call_for_whoever_met_them(redis_url: str) -> None:
    limits = settings(max_examples=100, stateful_step_count=60, deadline=None)
    run_state_machine_as_test(lambda: CooldownMachine(redis_url), settings=limits)  # type: ignore[arg-type]  # any factory
