"""Circuits and ways out as a state machine against the real server: two processes that know of each other only what the
server tells them.

Time passes by moving what the server holds into the past, and it always passes by more than a process believes what it
has heard, so that after it everybody must know the truth. Where the server's time before and after a step would lead to
different answers, either will do.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, cast

import orjson
import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from accounts.troubles import TROUBLE, Troubles, clear_egress
from core.redis_pipe import Pipe

UPSTREAMS = ("agent_rpc|up.test|m", "openai_chat|up.test|m")
WAYS = ("direct", "7")
FIRST, LONGEST, FORGOTTEN = 5_000, 60_000, 600_000
WINDOW = 10.0

PROCESSES = st.sampled_from([0, 1])
NAMES = st.sampled_from(UPSTREAMS)
Circuit = dict[str, int]


class Process:
    """One process, and what the model thinks of it: what its requests met, which circuits it knows of."""

    def __init__(self, pipe: Pipe, clock: Callable[[], float]) -> None:
        self.pipe = pipe
        self.troubles = Troubles(pipe, clock=clock)
        self.met: defaultdict[str, list[tuple[float, bool]]] = defaultdict(list)
        self.known: set[str] = set()

    def note(self, upstream: str, now: float, *, failed: bool) -> bool:
        """Whether so much has failed lately that the circuit must open."""
        met = self.met[upstream] = [one for one in self.met[upstream] if one[0] > now - WINDOW] + [(now, failed)]
        failures = sum(one[1] for one in met)
        return failures >= 5 and 2 * failures >= len(met)

    def hear(self, circuits: set[str]) -> None:
        for upstream in self.known - circuits:
            self.met.pop(upstream, None)
        self.known = set(circuits)


class CircuitMachine(RuleBasedStateMachine):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.client = redis.Redis.from_url(url)
        self.client.flushdb()
        self.clock = 1000.0
        pipes = [self.runner.run(Pipe.connect(url)) for _ in range(2)]
        self.processes = [Process(pipe, lambda: self.clock) for pipe in pipes]
        self.circuits: dict[str, Circuit] = {}
        self.rests: dict[str, int] = {}
        self.faults: dict[str, int] = {}

    def run_now(self, what: Awaitable[Any]) -> Any:
        async def wrap() -> Any:
            return await what

        return self.runner.run(wrap())

    def now(self) -> int:
        seconds, micros = self.client.time()
        return seconds * 1000 + micros // 1000

    def held(self) -> tuple[dict[str, Circuit], dict[str, int]]:
        """The circuits and the rests that the server holds."""
        circuits, rests = {}, {}
        for field, value in cast("dict[bytes, bytes]", self.client.hgetall(TROUBLE)).items():
            kind, _, name = field.decode().partition("|")
            if kind == "circuit":
                circuits[name] = {key: int(number) for key, number in orjson.loads(value).items()}
            else:
                rests[name] = int(value)
        return circuits, rests

    def stand(self, upstream: str, now: int) -> str:
        """``free`` for all, ``shut``, or ``due``: for one."""
        circuit = self.circuits.get(upstream)
        if circuit is None or now >= circuit["next_canary"] + FORGOTTEN:
            return "free"
        return "shut" if now < circuit["next_canary"] else "due"

    def adopt(self, upstream: str, before: int, interval: int) -> None:
        """The server's own times of a circuit whose next canary was set just now."""
        circuit = self.held()[0][upstream]
        assert circuit["interval"] == interval
        assert before + interval <= circuit["next_canary"] <= self.now() + interval
        self.circuits[upstream] = circuit

    def opens(self, process: Process, upstream: str, act: Callable[[], Awaitable[bool]]) -> None:
        """``act`` opens the circuit, unless it is open."""
        before = self.now()
        opened = self.run_now(act())
        assert opened in {self.stand(upstream, now) == "free" for now in (before, self.now())}
        if opened:
            self.adopt(upstream, before, FIRST)
            process.known.add(upstream)

    @rule(number=PROCESSES, upstream=NAMES, times=st.sampled_from([1, 2, 7]))
    def answer(self, number: int, upstream: str, times: int) -> None:
        for _ in range(times):
            self.processes[number].troubles.served(upstream)
            self.processes[number].note(upstream, self.clock, failed=False)

    @rule(number=PROCESSES, upstream=NAMES, times=st.sampled_from([1, 1, 3, 5]))
    def fail(self, number: int, upstream: str, times: int) -> None:
        process = self.processes[number]
        for _ in range(times):
            if process.note(upstream, self.clock, failed=True):
                self.opens(process, upstream, lambda: process.troubles.failed(upstream))
            else:
                assert not self.run_now(process.troubles.failed(upstream))

    @rule(number=PROCESSES, upstream=NAMES)
    def guard(self, number: int, upstream: str) -> None:
        """Too few accounts would have been left."""
        process = self.processes[number]
        self.opens(process, upstream, lambda: process.troubles.open(upstream))

    @rule(upstream=NAMES, requests=st.sampled_from([1, 2, 40]))
    def ask(self, upstream: str, requests: int) -> None:
        """Requests in both processes want to pass at once."""
        before, circuit = self.now(), self.circuits.get(upstream)

        async def all_of_them() -> list[float]:
            asking = [self.processes[number % 2].troubles.canary(upstream) for number in range(requests)]
            return await asyncio.gather(*asking)

        waits = [round(1000 * wait) for wait in self.run_now(all_of_them())]
        granted, stands = waits.count(0), {self.stand(upstream, now) for now in (before, self.now())}
        passing = {"free": requests, "shut": 0, "due": 1}
        assert granted in {passing[stand] for stand in stands}
        if circuit is None or (granted and "free" in stands):
            self.circuits.pop(upstream, None)
        elif granted:
            self.adopt(upstream, before, min(2 * circuit["interval"], LONGEST))
        if upstream in self.circuits:
            due = self.circuits[upstream]["next_canary"]
            assert all(due - self.now() <= wait <= due - before for wait in waits if wait)

    @rule(number=PROCESSES, upstream=NAMES)
    def recover(self, number: int, upstream: str) -> None:
        """A canary was answered."""
        process = self.processes[number]
        self.run_now(process.troubles.close(upstream))
        self.circuits.pop(upstream, None)
        process.known.discard(upstream)
        process.met.pop(upstream, None)

    @rule(number=PROCESSES, upstream=NAMES)
    def fail_then_hear_that_all_is_well(self, number: int, upstream: str) -> None:
        """Steps that chance would hardly bring together: what failed before must not open the circuit again."""
        self.fail(number, upstream, 5)
        self.recover(1 - number, upstream)
        self.wait(1.3)
        self.fail(number, upstream, 1)

    @rule(number=PROCESSES, way=st.sampled_from(WAYS))
    def break_way_out(self, number: int, way: str) -> None:
        before, until = self.now(), self.rests.get(way, 0)
        rest = round(1000 * self.run_now(self.processes[number].troubles.egress_failed(way)))
        if until > self.now() or (until > before and rest < 600_000):
            assert until - self.now() <= rest <= until - before
            return
        self.faults[way] = self.faults.get(way, 0) + 1
        if self.faults[way] < 2:
            assert rest == 0
            return
        assert rest == 600_000
        del self.faults[way]
        self.rests[way] = self.held()[1][way]
        assert before + 600_000 <= self.rests[way] <= self.now() + 600_000

    @rule(way=st.sampled_from(WAYS))
    def clear(self, way: str) -> None:
        assert clear_egress(self.client, way) == (way in self.rests)
        self.rests.pop(way, None)
        self.faults.pop(way, None)

    @rule(seconds=st.sampled_from([1.3, 1.3, 5.2, 11.7, 23.9, 67.3, 317.9, 611.3]))
    def wait(self, seconds: float) -> None:
        ms = int(seconds * 1000)
        self.clock += seconds
        for way in WAYS:
            if self.expire(f"poolgate:egress:{way}", ms):
                self.faults.pop(way, None)
        if self.expire(TROUBLE, ms):
            later = self.now() + ms
            assert all(self.stand(upstream, later) == "free" for upstream in self.circuits), "it went too early"
            assert all(until <= later for until in self.rests.values()), "it went too early"
            self.circuits, self.rests = {}, {}
        for circuit in self.circuits.values():
            circuit["next_canary"] -= ms
            circuit["opened_at"] -= ms
        self.rests = {way: until - ms for way, until in self.rests.items()}
        fields = {f"circuit|{name}": orjson.dumps(circuit) for name, circuit in self.circuits.items()}
        fields |= {f"egress|{name}": str(until).encode() for name, until in self.rests.items()}
        if fields:
            self.client.hset(TROUBLE, mapping=cast("dict[Any, Any]", fields))
        self.everybody_hears()

    def expire(self, key: str, ms: int) -> bool:
        """Whether the key is gone after so long."""
        left = self.client.pttl(key) - ms
        if left > 0:
            self.client.pexpire(key, left)
        else:
            self.client.delete(key)
        return left <= 0

    def everybody_hears(self) -> None:
        for process in self.processes:
            before = self.now()
            self.run_now(process.troubles.are_known())
            process.hear(set(self.circuits))
            open_now = set(process.troubles.open_circuits())
            assert open_now in [self.open_at(now) for now in (before, self.now())]
            resting = process.troubles.resting_egress()
            assert resting in [{way for way, ends in self.rests.items() if ends > now} for now in (before, self.now())]

    def open_at(self, now: int) -> set[str]:
        return {upstream for upstream in self.circuits if self.stand(upstream, now) != "free"}

    @invariant()
    def the_server_holds_what_the_model_says(self) -> None:
        assert self.held() == (self.circuits, self.rests)
        if self.circuits or self.rests:
            assert self.client.pttl(TROUBLE) > 0, "nothing stays for ever"

    @invariant()
    def no_process_knows_of_a_circuit_that_never_was(self) -> None:
        for process in self.processes:
            assert set(process.troubles.open_circuits()) <= process.known

    def teardown(self) -> None:
        for process in self.processes:
            self.runner.run(process.pipe.close())
        self.runner.close()
        self.client.close()


def test_circuits_and_ways_out_are_the_same_for_all_processes(redis_url: str) -> None:
    limits = settings(max_examples=100, stateful_step_count=50, deadline=None)
    run_state_machine_as_test(lambda: CircuitMachine(redis_url), settings=limits)  # type: ignore[arg-type]  # any factory
