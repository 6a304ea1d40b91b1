"""The way to the server for one run over HTTP/1.1: the call that opens the stream, and the appends in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from gateway.contracts import Clocks
from gateway.protocols.agent import answers
from gateway.protocols.agent.client import classify_http
from gateway.upstreams.http import Answer, Door, header_lines
from gateway.upstreams.tunnel import Origin
from gateway.wire import connect
from ir.errors import Fault, Reason
from protobufs import agent_v1_pb2 as pb

RUN_PATH = "/agent.v1.AgentService/RunSSE"
APPEND_PATH = "/aiserver.v1.BidiService/BidiAppend"

ATTACH_SECONDS = 0.25  # how long the first append waits for the stream's headers
HEARTBEAT_SECONDS = 5.0
REPLY_BYTES = 64 * 1024  # read of a reply to an append


class Line:
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
        reply = await answer.read_all(REPLY_BYTES)
        if answer.status != 200 or (reply and media_type(answer.headers) != "application/proto"):
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


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


_STREAM_LINES = header_lines(
    {
        "content-type": "application/connect+proto",
        "connect-accept-encoding": "gzip",
        "x-cursor-streaming": "true",
    }
)
_UNARY_LINES = header_lines({"content-type": "application/proto"})
_HEARTBEAT = answers.heartbeat()
