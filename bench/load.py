"""Chat requests over loopback, and a check of every answer: nothing lost, in order, one start, one terminal.

The texts are the mock's (``0000017@0000000123456789``), so that each delta tells its number and its age.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import cast
from urllib.parse import urlsplit

import httptools
import orjson
from msgspec import Struct, field

from bench.mock import Shape

PATIENCE = 30.0
"""Seconds after which an answer that does not come to its end counts as lost."""

_DELTA = re.compile(rb"(\d{7})@(\d{16})")
_ROLE = b'"role":"assistant"'
_FINISH = b'"finish_reason":"stop"'
_DONE = b"data: [DONE]\n\n"
_SYSTEM = "You are a helpful assistant. " + "Answer briefly and to the point. " * 6


class Target(Struct, frozen=True):
    """Who is asked. ``url`` without a path."""

    name: str
    url: str
    key: str


class Tally(Struct):
    """What came back. Times in seconds; ``faults`` says in words what was wrong with an answer."""

    answers: int = 0
    deltas: int = 0
    faults: list[str] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)


class Client(asyncio.Protocol):
    """One kept-alive connection, one request at a time."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body. ``lags`` then holds the age of each delta when it arrived."""
        if self._transport is None:
            raise ConnectionError("closed")
        self._parser = httptools.HttpResponseParser(self)
        self._pieces, self.lags = [], []
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await asyncio.wait_for(self._answered, PATIENCE)
        return self._parser.get_status_code(), b"".join(self._pieces)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionError("closed in the middle of an answer"))

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns() // 1000
        self.lags += [(now - int(written)) / 1e6 for _, written in _DELTA.findall(data)]
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)


async def closed_loop(target: Target, shape: Shape, *, stream: bool, connections: int, seconds: float) -> Tally:
    """``connections`` callers, each asking again as soon as it was answered, for ``seconds``."""
    until = time.monotonic() + seconds
    tally = Tally()

    async def caller() -> None:
        client = await connect(target)
        while time.monotonic() < until and len(tally.faults) < connections:
            await _ask(client, target, shape, stream, tally)
        client.close()

    await asyncio.gather(*(caller() for _ in range(connections)))
    return tally


async def ramp(target: Target, shape: Shape, *, streams: int, over: float) -> Tally:
    """``streams`` streams, one each, started evenly over so many seconds."""
    tally = Tally()

    async def caller(number: int) -> None:
        await asyncio.sleep(over * number / streams)
        client = await connect(target)
        await _ask(client, target, shape, True, tally)
        client.close()

    await asyncio.gather(*(caller(number) for number in range(streams)))
    return tally


async def connect(target: Target) -> Client:
    parts = urlsplit(target.url)
    if parts.hostname != "127.0.0.1" or parts.port is None:
        raise ValueError("the bench asks loopback addresses only")
    _, client = await asyncio.get_running_loop().create_connection(Client, parts.hostname, parts.port)
    return client


async def _ask(client: Client, target: Target, shape: Shape, stream: bool, tally: Tally) -> None:
    began = time.monotonic()
    try:
        status, body = await client.ask(encode(target, shape, stream))
    except (ConnectionError, TimeoutError) as error:
        tally.faults.append(f"no whole answer: {type(error).__name__}")
        return
    tally.durations.append(time.monotonic() - began)
    tally.answers += 1
    tally.deltas += len(client.lags)
    tally.lags += client.lags
    fault = find_fault(status, body, shape, stream)
    if fault:
        tally.faults.append(fault)


def encode(target: Target, shape: Shape, stream: bool) -> bytes:
    """The HTTP request: a system text, a question and the usual knobs, about 500 bytes."""
    body = {
        "model": shape.model,
        "messages": [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": "Say hello to the benchmark, please."},
        ],
        "temperature": 0.7,
        "max_tokens": 16_000,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    data = orjson.dumps(body)
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: */*\r\n"
        f"user-agent: OpenAI/Python 2.0\r\nauthorization: Bearer {target.key}\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def find_fault(status: int, body: bytes, shape: Shape, stream: bool) -> str | None:
    """What is wrong with an answer, None when it is whole."""
    if status != 200:
        return f"status {status}: {body[:200].decode(errors='replace')}"
    numbers = [int(number) for number, _ in _DELTA.findall(body)]
    if numbers != list(range(shape.count)):
        return f"{len(numbers)} of {shape.count} deltas, or out of order"
    starts, finishes = body.count(_ROLE), body.count(_FINISH)
    if (starts, finishes) != (1, 1):
        return f"{starts} starts and {finishes} terminals"
    if stream and not (body.endswith(_DONE) and body.count(_DONE) == 1):
        return "the stream does not end with one [DONE]"
    return None
