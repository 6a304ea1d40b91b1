"""Runs that wait for the results of tool calls, so that one upstream request serves a whole tool loop.

An answer of the Agent RPC that ends with calls leaves its stream open, and the upstream waiting. The stream is kept,
and when the same key's next request is that conversation plus the results of exactly those calls, the results go to the
waiting run. Everything else (another process, another key, an edited history, some of the results, too late) is served
as if nothing had been kept: a new run gets the whole history. So keeping a stream is never more than a saving, and
nobody can tell from an answer whether it was one, nor learn from it what somebody else's stream holds.

A kept stream holds no slot. Its account is at work for nobody, and with a few slots an account of slow tools would
serve nobody else; the request that resumes it takes a slot like any other. What is bounded instead is how many streams
an account (its slots) and the process (``parked_most``, ``MOST_BYTES``) keep: the oldest goes first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import orjson
from msgspec import Struct

from accounts.compile import AccountView
from core import metrics
from core.metrics import Parking
from core.settings import Settings
from gateway.contracts import ParkableRun
from gateway.snapshot import Snapshot
from ir.events import Event, PartKind
from ir.request import Message, Reasoning, Request, Text, ToolCall, ToolResult
from ir.response import Response, fold
from ir.usage import Usage, UsageSource

MOST_BYTES = 256 * 1024 * 1024
"""What the kept runs of a process may hold in memory, histories and images that the upstream may still ask for."""

LOOK_EVERY = 1.0
"""Seconds between looks for streams whose time is up, or whose account or setting has changed."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Owner(Struct, frozen=True):
    team_id: int | None
    key_id: int | None


class Spent(Struct, frozen=True):
    """Tokens that earlier answers of a run were charged for, by our own count."""

    input: int = 0
    output: int = 0

    def plus(self, usage: Usage) -> Spent:
        return Spent(self.input + usage.input_total, self.output + (usage.output or 0))


class Waiting(Struct, frozen=True, eq=False):
    """A kept run, and what must not have changed when it is resumed. ``digest`` is that of the conversation up to the
    calls; ``said`` the answer that made them; ``sealed`` the account's credential, encrypted."""

    run: ParkableRun
    owner: Owner
    account: AccountView
    sealed: bytes
    digest: bytes
    said: Response
    spent: Spent = Spent()

    @property
    def call_ids(self) -> frozenset[str]:
        return frozenset(call.call_id for call in self.said.of(PartKind.TOOL_CALL))


class Parked:
    """The kept streams of one process. ``snapshot`` gives the configuration in force, ``clock`` seconds."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._ends: dict[Waiting, float] = {}  # the oldest first
        self._by_calls: dict[tuple[Owner, frozenset[str]], Waiting] = {}
        self._looked_at: Snapshot | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def put(self, waiting: Waiting, settings: Settings) -> None:
        """Keeps a run that waits; it belongs to this from now on. Others go where there are too many."""
        key = waiting.owner, waiting.call_ids
        if key in self._by_calls:
            self.drop(self._by_calls[key])
        waiting.run.park(lambda: self.drop(waiting))
        self._ends[waiting] = self._clock() + settings.parked_ttl
        self._by_calls[key] = waiting
        metrics.count_parking(Parking.PARKED)
        self._make_room(waiting.account, settings.parked_most)
        if self._timer is None and self._ends:
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)

    def find(self, owner: Owner, results: Iterable[ToolResult]) -> Waiting | None:
        """The run whose open calls are exactly those of ``results``."""
        if not self._ends:
            return None
        return self._by_calls.get((owner, frozenset(result.call_id for result in results)))

    def take(self, waiting: Waiting) -> bool:
        """Whether the run is still there, and now the taker's."""
        if waiting not in self._ends:
            return False
        late = self._clock() >= self._ends[waiting]
        if late or not self._in_force(waiting, self._snapshot()):
            self._drop(waiting, Parking.EXPIRED if late else Parking.DROPPED)
            return False
        self._forget(waiting)
        return True

    def drop(self, waiting: Waiting) -> None:
        """Ends a run, if it is still kept."""
        self._drop(waiting, Parking.DROPPED)

    def close(self) -> None:
        """Ends every kept run, at shutdown."""
        for waiting in list(self._ends):
            self.drop(waiting)

    def _make_room(self, account: AccountView, most: int) -> None:
        while len(self._ends) > most or sum(kept.run.weight for kept in self._ends) > MOST_BYTES:
            self.drop(next(iter(self._ends)))
        same = [kept for kept in self._ends if kept.account.id == account.id]
        for kept in same[: max(len(same) - account.slots, 0)]:
            self.drop(kept)

    def _look(self) -> None:
        now, snapshot = self._clock(), self._snapshot()
        changed = snapshot is not self._looked_at
        self._looked_at = snapshot
        for waiting, ends in list(self._ends.items()):
            if now >= ends:
                self._drop(waiting, Parking.EXPIRED)
            elif changed and not self._in_force(waiting, snapshot):
                self.drop(waiting)
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look) if self._ends else None

    def _in_force(self, waiting: Waiting, snapshot: Snapshot | None) -> bool:
        """Whether the configuration still has the setting, the account and its credential as they were."""
        if snapshot is None or not snapshot.settings.parked_streams:
            return False
        account = waiting.account
        return account in snapshot.accounts and snapshot.sealed.get(account.credential_id) == waiting.sealed

    def _drop(self, waiting: Waiting, how: Parking) -> None:
        if waiting in self._ends:
            self._forget(waiting)
            waiting.run.cancel()
            metrics.count_parking(how)

    def _forget(self, waiting: Waiting) -> None:
        del self._ends[waiting]
        self._by_calls.pop((waiting.owner, waiting.call_ids), None)
        if not self._ends and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def results_of(request: Request) -> tuple[ToolResult, ...]:
    """The results that the request brings."""
    if len(request.messages) < 2 or request.messages[-1].role != "user":
        return ()
    return tuple(part for part in request.messages[-1].content if isinstance(part, ToolResult))


def digest(request: Request, model: str, parameters: Mapping[str, str], messages: Sequence[Message]) -> bytes:
    """What a run that was asked ``messages`` knows, in 32 bytes: equal digests, the same run. ``model`` and
    ``parameters`` are the upstream's. Thinking is left out, since it is never told, and so is what is settled here (the
    limit of the answer, stop sequences). Raises ``ValueError`` for a request that cannot be compared."""
    tools = [(tool.name, tool.description, tool.schema) for tool in request.tools]
    how = (model, parameters, request.system, tools, request.tool_choice, request.parallel_tool_calls is not False)
    try:
        found = hashlib.sha256(_encode(how))
        for message in messages:
            found.update(_encode((message.role, [part for part in message.content if not isinstance(part, Reasoning)])))
    except (RecursionError, OverflowError):
        raise ValueError("too deep, or numbers too large") from None
    return found.digest()


def answers_to(request: Request, said: Response) -> bool:
    """Whether the last assistant message is what ``said`` gave the caller: the same calls in the same order, and the
    same text, where there is any (some clients leave out the text beside calls)."""
    message = request.messages[-2]
    if message.role != "assistant":
        return False
    calls = [(part.id, part.name, _value(part.arguments)) for part in message.content if isinstance(part, ToolCall)]
    made = [(part.call_id, part.name, _value(part.text)) for part in said.of(PartKind.TOOL_CALL)]
    text = "".join(part.text for part in message.content if isinstance(part, Text)).split()
    return calls == made and (not text or text == "".join(part.text for part in said.of(PartKind.TEXT)).split())


def own_share(usage: Usage, spent: Spent) -> Usage:
    """What is left for the last answer of a run from the ``usage`` of all of it.

    The upstream counts a run once, at its end, when its earlier answers have been charged by our own count. The answers
    of a run together never come to more than it cost, as long as we counted no more than that. The rest is an estimate,
    as what it was taken from is.
    """
    if usage.output is None:
        return usage
    output = max(0, usage.output - spent.output)
    left = spent.input
    kinds: list[int | None] = []
    for count in (usage.input_uncached, usage.cache_write, usage.cache_read):
        taken = min(count or 0, left)
        left -= taken
        kinds.append(None if count is None else count - taken)
    uncached, write, read = kinds
    reasoning = None if usage.reasoning is None else min(usage.reasoning, output)
    return Usage(uncached, output, read, write, reasoning, UsageSource.ESTIMATED)


def whole(events: Iterable[Event]) -> Response | None:
    """The answer, where its calls can be told apart by their ids."""
    said = fold(events)
    calls = said.of(PartKind.TOOL_CALL)
    return said if calls and len({call.call_id for call in calls}) == len(calls) else None


def _value(arguments: str) -> object:
    """Arguments as a value: clients write the same object in their own way."""
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
