"""One request over fake ASGI, with the real pipeline, ledger and Redis, and a fake upstream behind them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Generator, MutableMapping, Sequence
from typing import Any, cast

from accounts.compile import AccountKind, AccountView, ModelView, Transport
from accounts.naming import Names
from accounts.troubles import Troubles
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
    """The first attempt fails before any output, the second serves. ``bug`` is raised instead of either."""

    def __init__(self, bug: Exception | None = None) -> None:
        self.bug = bug
        self.open_runs = 0
        self.asked = 0

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> FakeRun:
        self.asked += 1
        await asyncio.sleep(0)
        if self.bug is not None:
            raise self.bug
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


def snapshot(**settings: Any) -> Snapshot:
    accounts = tuple(
        AccountView(
            number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://up", frozenset({1}), number,
        )
        for number in (1, 2)
    )  # fmt: skip
    digest = keys.digest(KEY.text, PEPPER)
    key = KeyView(7, KEY.public_id, digest, "k", 1, "t", frozenset({1}), max_concurrency=5)
    return Snapshot(
        version=1, settings=Settings(**settings), keys={KEY.public_id: key}, accounts=accounts,
        names=Names({"m": ModelView("m", "m-up")}), sealed={1: b"", 2: b""},
    )  # fmt: skip


class Call:
    """One request over fake ASGI, ended at the ``at``-th suspension of the task that serves it.

    ``stuck_at``: the caller takes nothing any more from this text on, or from the "end" on.
    """

    def __init__(self, ledger: Ledger, *, stream: bool, bug: Exception | None = None, **settings: float) -> None:
        self.upstream = FakeUpstream(bug)
        self.sent: list[MutableMapping[str, Any]] = []
        self.steps = 0
        self.stuck_at = ""
        self._left = asyncio.Event()
        self._body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "x"}]})
        self._services = Services()
        self._services.pepper = PEPPER
        self._services.ledger = ledger
        self._services.troubles = Troubles(ledger.pipe)
        self._services.bearers = cast("Any", FakeBearers())
        self._services.snapshots = cast("Any", FakeSnapshots(snapshot(**settings)))
        self._services.upstreams = {Transport.AGENT_RPC: cast("Upstream", self.upstream)}
        self._came = False

    async def run(self, at: int = 0, disturb: Callable[[Call], None] = lambda _: None) -> None:
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
        is_end = message["type"] == "http.response.body" and not message["more_body"]
        if (self.stuck_at == "end" and is_end) or (
            self.stuck_at and self.stuck_at.encode() in message.get("body", b"")
        ):
            await asyncio.sleep(3600)
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
