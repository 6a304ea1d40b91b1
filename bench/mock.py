"""The upstream of the bench: the Agent RPC at the price of a lookup.

``python -m bench.mock`` listens on a free port of 127.0.0.1 and prints it. Beside the key exchange it serves RunSSE and
BidiAppend as the real service speaks them: the run asks for the client's context, and once that is answered its text
goes out, then ``turn_ended`` with usage and the end of the stream. It checks nothing (the simulator does that) and
encodes next to nothing: the answer's frames are made once per shape, with the clock as the only thing that is filled
in. A raw ``asyncio.Protocol``, so that what is measured is never the mock.

The model's name is the shape: ``bench-c200-d50`` answers with 200 deltas, 50 ms apart; ``d0`` writes them at once. The
text of a delta is ``0000017@0000000123456789``: its number, and CLOCK_MONOTONIC in microseconds when it was written.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import struct
import time
from functools import lru_cache
from typing import cast

import uvloop
from msgspec import Struct

from protobufs import agent_v1_pb2 as pb

CONTEXT_QUESTION = 1
HEARTBEAT = pb.AgentClientMessage(client_heartbeat=pb.ClientHeartbeat()).SerializeToString().hex()

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SHAPE = re.compile(b"bench-".hex() + "63((?:3[0-9])+)2d64((?:3[0-9])+)")  # bench-cN-dN as the hex text it arrives in
_NO_CLOCK = b"x" * 16
_END = b"\x02\x00\x00\x00\x02{}"

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+proto\r\ntransfer-encoding: chunked\r\n\r\n"
)  # fmt: skip
_APPENDED = b"HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\ncontent-length: 0\r\n\r\n"
_UNKNOWN = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


class Shape(Struct, frozen=True):
    """How an answer comes: ``count`` deltas, ``delay`` ms apart (0: in one write)."""

    count: int
    delay: int

    @property
    def model(self) -> str:
        return f"bench-c{self.count}-d{self.delay}"


def read_shape(message: str) -> Shape:
    """The shape that a run request asks for. ``message`` is hex text. Raises ``ValueError`` for another model."""
    found = _SHAPE.search(message)
    if found is None:
        raise ValueError("the model is not of the bench")
    count, delay = (int(bytes.fromhex(group)) for group in found.groups())
    return Shape(count, delay)


def frame(message: pb.AgentServerMessage) -> bytes:
    """One message in its Connect envelope."""
    payload = message.SerializeToString()
    return struct.pack(">BI", 0, len(payload)) + payload


def delta(number: int) -> bytes:
    """The envelope of one text delta, its clock not filled in."""
    text = f"{number:07d}@{_NO_CLOCK.decode()} "
    update = pb.InteractionUpdate(text_delta=pb.TextDeltaUpdate(text=text))
    return frame(pb.AgentServerMessage(interaction_update=update))


@lru_cache(maxsize=64)
def deltas(count: int) -> tuple[bytes, ...]:
    return tuple(delta(number) for number in range(count))


@lru_cache(maxsize=64)
def ending(count: int) -> bytes:
    """The last HTTP chunks of an answer: usage, the end of the stream, the end of the body."""
    usage = pb.TurnEndedUpdate(input_tokens=120, output_tokens=8 * count, cache_read_tokens=20)
    ended = pb.AgentServerMessage(interaction_update=pb.InteractionUpdate(turn_ended=usage))
    return http_chunk(frame(ended) + _END) + b"0\r\n\r\n"


@lru_cache(maxsize=64)
def burst(count: int) -> bytes:
    """A whole answer, the clocks not filled in."""
    return http_chunk(b"".join(deltas(count))) + ending(count)


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def stamp(data: bytes) -> bytes:
    """``data`` with this moment in every clock."""
    return data.replace(_NO_CLOCK, b"%016d" % (time.monotonic_ns() // 1000))


def exchange_answer() -> bytes:
    """A token that outlives every run: ``{accessToken, refreshToken}`` with the claim ``exp``."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + 86_400, "type": "api_key_token"}).encode())
    body = json.dumps({"accessToken": f"e30.{claims.decode().rstrip('=')}.e30", "refreshToken": "none"}).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


_question = pb.ExecServerMessage(
    id=CONTEXT_QUESTION, exec_id="context", request_context_args=pb.RequestContextArgs()
)  # fmt: skip
_ASK_CONTEXT = http_chunk(frame(pb.AgentServerMessage(exec_server_message=_question)))


class Run:
    """One turn: opened by RunSSE, moved on by each append."""

    __slots__ = ("_left", "_next", "_shape", "connection")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self._shape: Shape | None = None
        self._next = 0
        self._left = False

    def appended(self, message: str) -> None:
        """The run request is answered with a question, the answer to that with the text."""
        if message == HEARTBEAT:
            return
        if self._shape is None:
            self._shape = read_shape(message)
            self._write(_ASK_CONTEXT)
        elif not self._next:
            self._speak(self._shape)

    def leave(self) -> None:
        """Nobody listens any more."""
        self._left = True

    def _speak(self, shape: Shape) -> None:
        if not shape.delay:
            self._next = shape.count
            self._write(stamp(burst(shape.count)))
            return
        loop = asyncio.get_running_loop()
        self._tick(loop, shape, loop.time())

    def _tick(self, loop: asyncio.AbstractEventLoop, shape: Shape, began: float) -> None:
        if self._left:
            return
        self._write(http_chunk(stamp(deltas(shape.count)[self._next])))
        self._next += 1
        if self._next < shape.count:
            loop.call_at(began + self._next * shape.delay / 1000, self._tick, loop, shape, began)
        else:
            self._write(ending(shape.count))

    def _write(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.write(data)


class Connection(asyncio.Protocol):
    """HTTP/1.1 as far as the gateway and the relay speak it: requests with a length, one at a time."""

    def __init__(self, runs: dict[str, Run]) -> None:
        self._runs = runs
        self._run_id = ""
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._forget()

    def data_received(self, data: bytes) -> None:
        held = self._held + data if self._held else data
        while (head := held.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(held, 0, head)
            stop = head + 4 + (int(found[1]) if found else 0)
            if len(held) < stop:
                break
            self._serve(held[: held.find(b"\r\n")], held[head + 4 : stop])
            held = held[stop:]
        self._held = held

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _serve(self, line: bytes, body: bytes) -> None:
        if b"/BidiAppend" in line:
            request = pb.BidiAppendRequest.FromString(body)
            self.write(_APPENDED)
            self._runs.setdefault(request.request_id.request_id, Run()).appended(request.data)
        elif b"/RunSSE" in line:
            self._forget()
            self._run_id = pb.BidiRequestId.FromString(body[5:]).request_id
            self.write(_STREAM_HEAD)
            self._runs.setdefault(self._run_id, Run()).connection = self
        elif b"/exchange_user_api_key" in line:
            self.write(exchange_answer())
        else:
            self.write(_UNKNOWN)

    def _forget(self) -> None:
        run = self._runs.pop(self._run_id, None)
        if run is not None:
            run.leave()


async def serve() -> None:
    runs: dict[str, Run] = {}
    server = await asyncio.get_running_loop().create_server(lambda: Connection(runs), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
