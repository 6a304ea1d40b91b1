"""What one request owns, and that it gives it back exactly once: its record, its slot, its caller's slot.

``admit`` puts the record into Redis without waiting, and whatever else is asked then goes with it; ``Entry.take`` gets
a slot in one round trip; ``Entry.close`` gives everything back and files the record in one more, and ``bindings``
(commands that say where the conversation is at home) go with it.
The closing command is on its way before ``close`` can be cancelled, and the ledger sees it through: when Redis does not
answer, it tries again for ``PATIENCE`` seconds, while the stream that ended has long gone. Should the process die,
its open records are reaped as lost.

When Redis is down no slot can be had, and new requests are refused (``state_unavailable``): limits that are not known
to hold do not hold. Running streams go on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from accounts.compile import AccountView
from accounts.knowledge import Knowledge, note_served
from accounts.leases import MOST_PASSED, NOBODY, Caller, Lease, Passed, Refused, Shortage, Slots, name_holder
from accounts.lines import LEAVE, TURN, Line, Place, name_pool
from accounts.pool import CALM, Choice, PoolView, Sticky, Verdict, choose
from accounts.slot_scripts import RELEASE, TAKE
from accounts.stats import Stats
from core.redis_pipe import Pipe, PipeDown, PipeError
from gateway.affinity import Command
from gateway.queue import Queue, may_pass
from gateway.trace import Tracer
from ir.errors import ApiError, Culprit, Kind
from ops.record import Outcome, Record
from ops.recorder import CLOSE, Recorder

Order = Callable[..., Iterator[Choice]]
Take = Callable[..., Awaitable[Lease | Refused]]

log = logging.getLogger(__name__)

BEAT_EVERY = 5.0
PATIENCE = 120.0


class Ledger:
    """The open requests of this process. ``process`` must be new for each life of the process."""

    def __init__(self, pipe: Pipe, process: str, *, draws: Callable[[], float] = random.random) -> None:
        self.pipe = pipe
        self.process = process
        self.draws = draws
        self.slots = Slots(pipe, process)
        self.queue = Queue()
        self.recorder = Recorder(pipe, process)
        self.stats = Stats()
        self.knowledge = Knowledge(pipe)
        self.slot_life = 600.0
        self._served: set[int] = set()
        self._open: weakref.WeakSet[Entry] = weakref.WeakSet()
        self._closing: set[asyncio.Future[Any]] = set()
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Shows that the process lives, before it admits anything. Raises ``PipeDown``."""
        await self.pipe.learn(TAKE, RELEASE, CLOSE, TURN, LEAVE)
        await self.recorder.beat()
        await self.knowledge.refresh()
        self._beating = asyncio.create_task(self._beat())

    async def stop(self, *, wait: float = 10.0) -> None:
        """Waits for records on their way; what is open after that is reaped as lost."""
        await self.drained(wait=wait)
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        for task in self._closing:
            task.cancel()
        try:
            await self.recorder.leave()
        except PipeDown:
            log.warning("Redis is down at shutdown: what is open is reaped later")

    def admit(self, record: Record) -> Entry:
        """From here on there will be exactly one row for this request."""
        record.process = self.process
        entry = Entry(self, record)
        self._open.add(entry)
        self.recorder.open(record)
        return entry

    async def drained(self, *, wait: float = 10.0) -> bool:
        """Whether every closed request's record has arrived within ``wait`` seconds."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=wait)
        return not self._closing

    def file(self, entry: Entry) -> asyncio.Future[Any]:
        """Sends the closing command and keeps watch over it."""
        self._open.discard(entry)
        if entry.served is not None:
            self._served.add(entry.served)
        record, trace = entry.record, entry.trace.encode(entry.record)
        sent = self.recorder.close(record, trace)
        for command in entry.bindings:
            self.pipe.send(*command)  # a preference: when it is lost, the next turn is bound anew
        self._closing.add(sent)
        sent.add_done_callback(lambda reply: self._filed(reply, record, trace))
        return sent

    def _filed(self, reply: asyncio.Future[Any], record: Record, trace: bytes) -> None:
        self._closing.discard(reply)
        if reply.cancelled() or reply.exception() is not None:
            again = asyncio.get_running_loop().create_task(self._file_again(record, trace))
            self._closing.add(again)
            again.add_done_callback(self._closing.discard)

    async def _file_again(self, record: Record, trace: bytes) -> None:
        pause, tries_end = 0.05, time.monotonic() + PATIENCE
        while time.monotonic() < tries_end:
            try:
                await self.recorder.close_again(record, trace)
                return
            except (PipeDown, PipeError):
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)
        log.error("the record of %s could not be filed: Redis stayed away", record.request_id)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY)
            try:
                await self.recorder.beat()
                await self.slots.renew([entry.holder for entry in self._open], life=self.slot_life)
                await self.knowledge.refresh()
                served, self._served = self._served, set()
                await note_served(self.pipe, served, time.time())
            except (PipeDown, PipeError) as error:
                log.warning("no beat: %s", type(error).__name__)


class Entry:
    """One admitted request. ``record`` and ``trace`` are filled in along the way and filed as they are when the entry
    closes."""

    def __init__(self, ledger: Ledger, record: Record) -> None:
        self.record = record
        self.trace = Tracer()
        self._ledger = ledger
        self._lease: Lease | None = None
        self._since = 0.0
        self._closed = False
        self.bindings: Sequence[Command] = ()

    @property
    def holder(self) -> str:
        """The request as slots know it."""
        return name_holder(self.record.team_id, self._ledger.process, self.record.request_id)

    @property
    def served(self) -> int | None:
        """The account that has answered, once the record says so."""
        return self._lease.account.id if self._lease is not None and self.record.outcome is Outcome.OK else None

    async def take(
        self,
        candidates: Sequence[AccountView],
        model: str,
        *,
        exclude: Collection[int] = (),
        caller: Caller = NOBODY,
        life: float = 600.0,
        wait: float = 0.0,
        sticky: Sticky | None = None,
        known: PoolView = CALM,
    ) -> Lease | Refused:
        """A slot on one of ``candidates``; one that was held before is given back. ``model`` is the upstream's name;
        ``sticky``: the account to prefer; ``known``: what stands in the way beside loads and rests.

        Waits up to ``wait`` seconds in line where only slots or a short rest stand in the way, and no longer than that
        makes sense: who would not get a slot in time is told so at once. Raises the 503 ``state_unavailable`` when
        Redis is down.
        """
        self.give_back()
        self._ledger.slot_life = life
        slots, holder = self._ledger.slots, self.holder
        order = partial(choose, candidates, model=model, exclude=exclude, sticky=sticky, draws=self._ledger.draws)
        take = partial(slots.take, model=model, holder=holder, life=life, caller=caller, polite=wait > 0)
        try:
            answer = await self._try(order, take, known, model)
            if isinstance(answer, Refused) and may_pass(answer, wait):
                accounts = {account.id for account in candidates if account.id not in exclude}
                line = Line(caller.team_id, name_pool(accounts), model)
                place = Place(self._ledger.pipe, self._ledger.process, slots, line, holder, life=life, caller=caller)
                ask = partial(self._try, order, place.ask, known, model)
                answer = await self._ledger.queue.wait(place, ask, accounts, wait)
        except (PipeDown, PipeError) as error:
            log.warning("no slot: %s", type(error).__name__)
            raise ApiError(
                Kind.NO_CAPACITY,
                "state_unavailable",
                "the gateway's state store is unavailable",
                retry_after=2,
                culprit=Culprit.GATEWAY,
            ) from error
        if isinstance(answer, Lease):
            self._lease, self._since = answer, time.monotonic()
        return answer

    def give_back(self) -> None:
        """Gives back the account's slot, before another is tried; the caller's own slot stays."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._ledger.slots.release(lease)
            self._ledger.queue.freed(lease.account.id, time.monotonic() - self._since)

    async def close(self) -> None:
        """Gives everything back and files the record: once, however often it is called. Never raises.

        Returns when Redis has it, or at once when Redis is down (the ledger goes on trying). The command is sent
        before anything can cancel this call.
        """
        if self._closed:
            return
        self._closed = True
        filed = asyncio.shield(self._ledger.file(self))
        if self._lease is not None:
            self._ledger.slots.note_return(self._lease)
            self._ledger.queue.freed(self._lease.account.id, time.monotonic() - self._since)
        try:
            await filed
        except (PipeDown, PipeError):
            log.info("the record of %s is filed later", self.record.request_id)

    async def _try(self, order: Order, take: Take, known: PoolView, model: str) -> Lease | Refused:
        slots = self._ledger.slots
        view = structs.replace(
            known,
            loads=slots.loads(),
            cooled=slots.hints.cooled(),
            seen=self._ledger.stats.seen,
            quotas=self._ledger.knowledge.used(model),
            barred=self._ledger.knowledge.barred,
        )
        answer = await _look(order, view, take)
        if isinstance(answer, Refused) and answer.shortage is Shortage.NO_ACCOUNT:
            # All that there are may be cooled: only the server knows until when.
            answer = await _look(order, view.doubted(), take)
        return answer


async def _look(order: Order, view: PoolView, take: Take) -> Lease | Refused:
    """Takes the first that has room, and notes who was passed by before the server was asked."""
    choices: dict[int, Choice] = {}
    passed: list[Passed] = []

    def note(account: AccountView, verdict: Verdict) -> None:
        if len(passed) < MOST_PASSED:
            passed.append(Passed(account.id, verdict.value))

    def accounts() -> Iterator[AccountView]:
        for choice in order(view, passed=note):
            choices[choice.account.id] = choice
            yield choice.account

    answer = await take(accounts())
    passed += answer.passed
    if isinstance(answer, Lease):
        return structs.replace(answer, passed=tuple(passed), choice=choices[answer.account.id])
    return structs.replace(answer, passed=tuple(passed))
