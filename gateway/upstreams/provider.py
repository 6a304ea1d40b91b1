"""Providers: OpenAI Chat, OpenAI Responses and Anthropic Messages upstreams, by the door.

``asking`` says what is asked, the client role reads the answer; this file moves bytes and keeps time. One timer a run
instead of one a read: when it fires, the answer is dropped, and the waiting read wakes up to find out why. Silence is
counted from the last *content*: pings and comments keep a connection alive, not a turn.

An answer counts as begun with its first event. A 200 that ends before is empty, not cut: the provider had nothing to
say, and another account may. What follows the end of a turn (a second end, a late error) is not read any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import urlsplit

import orjson

from accounts.channels import ChannelView
from core.version import VERSION
from gateway.contracts import ClientStream, Clocks, Target
from gateway.upstreams.asking import Wire, compose
from gateway.upstreams.faults import restage
from gateway.upstreams.fitting import Fitting
from gateway.upstreams.http import Answer, Door, header_lines
from gateway.upstreams.tags import TagSplitter
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, ResponseStart
from ir.request import Request

ERROR_BODY = 64 * 1024
ERROR_BODY_SECONDS = 2.0
NO_STREAM = ("application/json", "text/html", "application/problem+json")
_HEADERS = {
    "user-agent": f"poolgate/{VERSION}",
    "content-type": "application/json",
    "accept": "text/event-stream",
    "accept-encoding": "identity",
}


class Provider:
    """The upstream for accounts of one transport; several may share a door. ``close`` ends the door."""

    def __init__(self, door: Door, wire: Wire) -> None:
        self._door = door
        self._wire = wire

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> ProviderRun:
        """Asks, and waits for the answer to begin. Raises ``Fault`` for whatever is no stream."""
        channel = target.channel
        if channel is None:
            raise Fault(Reason.INTERNAL, Stage.CONNECT, upstream_code="no_channel")
        origin = self._door.origin(channel.url, target.proxy_url)
        body, fitting = compose(self._wire, request, target, channel)
        headers = {**_HEADERS, **self._wire.headers(target), "x-client-request-id": attempt_id, **channel.headers}
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(clocks.first_token, clocks.total)):
                answer = await self._door.post(
                    origin, urlsplit(channel.url).path, header_lines(headers), body,
                    connect_timeout=clocks.connect, repeatable=True,
                )  # fmt: skip
        except TimeoutError:
            raise Fault(Reason.TIMEOUT, Stage.HEADERS) from None
        stream = self._wire.role.stream()
        if answer.status != 200:
            raise await self._refusal(answer)
        if _media_type(answer.headers) in NO_STREAM:
            raise _fault_inside(await _read_error(answer), stream)
        return ProviderRun(answer, stream, fitting, clocks, channel, began)

    async def close(self) -> None:
        await self._door.close()

    async def _refusal(self, answer: Answer) -> Fault:
        if 300 <= answer.status < 400:  # never followed: the key would go along
            answer.close()
            return Fault(Reason.EGRESS, Stage.HEADERS, upstream_code=f"http_{answer.status}")
        return self._wire.role.classify(answer.status, answer.headers, await _read_error(answer))


class ProviderRun:
    """One turn in flight: ``gateway.contracts.Run``."""

    def __init__(
        self, answer: Answer, stream: ClientStream, fitting: Fitting, clocks: Clocks, channel: ChannelView, began: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.last_sign = self._loop.time()
        self._answer = answer
        self._stream = stream
        self._fitting = fitting
        self._tags = TagSplitter()
        self._idle = channel.idle_timeout
        self._last = began + clocks.total
        self._patient = min(began + max(clocks.first_token, self._idle), self._last)  # once it showed life
        self._deadline = min(began + clocks.first_token, self._last)
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = self._expired = False
        self._began = self._spoke = False

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        while True:
            data = await self._read()
            events = self._take(data)
            if events:
                split = self._tags.feed(events)
                if split:
                    yield self._fitting.callers(split)
                if isinstance(events[-1], Finish):
                    self._stop_timer()
                    self._answer.release()
                    return
            if self._stream.fault is not None:
                raise restage(self._stream.fault, self._stage)
            if not data:
                raise Fault(Reason.CUT, self._stage)

    async def close(self) -> None:
        """Drops the connection, which tells the provider to stop. Never raises."""
        self._stop_timer()
        self._answer.close()

    @property
    def _stage(self) -> Stage:
        return Stage.CONTENT if self._spoke else Stage.PREAMBLE

    async def _read(self) -> bytes:
        answer = self._answer
        if not answer.pending:
            self._arm()
        self._waiting = True
        try:
            data = await answer.read()
        except Fault as fault:
            raise restage(fault, self._stage) from None
        finally:
            self._waiting = False
        if not data and self._expired:
            raise Fault(Reason.TIMEOUT, self._stage)
        return data

    def _take(self, data: bytes) -> Sequence[Event]:
        """Events of one read, or of the end of the body."""
        now = self._loop.time()
        if data:
            self.last_sign = now
        try:
            events = self._stream.feed(data) if data else self._stream.close()
        except Fault as fault:
            if fault.reason is Reason.CUT and not self._began:
                raise Fault(Reason.EMPTY, Stage.PREAMBLE) from None
            raise restage(fault, self._stage) from None
        if events:
            self._began = True
            self._spoke = self._spoke or not isinstance(events[-1], ResponseStart)
        if self._spoke:
            if events:
                self._deadline = min(now + self._idle, self._last)
        else:
            self._deadline = self._patient
        return events

    # One timer a run: set to the deadline in force, and moved only when it fires too early.

    def _arm(self) -> None:
        if self._timer is None or self._deadline < self._timer.when():
            self._stop_timer()
            self._timer = self._loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._waiting or self._answer.pending:
            return  # the reader is busy; it sets the timer again before it waits
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._on_timer)
        else:
            self._expired = True
            self._answer.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _fault_inside(body: bytes, stream: ClientStream) -> Fault:
    """The fault of a 200 that is no stream: nothing at all, a page, or an error that forgot its status.

    The last goes through the decoder, for which an error inside an answer is nothing new.
    """
    if not body.strip():
        return Fault(Reason.EMPTY, Stage.PREAMBLE)
    if body.lstrip()[:1] == b"<":
        return Fault(Reason.EGRESS, Stage.HEADERS, upstream_code="http_200_html")
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("error"):
        try:
            stream.feed(b"data: " + orjson.dumps({"type": "error", **parsed}) + b"\n\n")
        except Fault as fault:
            return restage(fault, Stage.PREAMBLE)
    return Fault(Reason.PROTOCOL, Stage.PREAMBLE, upstream_code="no_stream")


async def _read_error(answer: Answer) -> bytes:
    """What explains the answer; a body that does not end soon explains nothing."""
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            return await answer.read_all(ERROR_BODY)
    except TimeoutError:
        answer.close()
        return b""


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
