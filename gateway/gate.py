"""The commit point: what must have come before the first semantic byte may go to the caller. Pure.

Until the gate opens, events are held back and failover is free. It opens at the first output the caller can see; where
a call is demanded (``tool_choice`` required or named) not before there is one; and for an answer that is not streamed
only at the end. An upstream that ends the turn with nothing to show never opens it: that is a fault, not an answer.
So is one that says more than ``HELD_TEXT`` bytes to a stream that waits for its call: it would be held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, Unified
from ir.request import Request
from ir.tokens import estimate
from ir.usage import Usage, UsageSource

HELD_TEXT = 64 * 1024


class Gate:
    """For one attempt. ``see`` gives the events that may go out now; ``opened`` is the commit point,
    ``refused`` that this was the whole answer and is none; ``held`` is then all of it.

    ``hold``: the answer is wanted whole, also where the caller is streamed to.
    """

    def __init__(self, request: Request, expose_reasoning: bool, hold: bool = False) -> None:
        self.opened = self.refused = False
        self.held: list[Event] = []
        self._whole = hold or not request.stream
        self._demands_call = request.tool_choice.demands_call
        self._expose_reasoning = expose_reasoning
        self._kind = PartKind.TEXT
        self._visible = False
        self._called = False
        self._text = 0  # bytes held in place of a demanded call

    def see(self, events: Sequence[Event]) -> Sequence[Event]:
        """Raises ``Fault`` EMPTY or MISSING_TOOL_CALL at a ``Finish`` that nothing worth sending came before, and
        MISSING_TOOL_CALL once more text is held for a call than may be."""
        if self.opened:
            return events
        self.held.extend(events)
        ended = False
        for event in events:
            match event:
                case PartStart():
                    self._kind = event.kind
                    self._called = self._called or event.kind is PartKind.TOOL_CALL
                case PartDelta():
                    self._visible = self._visible or self._kind is not PartKind.REASONING or self._expose_reasoning
                    if self._demands_call and self._kind is PartKind.TEXT:
                        self._text += len(event.text.encode())
                case Finish():
                    ended = True
                    self._judge(event)
                case _:
                    pass
        if self._text > HELD_TEXT and not (ended or self._whole or self._called):
            self._end_early()
        self.opened = ended or (not self._whole and self._shows)
        return self.held if self.opened else ()

    @property
    def _shows(self) -> bool:
        return self._called if self._demands_call else self._called or self._visible

    def _end_early(self) -> NoReturn:
        """Makes a whole answer of what is held, cut at its length, and refuses it."""
        if not isinstance(self.held[-1], PartEnd):
            self.held.append(PartEnd())
        said = sum(estimate(event.text) for event in self.held if isinstance(event, PartDelta))
        usage = Usage(output=round(said), source=UsageSource.ESTIMATED)
        self.held.append(Finish(FinishReason(Unified.LENGTH), usage))
        self._refuse(Reason.MISSING_TOOL_CALL)

    def _judge(self, finish: Finish) -> None:
        unified = finish.reason.unified
        if unified is Unified.STOP and not (self._called or self._visible):
            self._refuse(Reason.EMPTY)
        if self._demands_call and not self._called and unified in (Unified.STOP, Unified.STOP_SEQUENCE):
            self._refuse(Reason.MISSING_TOOL_CALL)

    def _refuse(self, reason: Reason) -> NoReturn:
        self.refused = True
        raise Fault(reason, Stage.END)
