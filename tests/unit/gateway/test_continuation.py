"""Whole turns whose run waits for tool results, with the real loop, ledger and Redis: what a stream that cannot go on
costs, and that nothing is left open however a turn ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

import pytest

from accounts.compile import AccountKind, AccountView, ModelView, Transport
from accounts.leases import NOBODY, cooldowns_key
from accounts.naming import Names
from accounts.troubles import Troubles
from core.redis_pipe import Pipe
from core.settings import Settings
from gateway.attempts import Errand
from gateway.continuation import is_plain
from gateway.contracts import DEFAULT_POLICY, Clocks, Policy, Target, Upstream
from gateway.failover import Turn
from gateway.ledger import Ledger
from gateway.registry import Services
from gateway.routing import Route
from gateway.snapshot import Snapshot
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Message, OutputFormat, Request, Text, Tool, ToolCall, ToolChoice, ToolMode, ToolResult
from ir.usage import Usage, UsageSource
from ops.record import Record
from ops.trace import Affinity, Tried, decode
from tests.unit.gateway.call import FakeBearers, FakeSnapshots

Step = str | Fault
"""What a run says in one answer: "call", text, or how it fails; text that begins with "half" breaks off after it."""


class Run:
    """Answers one step each time that it is iterated over."""

    last_sign = 0.0
    weight = 1

    def __init__(self, upstream: Fake, steps: Sequence[Step]) -> None:
        self.results: list[str] = []
        self._upstream = upstream
        self._steps = list(steps)
        self.waits = self.parked = self.closed = False

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        step = self._steps.pop(0)
        await asyncio.sleep(0)
        if isinstance(step, Fault):
            raise step
        if step == "call":
            self.waits = True
            start = PartStart(PartKind.TOOL_CALL, f"c{len(self._upstream.runs)}{len(self._steps)}", "t")
            yield [ResponseStart(), start, PartDelta("{}"), PartEnd(), Finish(FinishReason(Unified.TOOL_CALLS))]
            return
        yield [ResponseStart(), PartStart(PartKind.TEXT), PartDelta(step)]
        if step.startswith("half"):
            raise Fault(Reason.CUT, Stage.CONTENT)
        yield [PartEnd(), Finish(FinishReason(Unified.STOP), Usage(100, 50))]

    def park(self, lost: Callable[[], object]) -> None:
        self.parked = True

    async def resume(self, request: Request, results: Sequence[ToolResult], clocks: Clocks) -> None:
        self.waits = self.parked = False
        self.results += [str(result.content) for result in results]
        if self._steps and isinstance(self._steps[0], Fault) and self._steps[0].upstream_code == "lost":
            raise self._steps[0]

    def cancel(self) -> None:
        self.closed = True

    async def close(self) -> None:
        self.cancel()


class Fake:
    """An upstream with a script for each of its runs."""

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self._scripts = list(scripts)
        self.asked: list[int] = []
        self.runs: list[Run] = []

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> Run:
        self.asked.append(target.account_id)
        self.runs.append(Run(self, self._scripts.pop(0)))
        return self.runs[-1]

    async def close(self) -> None:
        pass


TOOLS = (Tool("t", "", {"type": "object"}),)
QUESTION = Message("user", (Text("go"),))


class Process:
    """Two accounts, always asked in this order."""

    def __init__(self, ledger: Ledger) -> None:
        self.accounts = tuple(
            AccountView(
                number, "a", AccountKind.CURSOR, Transport.AGENT_RPC, "http://up", frozenset({1}), number, number
            )
            for number in (1, 2)
        )
        self.settings = Settings(wait_for_slot=0.0)
        self.services = Services()
        self.services.ledger = ledger
        self.services.troubles = Troubles(ledger.pipe)
        self.services.bearers = cast("Any", FakeBearers())
        current = Snapshot(1, self.settings, {}, self.accounts, Names({}), {1: b"", 2: b""})
        self.services.snapshots = cast("Any", FakeSnapshots(current))
        self.record = Record(request_id="", started_at=0.0, protocol="chat", endpoint="/")
        self.affinity = Affinity.NONE
        self.tried: list[Tried] = []
        self.usage = Usage()
        self._count = 0

    def runs(self, *scripts: Sequence[Step]) -> Fake:
        upstream = Fake(*scripts)
        self.services.upstreams = {Transport.AGENT_RPC: cast("Upstream", upstream)}
        return upstream

    async def ask(
        self, *messages: Message, leave: bool = False, policy: Policy = DEFAULT_POLICY, **more: Any
    ) -> Message:
        """The answer. ``leave``: the caller goes at the first events. Raises ``ApiError``."""
        self._count += 1
        request = Request("m", (QUESTION, *messages), tools=TOOLS, stream=True, **more)
        route = Route(ModelView("m", "m-up"), "m", "m-up", {}, self.accounts)
        errand = Errand(request, route, 30, False, policy=policy)
        self.record = Record(
            request_id=f"r{self._count}", started_at=time.time(), protocol="chat", endpoint="/", team_id=1, key_id=7
        )
        entry = self.services.ledger.admit(self.record)
        turn = Turn(errand, self.settings, entry, self.services, NOBODY, time.monotonic())
        events: list[Event] = []
        try:
            async with aclosing(turn.events()) as batches:
                async for batch in batches:
                    events += batch
                    if leave:
                        break
        finally:
            await entry.close()
        trace = decode(entry.trace.encode(self.record))
        self.affinity, self.tried = trace.affinity, [step for step in trace.steps if isinstance(step, Tried)]
        return self._said(events)

    def _said(self, events: Sequence[Event]) -> Message:
        parts: list[Any] = []
        start = PartStart(PartKind.TEXT)
        for event in events:
            if isinstance(event, PartStart):
                start = event
            elif isinstance(event, PartDelta):
                call = ToolCall(start.call_id, start.name, event.text)
                parts.append(call if start.kind is PartKind.TOOL_CALL else Text(event.text))
            elif isinstance(event, Finish):
                self.usage = event.usage
        return Message("assistant", tuple(parts))

    @property
    def attempts(self) -> list[tuple[int, bool, str]]:
        return [(one.account_id, one.resumed, one.reason) for one in self.record.attempts]


@pytest.fixture
async def process(pipe: Pipe) -> AsyncIterator[Process]:
    ledger = Ledger(pipe, "one", draws=lambda: 0.0)
    await ledger.start()
    process = Process(ledger)
    yield process
    process.services.parked.close()
    await ledger.stop()


def brought(said: Message, text: str = "r") -> Message:
    return Message("user", tuple(ToolResult(part.id, text) for part in said.content if isinstance(part, ToolCall)))


async def test_a_run_goes_on_with_the_results_and_is_closed_at_the_end(process: Process) -> None:
    upstream = process.runs(["call", "call", "done"])
    first = await process.ask()
    [run] = upstream.runs
    assert (run.parked, run.closed, len(process.services.parked)) == (True, False, 1)
    second = await process.ask(first, brought(first, "a"))
    last = await process.ask(first, brought(first, "a"), second, brought(second, "b"))
    assert last.content == (Text("done"),)
    assert run.results == ["a", "b"]
    assert (run.closed, len(process.services.parked)) == (True, 0)
    assert process.attempts == [(1, True, "")]
    assert (process.affinity, [step.resumed for step in process.tried]) == (Affinity.HARD, [True])


async def test_the_last_answer_is_charged_what_the_earlier_ones_were_not(process: Process) -> None:
    process.runs(["call", "done"])
    first = await process.ask()
    assert (process.usage.input_uncached, process.usage.source) == (30, UsageSource.ESTIMATED)
    output = process.usage.output or 0
    await process.ask(first, brought(first))
    assert process.usage == Usage(100 - 30, 50 - output, source=UsageSource.ESTIMATED)


CANNOT: dict[str, Step] = {
    "lost": Fault(Reason.CUT, Stage.PREAMBLE, upstream_code="lost"),
    "fails": Fault(Reason.AUTH_EXPIRED, Stage.PREAMBLE),
    "blocked": Fault(Reason.BLOCKED, Stage.PREAMBLE),
    "says nothing": "",
}


@pytest.mark.parametrize("how", CANNOT)
async def test_a_stream_that_cannot_go_on_costs_nothing_but_a_new_run(process: Process, how: str) -> None:
    upstream = process.runs(["call", CANNOT[how]], ["done"])
    first = await process.ask()
    answer = await process.ask(first, brought(first))
    assert answer.content == (Text("done"),)
    assert upstream.asked == [1, 1]
    assert [resumed for _, resumed, _ in process.attempts] == [True, False]
    assert all(run.closed for run in upstream.runs)
    assert await process.services.ledger.pipe.call("HLEN", cooldowns_key(1)) == 0


async def test_after_output_a_resumed_stream_is_like_any_other(process: Process) -> None:
    upstream = process.runs(["call", "half"])
    first = await process.ask()
    with pytest.raises(Exception, match="upstream"):
        await process.ask(first, brought(first))
    assert upstream.asked == [1]
    assert process.attempts == [(1, True, "cut")]


async def test_a_caller_that_leaves_at_the_call_leaves_no_run(process: Process) -> None:
    upstream = process.runs(["call"])
    await process.ask(leave=True)
    assert (upstream.runs[0].closed, len(process.services.parked)) == (True, 0)


async def test_an_account_that_rests_is_not_waited_for(process: Process) -> None:
    upstream = process.runs(["call", "never"], ["done"])
    first = await process.ask()
    ends = int(time.time() * 1000) + 60_000
    await process.services.ledger.pipe.call("HSET", cooldowns_key(1), "*", str(ends))
    answer = await process.ask(first, brought(first))
    assert answer.content == (Text("done"),)
    assert upstream.asked == [1, 2]
    assert upstream.runs[0].closed
    assert process.attempts == [(2, False, "")]
    assert process.affinity is Affinity.NONE


async def test_a_request_cancelled_on_its_way_to_the_run_closes_it(process: Process) -> None:
    upstream = process.runs(["call", "never"])
    first = await process.ask()
    asking = asyncio.ensure_future(process.ask(first, brought(first)))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (upstream.runs[0].closed, upstream.runs[0].results) == (True, [])


async def test_of_two_requests_with_the_same_results_one_goes_on_and_one_begins_anew(process: Process) -> None:
    upstream = process.runs(["call", "done"], ["done"])
    first = await process.ask()
    answers = await asyncio.gather(*(process.ask(first, brought(first)) for _ in range(2)))
    assert [answer.content for answer in answers] == [(Text("done"),)] * 2
    assert [run.results for run in upstream.runs] == [["r"], []]


async def test_switched_off_every_answer_closes_its_run(process: Process) -> None:
    process.settings = Settings(parked_streams=False)
    upstream = process.runs(["call"])
    await process.ask()
    assert (upstream.runs[0].closed, len(process.services.parked)) == (True, 0)


async def test_an_orchestrator_that_needs_calls_is_not_waited_for(process: Process) -> None:
    upstream = process.runs(["call"])
    await process.ask(policy=Policy(kilo_tool_strict=True))
    assert upstream.runs[0].closed


@pytest.mark.parametrize(
    "more",
    [
        {"tools": ()},
        {"tool_choice": ToolChoice(ToolMode.NONE)},
        {"tool_choice": ToolChoice(ToolMode.REQUIRED)},
        {"tool_choice": ToolChoice(ToolMode.NAMED, ("t",))},
        {"output_format": OutputFormat("response_format")},
        {"compaction": True},
    ],
)
def test_only_plain_turns_have_runs_to_wait_with(more: dict[str, Any]) -> None:
    assert is_plain(Request("m", (QUESTION,), tools=TOOLS))
    assert is_plain(Request("m", (QUESTION,), tools=TOOLS, tool_choice=ToolChoice(ToolMode.ALLOWED, ("t",))))
    assert not is_plain(Request("m", (QUESTION,), **({"tools": TOOLS} | more)))
