"""The Agent RPC over HTTP/1.1: RunSSE carries the server's words, BidiAppend ours.

``protocols.agent.client`` knows what is said; this file moves bytes and keeps time. One run has one reader, which is
whoever iterates over it, and one sender task, because appends must arrive strictly in order: the number of an append
is both its place and its mark against acting twice. Time is kept by one timer a run instead of one a read. When it
fires, the answer is dropped, and the waiting read wakes up to find out why.

An answer that ends with tool calls leaves its stream open (``waits``): ``close`` ends it like any other, ``park`` keeps
it and has what the upstream asks answered, until ``resume`` brings the results and the run is iterated over again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from uuid import uuid4

from gateway.contracts import Clocks, Target
from gateway.protocols.agent.classify import NO_SIZE
from gateway.protocols.agent.client import Ids, RunRequest, Size, Turn, classify_http, encode_request
from gateway.upstreams.agent_line import Line, media_type
from gateway.upstreams.faults import CalledOff, restage
from gateway.upstreams.http import Answer, Door
from ir.errors import Fault, Reason, Stage
from ir.events import Event
from ir.request import Request, ToolResult
from ir.tokens import estimate_request

USER_AGENT = "poolgate/0.1.0"
GRACE_SECONDS = 0.3  # silence after turn_ended that counts as the end
LINGER_SECONDS = 2.0  # for the append in flight when the turn is over
ERROR_BODY = 64 * 1024
ERROR_BODY_SECONDS = 1.0


class AgentRpc:
    """The upstream for accounts that speak the Agent RPC. ``close`` ends it, the door included."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._senders: set[asyncio.Task[None]] = set()

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> AgentRun:
        """Starts a turn; a fault that comes with the stream's headers is raised here."""
        ids = Ids(conversation=str(uuid4()), message=str(uuid4()), run=str(uuid4()))
        encoded = encode_request(request, target.model, target.parameters, ids, max_mode=target.max_mode)
        turn = Turn(encoded, lambda: Size(estimate_request(request), target.context_tokens))
        origin = self._door.origin(target.base_url, target.proxy_url)
        line = Line(self._door, origin, clocks, str(uuid4()), _common_headers(target, encoded))
        run = AgentRun(line, turn, clocks, target.context_tokens)
        self._senders.add(run.sender)
        run.sender.add_done_callback(self._senders.discard)
        try:
            await run.attach(encoded.first)
        except BaseException:
            await run.close()
            raise
        return run

    async def close(self) -> None:
        senders = tuple(self._senders)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        await self._door.close()


class AgentRun:
    """One turn in flight: ``gateway.contracts.ParkableRun``."""

    def __init__(self, line: Line, turn: Turn, clocks: Clocks, context_tokens: int) -> None:
        loop = asyncio.get_running_loop()
        self.last_sign = loop.time()
        self.sender = loop.create_task(line.send_all())
        self._loop = loop
        self._line = line
        self._turn = turn
        self._context_tokens = context_tokens
        self._answer: Answer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = False
        self._wound_up = False
        self._parked: asyncio.Task[bool] | None = None
        self._start_clocks(clocks)

    async def attach(self, first: bytes) -> None:
        """Opens the stream and starts the run with ``first``. Raises ``Fault`` unless a stream of envelopes begins."""
        line = self._line
        line.append(first)
        try:
            async with asyncio.timeout_at(min(self._deadline, self._last)) as limit:
                line.on_fault = lambda: limit.reschedule(self._loop.time())
                answer = self._answer = await line.open_stream()
                if answer.status != 200 or media_type(answer.headers) != "application/connect+proto":
                    body = await _error_body(answer)
                    raise classify_http(answer.status, answer.headers, body, size=self._turn.size())
        except TimeoutError:
            raise line.fault or Fault(Reason.TIMEOUT, Stage.HEADERS) from None
        self._turn.announce(answer.headers)
        self.last_sign = self._loop.time()
        line.on_fault = answer.close
        line.attached()

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        turn, line = self._turn, self._line
        while True:
            data = await self._read()
            if data:
                self.last_sign = self._loop.time()
                events: Sequence[Event] = turn.feed(data)
                for message in turn.outgoing():
                    line.append(message)
            else:
                events = self._at_end()
            if turn.finished:
                self._stop_timer()
                if not self.waits:
                    self._wind_up()
            if events:
                yield events
            if turn.fault is not None:
                raise turn.fault
            if turn.finished:
                return

    async def close(self) -> None:
        """Cancels the upstream at once; after ``Finish`` there is nothing left to cancel. Never raises."""
        self.cancel()

    def cancel(self) -> None:
        """``close``, for those who cannot wait."""
        self._stop_timer()
        if self._turn.finished and not self._wound_up:
            self._wind_up()
        if self._answer is not None:
            self._answer.close()
        if not self._turn.finished:
            self._line.stop()
            self.sender.cancel()

    @property
    def waits(self) -> bool:
        """The answer is whole, it ended with calls, and the stream is open for their results."""
        turn = self._turn
        open_end = turn.finished and turn.calls > 0 and not (turn.ended or turn.missed)
        return open_end and not self._wound_up and self._line.fault is None

    @property
    def weight(self) -> int:
        """Bytes that the run keeps in memory, about."""
        return self._turn.weight

    def park(self, lost: Callable[[], object]) -> None:
        """Keeps the stream, which ``waits``: it is read, questions are answered, heartbeats go on. ``lost`` is called
        when it cannot be resumed any more: the upstream went on without the results, or ended it."""
        self._turn.reopen()
        self._turn.size = lambda: NO_SIZE  # the request that it was worked out from need not be kept
        self._parked = self._loop.create_task(self._keep(lost))

    async def resume(self, request: Request, results: Sequence[ToolResult], clocks: Clocks) -> None:
        """Goes on with a parked run: ``results`` are those of all its open calls, ``request`` is what brought them.
        Raises ``Fault`` when the stream was lost meanwhile."""
        parked, self._parked = self._parked, None
        if self._answer is not None:
            self._answer.call_off()
        if parked is None or not await parked:
            raise Fault(Reason.CUT, Stage.PREAMBLE, upstream_code="parked_stream_lost")
        self._turn.size = lambda: Size(estimate_request(request), self._context_tokens)
        self._start_clocks(clocks)
        self._turn.answer(results)
        for message in self._turn.outgoing():
            self._line.append(message)

    async def _keep(self, lost: Callable[[], object]) -> bool:
        """Reads a parked stream until it is resumed (True) or lost."""
        turn, answer = self._turn, self._answer
        try:
            while self._parked is not None:
                data = await answer.read() if answer is not None else b""
                if not data or turn.feed(data) or turn.ended:
                    lost()
                    return False
                for message in turn.outgoing():
                    self._line.append(message)
        except CalledOff:
            pass
        except Fault:
            lost()
            return False
        return True

    def _start_clocks(self, clocks: Clocks) -> None:
        now = self._loop.time()
        self._clocks = clocks
        self._last = now + clocks.total
        self._deadline = now + clocks.first_token
        self._signs = self._turn.signs
        self._expired = False

    async def _read(self) -> bytes:
        answer = self._answer
        if answer is None:
            return b""
        if not answer.pending:
            self._arm()
        self._waiting = True
        try:
            return await answer.read()
        except CalledOff:
            return b""
        except Fault as fault:
            raise restage(fault, self._turn.stage) from None
        finally:
            self._waiting = False

    def _at_end(self) -> Sequence[Event]:
        """No more bytes: an append failed, the time was up, or the upstream stopped."""
        turn = self._turn
        if self._line.fault is not None:
            raise restage(self._line.fault, turn.stage)
        if not self._expired:
            return turn.close()
        if turn.ended or turn.calls:
            return turn.quiet()
        raise Fault(Reason.TIMEOUT, turn.stage)

    def _wind_up(self) -> None:
        """The turn is over: what can be used again is kept, the rest is dropped."""
        self._wound_up = True
        self._line.finish()
        if self._line.busy:
            self._loop.call_later(LINGER_SECONDS, self.sender.cancel)
        if self._answer is not None:
            if self._turn.stream_ended:
                self._answer.release()
            else:
                self._answer.close()

    # One timer a run: set to the nearest deadline, and moved only when it fires too early.

    def _arm(self) -> None:
        turn = self._turn
        if turn.signs != self._signs or turn.ended:
            self._signs = turn.signs
            self._deadline = min(self._loop.time() + self._patience(), self._last)
        if self._timer is None or self._deadline < self._timer.when():
            self._stop_timer()
            self._timer = self._loop.call_at(self._deadline, self._on_timer)

    def _patience(self) -> float:
        if self._turn.ended:
            return GRACE_SECONDS
        return self._clocks.tool_window if self._turn.calls else self._clocks.idle

    def _on_timer(self) -> None:
        self._timer = None
        answer = self._answer
        if answer is None or not self._waiting or answer.pending:
            return  # the reader is busy; it sets the timer again before it waits
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._on_timer)
        else:
            self._expired = True
            if self._turn.calls and not self._turn.ended:
                answer.call_off()  # the answer ends here; whether the stream does is decided later
            else:
                answer.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _error_body(answer: Answer) -> bytes:
    """What explains the refusal; a body that does not end soon explains nothing."""
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            return await answer.read_all(ERROR_BODY)
    except TimeoutError:
        answer.close()
        return b""


def _common_headers(target: Target, run: RunRequest) -> dict[str, str]:
    headers = {
        "authorization": f"Bearer {target.credential}",
        "user-agent": USER_AGENT,
        "connect-protocol-version": "1",
        "x-ghost-mode": "true",
        "x-cursor-agent-allowed-tools": run.allowed_tools,
    }
    if target.client_type:
        headers["x-cursor-client-type"] = target.client_type
    if target.client_version:
        headers["x-cursor-client-version"] = target.client_version
    return headers
