"""A turn over several attempts: what is asked once more, and what the caller gets when no call came at all.

The gate turns an attempt without the demanded call, or without any answer, into a ``Fault``. ``missed`` is told of it
and says whether to ask again; ``request`` then holds the miss and a reminder. When there is no next attempt,
``outcome`` is the answer to fall back on: of a caller that asked for a call and is lenient, the last text; of a strict
one, none, and the fault stands. The usage of all attempts is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gateway.contracts import DEFAULT_POLICY, Policy
from gateway.textbridge import plan, wording
from ir.errors import Reason
from ir.events import Event, Finish, PartDelta, PartKind, PartStart
from ir.history import merge
from ir.request import Message, Request, Text
from ir.usage import Usage, UsageSource


class Tries:
    """For one turn. ``request`` is what the next attempt asks for; ``again`` tells that one was refused before it."""

    def __init__(self, request: Request, policy: Policy = DEFAULT_POLICY) -> None:
        self.request = plan.demand(request, policy)
        self.again = False
        self._policy = policy
        self._retries = policy.retries
        self._reminded = False
        self._miss: Sequence[Event] = ()
        self._spent = Usage()

    def missed(self, reason: Reason, events: Sequence[Event]) -> bool:
        """``events``: the whole answer that the gate refused, its ``Finish`` last. True: ask once more."""
        spent, made = self._spent, plan.make(self.request, self._policy)
        self.again = True
        self._spend(events)
        if reason is Reason.MISSING_TOOL_CALL:
            self._miss = self._charge(events, spent)
            if self._retries:
                self._retries -= 1
                self._remind(events, wording.reminder(sorted(made.counted)))
                return True
        elif reason is Reason.EMPTY and not self._reminded:
            self._reminded = True
            if made.listens and not made.offered:
                self._remind(events, wording.ANSWER_IN_TEXT)
            return True
        return False

    def outcome(self) -> Sequence[Event] | None:
        """The answer without the demanded call, where the caller takes that; usage of all attempts included."""
        return self._miss if self._miss and not self._policy.strict_outcome else None

    def charge(self, events: Sequence[Event]) -> Sequence[Event]:
        """Events of the attempt that serves, with what the earlier ones cost."""
        return self._charge(events, self._spent)

    def _charge(self, events: Sequence[Event], spent: Usage) -> Sequence[Event]:
        if spent == Usage() or not events or not isinstance(events[-1], Finish):
            return events
        finish = events[-1]
        return [*events[:-1], Finish(finish.reason, _sum(spent, finish.usage))]

    def _spend(self, events: Sequence[Event]) -> None:
        if events and isinstance(events[-1], Finish):
            self._spent = _sum(self._spent, events[-1].usage)

    def _remind(self, events: Sequence[Event], words: str) -> None:
        """The miss stays in the transcript, so that the model sees what it did."""
        said = _text(events)
        asked = [*self.request.messages, Message("user", (Text(words),))]
        if said:
            asked.insert(-1, Message("assistant", (Text(said),)))
        messages, _ = merge(asked, [""] * len(asked))
        self.request = structs.replace(self.request, messages=messages)


def _text(events: Sequence[Event]) -> str:
    kind, pieces = PartKind.TEXT, []
    for event in events:
        if isinstance(event, PartStart):
            kind = event.kind
        elif isinstance(event, PartDelta) and kind is PartKind.TEXT:
            pieces.append(event.text)
    return "".join(pieces)


def _sum(first: Usage, second: Usage) -> Usage:
    """Both counts together: an estimate when a part of it is one, unknown only where neither told."""
    source = UsageSource.ESTIMATED if UsageSource.ESTIMATED in (first.source, second.source) else UsageSource.REPORTED
    return Usage(
        input_uncached=_add(first.input_uncached, second.input_uncached),
        output=_add(first.output, second.output),
        cache_read=_add(first.cache_read, second.cache_read),
        cache_write=_add(first.cache_write, second.cache_write),
        reasoning=_add(first.reasoning, second.reasoning),
        source=source,
    )


def _add(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)
