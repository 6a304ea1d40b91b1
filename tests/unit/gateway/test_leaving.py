"""A turn that is ended at every point at which it can be: whatever the moment, no slot is held, no run is open, and one
record tells what happened.

``serve`` is driven step by step. At its n-th suspension either the caller leaves or the process cancels the task; n
runs until the turn is through undisturbed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Generator, MutableMapping, Sequence
from typing import Any, cast

import pytest

from accounts.compile import AccountKind, AccountView, ModelView, Transport
from accounts.leases import caller_key, slots_key
from accounts.naming import Names
from core.redis_pipe import Pipe
from core.settings import Settings
from gateway import pipeline
from gateway.contracts import Clocks, Target, Upstream
from gateway.exchange import Exchange
from gateway.ledger import Ledger
from gateway.protocols.chat import server as chat
from gateway.registry import Services
from gateway.snapshot import Snapshot
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Request
from ops.record import Record, decode
from ops.recorder import RECORDS, open_key
from tenants import keys
from tenants.compile import KeyView

PEPPER = "pepper"
KEY = keys.make("live", bytes(range(keys.RANDOM_BYTES)))
TEXT = PartStart(PartKind.TEXT)
ANSWER: Sequence[Sequence[Event]] = [
    [ResponseStart("r"), TEXT, PartDelta("one ")],
    [PartDelta("two")],
    [PartEnd(), Finish(FinishReason(Unified.STOP))],
]


class FakeRun:
    last_sign = 0.0

    def __init__(self, upstream: FakeUpstream) -> None:
        self._upstream = upstream
        upstream.open_runs += 1

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        for events in ANSWER:
            await asyncio.sleep(0)
            yield events

    async def close(self) -> None:
        self._upstream.open_runs -= 1


class FakeUpstream:
    """The first attempt fails before any output, the second serves."""

    def __init__(self) -> None:
        self.open_runs = 0
        self.asked = 0

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> FakeRun:
        self.asked += 1
        await asyncio.sleep(0)
        if self.asked == 1:
            raise Fault(Reason.RATE_LIMIT, Stage.PREAMBLE)
        return FakeRun(self)

    async def close(self) -> None:
        pass


class FakeBearers:
    async def get(self, account: AccountView, sealed: bytes) -> str:
        await asyncio.sleep(0)
        return "token"


class FakeSnapshots:
    def __init__(self, current: Snapshot) -> None:
        self.current = current


def snapshot() -> Snapshot:
    accounts = tuple(
        AccountView(
            number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://up", frozenset({1}), number,
        )
        for number in (1, 2)
    )  # fmt: skip
    digest = keys.digest(KEY.text, PEPPER)
    key = KeyView(7, KEY.public_id, digest, "k", 1, "t", frozenset({1}), max_concurrency=5)
    return Snapshot(
        version=1, settings=Settings(), keys={KEY.public_id: key}, accounts=accounts,
        names=Names({"m": ModelView("m", "m-up")}), sealed={1: b"", 2: b""},
    )  # fmt: skip


class Call:
    """One request over fake ASGI, ended at the ``at``-th suspension of the task that serves it."""

    def __init__(self, ledger: Ledger, *, stream: bool) -> None:
        self.upstream = FakeUpstream()
        self.sent: list[MutableMapping[str, Any]] = []
        self.steps = 0
        self._left = asyncio.Event()
        self._body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "x"}]})
        self._services = Services()
        self._services.pepper = PEPPER
        self._services.ledger = ledger
        self._services.bearers = cast("Any", FakeBearers())
        self._services.snapshots = cast("Any", FakeSnapshots(snapshot()))
        self._services.upstreams = {Transport.AGENT_RPC: cast("Upstream", self.upstream)}
        self._came = False

    async def run(self, at: int, disturb: Callable[[Call], None]) -> None:
        scope = {
            "method": "POST", "path": "/v1/chat/completions", "client": ("127.0.0.1", 1),
            "headers": [(b"authorization", f"Bearer {KEY.text}".encode())],
        }  # fmt: skip
        exchange = Exchange(scope, self._receive, self._send, "req_1")
        await _Stepped(pipeline.serve(exchange, chat, self._services), self, at, disturb)

    def leave(self) -> None:
        self._left.set()

    def cancel(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._came:
            self._came = True
            await asyncio.sleep(0)
            return {"type": "http.request", "body": self._body.encode(), "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)
        await asyncio.sleep(0)


class _Stepped:
    """Awaits a coroutine, counts its suspensions and disturbs it at one of them."""

    def __init__(self, work: Any, call: Call, at: int, disturb: Callable[[Call], None]) -> None:
        self._work, self._call, self._at, self._disturb = work, call, at, disturb

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._work.__await__()
        resume, value = steps.send, None
        while True:
            try:
                waits_for = resume(value)
            except StopIteration:
                return
            self._call.steps += 1
            if self._call.steps == self._at:
                self._disturb(self._call)
            try:
                resume, value = steps.send, (yield waits_for)
            except BaseException as error:
                resume, value = steps.throw, error


@pytest.fixture
async def ledger(pipe: Pipe) -> AsyncIterator[Ledger]:
    ledger = Ledger(pipe, "one", draws=lambda: 0.0)
    await ledger.start()
    yield ledger
    await ledger.stop()


async def records(pipe: Pipe) -> list[Record]:
    return [decode(fields[1]) for _, fields in await pipe.call("XRANGE", RECORDS, "-", "+")]


async def expect_nothing_held(pipe: Pipe, call: Call) -> None:
    assert call.upstream.open_runs == 0
    assert [await pipe.call("ZCARD", key) for key in (slots_key(1), slots_key(2), caller_key(7))] == [0, 0, 0]
    assert await pipe.call("HLEN", open_key("one")) == 0


async def steps_of_a_whole_turn(ledger: Ledger, stream: bool) -> int:
    call = Call(ledger, stream=stream)
    await call.run(0, Call.leave)
    assert call.upstream.asked == 2
    return call.steps


@pytest.mark.parametrize("stream", [True, False])
async def test_a_caller_that_leaves_at_any_step_leaves_nothing_behind(pipe: Pipe, ledger: Ledger, stream: bool) -> None:
    steps = await steps_of_a_whole_turn(ledger, stream)
    assert steps > 10
    outcomes = set()
    for at in range(1, steps + 1):
        await pipe.call("FLUSHDB")
        call = Call(ledger, stream=stream)
        await call.run(at, Call.leave)
        await ledger.drained()
        await expect_nothing_held(pipe, call)
        [record] = await records(pipe)
        outcomes.add(record.outcome)
        if record.outcome == "client_gone":
            assert (record.status, record.culprit) == (499, "caller")
    assert outcomes == {"client_gone", "ok"}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_cancellation_from_outside_at_any_step_is_told_and_passed_on(
    pipe: Pipe, ledger: Ledger, stream: bool
) -> None:
    steps = await steps_of_a_whole_turn(ledger, stream)
    for at in range(1, steps + 1):
        await pipe.call("FLUSHDB")
        call = Call(ledger, stream=stream)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(call.run(at, Call.cancel))
        await ledger.drained()
        await expect_nothing_held(pipe, call)
        [record] = await records(pipe)
        if record.outcome != "ok":  # else the answer was out already
            assert record.code == "shutting_down"
            if (
                stream or not call.sent or call.sent[-1]["type"] == "http.response.body"
            ):  # with the head of a whole answer out, all that is left is to hang up
                assert b"The gateway is shutting down." in call.sent[-1]["body"]
