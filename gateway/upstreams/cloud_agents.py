"""Cloud Agents, the official REST API: one agent without a repository for each attempt, made for one answer.

The life of an agent: it is put on the list of agents that must not stay behind, made, listened to, and deleted in the
background whatever became of the answer (``leftovers``). Its stream may break: it is taken up again after the last
event that came, with growing pauses, and after six tries in a row that brought nothing new the run itself is asked
until it is over. Then the answer comes in one piece, which ``buffered`` tells.

A cloud agent starts a machine first, so the wait for the first word is longer than elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any
from uuid import uuid4

from msgspec import Struct

from accounts.compile import IMAGES, Transport
from gateway.contracts import Clocks, Target
from gateway.protocols.cloud.bodies import encode_create
from gateway.protocols.cloud.catalogue import choose
from gateway.protocols.cloud.stream import Piece, RunStream
from gateway.upstreams.cloud_api import CloudApi
from gateway.upstreams.cloud_models import CloudModels
from gateway.upstreams.faults import restage
from gateway.upstreams.http import Answer, Door
from gateway.upstreams.leftovers import LATER, Leftovers
from gateway.upstreams.speech import Speech
from gateway.upstreams.watch import Watch
from ir.errors import Fault, Reason
from ir.events import Event, FinishReason, Unified
from ir.request import Request
from ir.usage import Usage

START_FACTOR = 3.0
"""How much longer the first word may take than ``Clocks.first_token``."""

NO_USAGE_SECONDS = 3600.0
"""How long an account that has no usage to tell is not asked again."""


class Pace(Struct, frozen=True):
    """Pauses in seconds: before a stream is taken up again (doubling), between looks at a run, before each deletion."""

    first: float = 1.0
    longest: float = 30.0
    tries: int = 6
    look: float = 1.0
    longest_look: float = 15.0
    deletions: tuple[float, ...] = (0.0, 0.5, 2.0)


PACE = Pace()


class CloudAgents:
    """The upstream for accounts that speak the Cloud Agents API. ``close`` ends it, the door included."""

    def __init__(self, door: Door, leftovers: Leftovers, pace: Pace = PACE) -> None:
        self.leftovers = leftovers
        self.pace = pace
        self._door = door
        self._models = CloudModels()
        self._no_usage: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> CloudRun:
        """Makes an agent for the turn; a refusal is raised here."""
        api = CloudApi(self._door, target, clocks.connect)
        model = choose(await self._models.offers(target.account_id, api.models), target.model, target.parameters)
        aloud = target.parameters.get("thinking") == "true" and (model is None or "thinking" not in model.parameters)
        most = IMAGES[Transport.CLOUD_AGENTS]
        speech = Speech(request, target.policy, thinking=aloud, most_images=most)
        agent = f"bc-{uuid4()}"
        body = encode_create(agent, speech.told.flat(), speech.told.images, model)
        self.leftovers.note(agent, target.account_id, clocks.total + LATER)
        run = CloudRun(self, api, target.account_id, agent, speech, clocks)
        try:
            await run.start(body)
        except BaseException:
            await run.close()
            raise
        return run

    async def close(self) -> None:
        """Gives deletions under way a moment; what does not make it stays on the list."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=2.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._models.close()
        await self._door.close()

    async def usage(self, api: CloudApi, account_id: int, agent: str, run: str) -> Usage:
        """What the API tells; all unknown when it does not, which is no fault of the answer."""
        now = asyncio.get_running_loop().time()
        if self._no_usage.get(account_id, 0.0) > now:
            return Usage()
        try:
            return await api.usage(agent, run)
        except Fault as fault:
            if fault.reason is Reason.FORBIDDEN:
                self._no_usage[account_id] = now + NO_USAGE_SECONDS
            return Usage()

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that outlives its request."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class CloudRun:
    """One run in flight: ``gateway.contracts.Run``. ``buffered``: no stream of tokens is to be had."""

    def __init__(
        self, home: CloudAgents, api: CloudApi, account_id: int, agent: str, speech: Speech, clocks: Clocks
    ) -> None:
        loop = asyncio.get_running_loop()
        self.last_sign = loop.time()
        self.buffered = False
        self._loop = loop
        self._home = home
        self._api = api
        self._account_id = account_id
        self._agent = agent
        self._run = ""
        self._speech = speech
        self._clocks = clocks
        self._stream = RunStream()
        self._watch = Watch()
        self._answer: Answer | None = None
        self._closed = self._refused = False
        self._last = loop.time() + clocks.total
        self._deadline = min(loop.time() + clocks.first_token * START_FACTOR, self._last)
        self._signs = 0

    async def start(self, body: bytes) -> None:
        try:
            self._run = await self._api.create(body, max(self._deadline - self._loop.time(), 0.0))
        except Fault as fault:
            self._refused = not fault.may_pass
            raise
        self.last_sign = self._loop.time()

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        async with aclosing(self._pieces()) as heard:
            async for pieces in heard:
                events = self._speech.feed(pieces)
                if events:
                    yield events
                if self._speech.done:
                    return
        usage = self._stream.usage
        if usage.output is None:
            usage = await self._home.usage(self._api, self._account_id, self._agent, self._run)
        yield self._speech.close(FinishReason(Unified.STOP, "FINISHED"), usage)

    async def close(self) -> None:
        """Stops listening; the agent is cancelled and deleted behind the caller's back. Never raises."""
        if self._closed:
            return
        self._closed = True
        self._watch.stop()
        if self._answer is not None:
            self._answer.close()
        if self._refused:  # surely nothing was made
            self._home.leftovers.forget(self._agent)
        else:
            self._home.follow(self._clean_up())

    async def _pieces(self) -> AsyncGenerator[Sequence[Piece], None]:
        """Everything the run says, however many connections that takes."""
        stream, pace, vain = self._stream, self._home.pace, 0
        while True:
            before, trouble = stream.signs, None
            try:
                async with aclosing(self._connection()) as connection:
                    async for pieces in connection:
                        yield pieces
            except Fault as fault:
                if not _may_pass(fault):
                    raise restage(fault, stream.stage) from None
                trouble = fault
            if stream.over:
                return
            vain = 1 if stream.signs > before else vain + 1
            if stream.done or vain > pace.tries or (trouble is not None and trouble.upstream_code == "stream_expired"):
                yield await self._wait_for_run()
                return
            await self._pause(min(pace.first * 2 ** (vain - 1), pace.longest))

    async def _connection(self) -> AsyncGenerator[Sequence[Piece], None]:
        """One connection's worth. Ends at its end; raises ``Fault`` for the trouble that it ended with."""
        stream = self._stream
        stream.reconnect()
        left = max(self._deadline - self._loop.time(), 0.0)
        answer = self._answer = await self._api.stream(self._agent, self._run, stream.last_id, left)
        try:
            while data := await self._read(answer):
                pieces = stream.feed(data)
                if pieces:
                    yield pieces
                if stream.fault is not None:
                    raise stream.fault
                if stream.over or stream.done:
                    answer.release()
                    return
        finally:
            answer.close()
        if stream.trouble is not None:
            raise stream.trouble

    async def _read(self, answer: Answer) -> bytes:
        try:
            data = await self._watch.read(answer, self._limit())
        except TimeoutError:
            raise Fault(Reason.TIMEOUT, self._stream.stage, upstream_code="silence") from None
        self.last_sign = self._loop.time()
        return data

    async def _wait_for_run(self) -> Sequence[Piece]:
        """The run itself tells what its stream did not: asked until it is over."""
        self.buffered = not self._stream.signs
        pause = self._home.pace.look
        while True:
            try:
                outcome = await self._api.read_run(self._agent, self._run)
                self.last_sign = self._loop.time()
                if outcome.is_final:
                    return self._stream.conclude(outcome)
            except Fault as fault:
                if not _may_pass(fault):
                    raise restage(fault, self._stream.stage) from None
            await self._pause(pause)
            pause = min(pause * 2, self._home.pace.longest_look)

    async def _pause(self, seconds: float) -> None:
        if self._loop.time() + seconds > self._last:
            raise Fault(Reason.TIMEOUT, self._stream.stage)
        await asyncio.sleep(seconds)

    def _limit(self) -> float:
        """Loop time until which the upstream has to show that it is at work."""
        if self._stream.signs != self._signs:
            self._signs = self._stream.signs
            self._deadline = min(self._loop.time() + self._clocks.idle, self._last)
        return self._deadline

    async def _clean_up(self) -> None:
        """Cancels the run unless it is over, and deletes the agent."""
        home = self._home
        if self._run and not self._stream.over:
            with suppress(Fault):  # deleting it ends it as well
                await self._api.cancel(self._agent, self._run)
        for pause in home.pace.deletions:
            await asyncio.sleep(pause)
            try:
                found = await self._api.delete(self._agent)
            except Fault:
                continue
            if found or self._run:
                home.leftovers.forget(self._agent)
            else:  # it was asked for, and may yet come to be
                home.leftovers.give_up(self._agent, self._account_id, LATER)
            return
        home.leftovers.give_up(self._agent, self._account_id)


def _may_pass(fault: Fault) -> bool:
    """Whether the stream may be taken up again after this."""
    if fault.reason is Reason.TIMEOUT or fault.upstream_code in _OVER:
        return False
    return fault.may_pass


_OVER = frozenset({"not_found", "agent_not_found", "run_not_found", "run_error", "run_cancelled"})
