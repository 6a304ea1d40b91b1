"""The Agent RPC over HTTP/1.1: RunSSE carries the server's words, BidiAppend ours.

``protocols.agent.client`` knows what is said; this file moves bytes and keeps time. One run has one reader, which is
whoever iterates over it, and one sender task, because appends must arrive strictly in order: the number of an append
is both its place and its mark against acting twice. Time is kept by one timer a run instead of one a read. When it
fires, the answer is dropped, and the waiting read wakes up to find out why.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from uuid import uuid4

from gateway.contracts import Clocks, Target
from gateway.protocols.agent import answers
from gateway.protocols.agent.client import Ids, RunRequest, Size, Turn, classify_http, encode_request
from gateway.upstreams.faults import restage
from gateway.upstreams.http import Answer, Door, header_lines
from gateway.upstreams.tunnel import Origin
from gateway.wire import connect
from ir.errors import Fault, Reason, Stage
from ir.events import Event
from ir.request import Request
from ir.tokens import estimate_request
from protobufs import agent_v1_pb2 as pb

USER_AGENT = "poolgate/0.1.0"
RUN_PATH = "/agent.v1.AgentService/RunSSE"
APPEND_PATH = "/aiserver.v1.BidiService/BidiAppend"

ATTACH_SECONDS = 0.25  # how long the first append waits for the stream's headers
HEARTBEAT_SECONDS = 5.0
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
        encoded = encode_request(request, target.model, target.parameters, ids)
        turn = Turn(encoded, lambda: Size(estimate_request(request), target.context_tokens))
        origin = self._door.origin(target.base_url, target.proxy_url)
        line = _Line(self._door, origin, clocks, str(uuid4()), _common_headers(target, encoded))
        run = AgentRun(line, turn, clocks)
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
    """One turn in flight: ``gateway.contracts.Run``."""

    def __init__(self, line: _Line, turn: Turn, clocks: Clocks) -> None:
        loop = asyncio.get_running_loop()
        self.last_sign = loop.time()
        self.sender = loop.create_task(line.send_all())
        self._loop = loop
        self._line = line
        self._turn = turn
        self._clocks = clocks
        self._answer: Answer | None = None
        self._last = loop.time() + clocks.total
        self._deadline = loop.time() + clocks.first_token
        self._signs = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = False
        self._expired = False

    async def attach(self, first: bytes) -> None:
        """Opens the stream and starts the run with ``first``. Raises ``Fault`` unless a stream of envelopes begins."""
        line = self._line
        line.append(first)
        try:
            async with asyncio.timeout_at(min(self._deadline, self._last)) as limit:
                line.on_fault = lambda: limit.reschedule(self._loop.time())
                answer = self._answer = await line.open_stream()
                if answer.status != 200 or _media_type(answer.headers) != "application/connect+proto":
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
                self._wind_up()
            if events:
                yield events
            if turn.fault is not None:
                raise turn.fault
            if turn.finished:
                return

    async def close(self) -> None:
        """Cancels the upstream at once; after ``Finish`` there is nothing left to cancel. Never raises."""
        self._stop_timer()
        if self._answer is not None:
            self._answer.close()
        if not self._turn.finished:
            self._line.stop()
            self.sender.cancel()

    async def _read(self) -> bytes:
        answer = self._answer
        if answer is None:
            return b""
        if not answer.pending:
            self._arm()
        self._waiting = True
        try:
            return await answer.read()
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
        self._stop_timer()
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
            answer.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Line:
    """The way to the server for one run: the stream's opening call, and the appends in their order."""

    def __init__(self, door: Door, origin: Origin, clocks: Clocks, stream_id: str, headers: Mapping[str, str]) -> None:
        self.fault: Fault | None = None
        self.on_fault: Callable[[], object] = lambda: None
        self.busy = False
        self._loop = asyncio.get_running_loop()
        self._door = door
        self._origin = origin
        self._connect_timeout = clocks.connect
        self._stream_id = pb.BidiRequestId(request_id=stream_id)
        common = header_lines({**headers, "x-request-id": stream_id})
        self._stream_head = common + _STREAM_LINES
        self._append_head = common + _UNARY_LINES
        self._queue: deque[bytes] = deque()
        self._may_send = False
        self._finished = False
        self._waiter: asyncio.Future[None] | None = None
        self._gate: asyncio.TimerHandle = self._loop.call_later(ATTACH_SECONDS, self.attached)
        self._pulse: asyncio.TimerHandle = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)

    async def open_stream(self) -> Answer:
        """The answer whose body is the server's side of the run."""
        body = connect.encode(self._stream_id.SerializeToString())
        return await self._post(RUN_PATH, self._stream_head, body)

    def append(self, message: bytes) -> None:
        self._queue.append(message)
        self._wake()

    def attached(self) -> None:
        """The server holds the stream, or has had its time to: appends may go."""
        self._may_send = True
        self._gate.cancel()
        self._wake()

    def finish(self) -> None:
        """The turn is over: what waits is dropped, the append in flight may end."""
        self._finished = True
        self.stop()
        self._wake()

    def stop(self) -> None:
        self._gate.cancel()
        self._pulse.cancel()

    async def send_all(self) -> None:
        """The one sender. A failed append breaks the order for good, so it fails the run."""
        number = 0
        while True:
            while not (self._may_send and self._queue):
                if self._finished:
                    return
                self._waiter = self._loop.create_future()
                await self._waiter
            if self._finished:
                return
            self.busy = True
            try:
                await self._append(self._queue.popleft(), number)
            except Fault as fault:
                if not self._finished:
                    self.fault = fault
                    self.on_fault()
                return
            self.busy = False
            number += 1

    async def _append(self, message: bytes, number: int) -> None:
        request = pb.BidiAppendRequest(data=message.hex(), request_id=self._stream_id, append_seqno=number)
        body = request.SerializeToString()
        try:
            answer = await self._post(APPEND_PATH, self._append_head, body)
        except Fault as fault:
            if fault.reason is not Reason.TRANSIENT:
                raise
            answer = await self._post(APPEND_PATH, self._append_head, body)  # its number keeps it from acting twice
        reply = await answer.read_all(ERROR_BODY)
        if answer.status != 200 or (reply and _media_type(answer.headers) != "application/proto"):
            raise classify_http(answer.status, answer.headers, reply)

    async def _post(self, path: str, head: bytes, body: bytes) -> Answer:
        return await self._door.post(
            self._origin, path, head, body, connect_timeout=self._connect_timeout, repeatable=True
        )

    def _beat(self) -> None:
        self._pulse = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)
        if not self._queue:
            self.append(_HEARTBEAT)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def _error_body(answer: Answer) -> bytes:
    """What explains the refusal; a body that does not end soon explains nothing."""
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            return await answer.read_all(ERROR_BODY)
    except TimeoutError:
        answer.close()
        return b""


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


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


_STREAM_LINES = header_lines(
    {
        "content-type": "application/connect+proto",
        "connect-accept-encoding": "gzip",
        "x-cursor-streaming": "true",
    }
)
_UNARY_LINES = header_lines({"content-type": "application/proto"})
_HEARTBEAT = answers.heartbeat()
