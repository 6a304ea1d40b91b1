"""The way back to the caller: encoded events, keepalives, errors in band or as a status, and what the record says.

The status line is held back until the first semantic event, so that early failures keep a real status; after
``keepalive_interval`` of silence a stream gets 200 and a keepalive, which spends the status but commits to nothing.
One ``send`` for all events of one upstream read. When the caller closes the connection, or stops taking what is sent,
the task that serves it is cancelled: everything else follows from the clean-up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from core import metrics
from core.settings import Settings
from gateway.contracts import JsonObject, ResponseMeta, ServerRole, ServerStream
from gateway.exchange import NO_BUFFERING, SSE, Exchange
from gateway.wire import json
from ir.errors import ApiError, Culprit, Kind
from ir.events import Event, Finish, PartKind, PartStart
from ir.request import Request
from ir.response import fold
from ir.usage import Usage, UsageSource
from ops.budgets import BudgetError
from ops.record import Outcome, Record

PATIENCE = 60.0
"""Seconds for which a refusal waits to be taken; an answer waits as long as its own gaps may be."""


class Answer:
    """For one request. ``begin`` comes once the request is understood; before it, ``fail`` or ``gone``."""

    def __init__(self, exchange: Exchange, role: ServerRole, record: Record, started: float) -> None:
        self.caller_left = False
        self._exchange = exchange
        self._role = role
        self._record = record
        self._started = started
        self._stream: ServerStream | None = None
        self._request: Request | None = None
        self._meta: ResponseMeta | None = None
        self._keep: Callable[[JsonObject], Awaitable[None]] | None = None
        self._events: list[Event] = []
        self._usage: Usage | None = None
        self._interval, self._patience = 0.0, PATIENCE
        self._last_write = 0.0
        self._writing = False
        self._task: asyncio.Task[Any] | None = None
        self._last_sign: Callable[[], float] = lambda: 0.0
        self._buffered: Callable[[], bool] = lambda: False
        self._timer: asyncio.TimerHandle | None = None
        self._ticking: asyncio.Task[None] | None = None

    def begin(
        self,
        request: Request,
        meta: ResponseMeta,
        settings: Settings,
        last_sign: Callable[[], float],
        keep: Callable[[JsonObject], Awaitable[None]] | None = None,
        buffered: Callable[[], bool] = lambda: False,
    ) -> None:
        """``last_sign``: loop time of the upstream's last sign of life; ``keep`` gets the whole answer before its last
        bytes go out; ``buffered``: whether the answer will come in one piece."""
        self._buffered = buffered
        self._request, self._meta, self._keep = request, meta, keep
        self._interval, self._patience = settings.keepalive_interval, settings.idle_timeout
        self._last_sign = last_sign
        if request.stream:
            self._stream = self._role.stream(request, meta)
        if request.ignored:
            self._exchange.extra.append((b"x-poolgate-ignored", ",".join(request.ignored).encode("ascii", "replace")))

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While inside, a caller that leaves cancels this task, and a silent stream gets its keepalives."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        watch = loop.create_task(self._exchange.gone())
        watch.add_done_callback(lambda done: None if done.cancelled() else self._leave())
        self._last_write = loop.time()
        if self._stream is not None:
            self._timer = loop.call_at(self._last_write + self._interval, self._tick, loop)
        try:
            yield
        finally:
            self._task = None
            watch.cancel()
            if self._timer is not None:
                self._timer.cancel()
            if self._ticking is not None:
                self._ticking.cancel()

    async def send(self, events: Sequence[Event]) -> None:
        """Past the commit point: these events go out, in one write."""
        self._note(events)
        if self._stream is None:
            self._events.extend(events)
            return
        encode = self._stream.send
        data = b"".join([encode(event) for event in events])
        if self._keep is not None and self._usage is not None:
            await self._keep_stream(self._keep)
        if data:
            await self._write(data)

    async def finish(self) -> None:
        """The regular end: closes the stream, or sends the whole answer."""
        self._record.outcome, self._record.status = Outcome.OK, 200
        if self._stream is not None:
            if not await self._part_with(self._exchange.write(b"", more=False)):
                self.gone()
            return
        if self._request is None or self._meta is None:
            raise RuntimeError("finish before begin")
        response = fold(self._events)
        body = self._role.encode_response(response, self._request, self._meta)
        if self._keep is not None:
            await self._keep(json.parse(body))
        if response.usage.source is UsageSource.ESTIMATED:
            self._exchange.extra.append((b"x-poolgate-usage", b"estimated"))
        self._tell_unsatisfied()
        if not await self._part_with(self._exchange.respond(200, body)):
            self.gone()

    async def fail(self, error: ApiError) -> None:
        """The error as a status when none was sent yet, else in band."""
        self._explain(error)
        if not self._exchange.started:
            reply = self._role.encode_error(error, self._exchange.request_id)
            self._record.status = reply.status
            await self._part_with(self._exchange.respond_error(reply))
        elif self._stream is not None:
            self._record.status, self._record.in_stream_error = 200, True
            await self._part_with(self._exchange.write(self._stream.fail(error), more=False))

    async def _part_with(self, last_words: Coroutine[Any, Any, None]) -> bool:
        """Sends what ends the answer. False when the caller does not take it: nothing else watches over it by now."""
        try:
            async with asyncio.timeout(self._patience):
                await last_words
        except TimeoutError:
            return False
        return True

    def gone(self) -> None:
        """The caller has left: nobody is told anything, and nobody is to blame."""
        self._record.outcome, self._record.status = Outcome.CLIENT_GONE, 499
        self._record.culprit = Culprit.CALLER

    async def cancelled(self) -> None:
        """This task was cancelled: because the caller left, or from outside, which the caller is told first."""
        task = asyncio.current_task()
        if self.caller_left and task is not None:
            task.uncancel()
            self.gone()
            return
        if not self._exchange.ended:  # else the answer is whole
            await self.fail(
                ApiError(
                    Kind.NO_CAPACITY,
                    "shutting_down",
                    "The gateway is shutting down.",
                    retry_after=5,
                    culprit=Culprit.GATEWAY,
                )
            )
        raise asyncio.CancelledError

    def settle(self) -> None:
        """Times, sizes and metrics, once the answer is over in whatever way."""
        record = self._record
        record.duration_ms = self._elapsed()
        record.response_bytes = self._exchange.sent_bytes
        first = None if record.first_token_ms is None else record.first_token_ms / 1000
        metrics.count_request(
            record.protocol, record.model, record.stream, Outcome(record.outcome), record.duration_ms / 1000, first
        )
        if self._usage is not None:
            metrics.count_tokens(record.model, self._usage)

    async def _keep_stream(self, keep: Callable[[JsonObject], Awaitable[None]]) -> None:
        final = getattr(self._stream, "final", None)
        if final is not None:
            await keep(final)

    async def _write(self, data: bytes) -> None:
        if not self._exchange.started:
            buffered = [(b"x-poolgate-buffered", b"true")] if self._buffered() else []
            self._tell_unsatisfied()
            await self._exchange.start(200, [SSE, *NO_BUFFERING, *buffered])
        self._last_write = asyncio.get_running_loop().time()
        self._writing = True
        await self._exchange.write(data)
        self._writing = False

    def _tell_unsatisfied(self) -> None:
        """Text where a call was demanded; a status that is spent by then leaves it to the record."""
        if self._record.tool_choice_unsatisfied:
            self._exchange.extra.append((b"x-poolgate-tool-choice", b"unsatisfied"))

    def _note(self, events: Sequence[Event]) -> None:
        record = self._record
        if record.first_token_ms is None:
            record.first_token_ms = self._elapsed()
            record.committed = True
        for event in events:
            if isinstance(event, PartStart):
                record.tool_call_count += event.kind is PartKind.TOOL_CALL
            elif isinstance(event, Finish):
                self._note_finish(event)

    def _note_finish(self, finish: Finish) -> None:
        record, usage = self._record, finish.usage
        self._usage = usage
        record.finish = finish.reason.unified
        record.input_tokens = usage.input_uncached
        record.output_tokens = usage.output
        record.cache_read_tokens = usage.cache_read
        record.cache_write_tokens = usage.cache_write
        record.reasoning_tokens = usage.reasoning
        record.usage_source = usage.source

    def _explain(self, error: ApiError) -> None:
        record = self._record
        record.outcome = _outcome(error, record)
        record.code, record.culprit = error.code, error.culprit
        if isinstance(error, BudgetError):
            record.budget, record.budget_limit, record.budget_actual = error.budget, error.limit, error.actual

    def _leave(self) -> None:
        """The caller is not there any more. Called from outside the task that serves it."""
        if self._task is not None:
            self.caller_left = True
            self._task.cancel()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._last_write + self._interval
        now = loop.time()
        if self._writing:
            if now - self._last_write > self._patience:  # who takes nothing for so long is as good as gone
                self._leave()
            due = now + self._interval
        elif now >= due:
            self._ticking = loop.create_task(self._keepalive(now))
            due = now + self._interval
        self._timer = loop.call_at(due, self._tick, loop)

    async def _keepalive(self, now: float) -> None:
        if self._stream is None:
            return
        data = self._stream.idle(self._last_sign() > self._last_write)
        if data:
            await self._write(data)
        else:
            self._last_write = now

    def _elapsed(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


def _outcome(error: ApiError, record: Record) -> Outcome:
    if record.committed:
        return Outcome.INTERRUPTED
    if error.kind is Kind.INTERNAL:
        return Outcome.INTERNAL_ERROR
    if error.culprit is Culprit.CALLER:
        return Outcome.CLIENT_ERROR
    if not record.attempts:
        return Outcome.REJECTED
    return Outcome.UPSTREAM_ERROR
