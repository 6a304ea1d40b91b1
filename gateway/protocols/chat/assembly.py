"""Deltas of a Chat stream → parts in grammar order.

Chat has no ends: text is over when something else begins, and a call is over when its arguments are a whole object
and something else begins, or when the turn ends. Calls are told apart by ``index`` and may interleave; ``ir.lanes``
holds back those that are not first. Known habits of vendors that are put up with: the id or the name repeated in every
delta, no ``index``, every call at index 0 with an id of its own, a call without an id.
"""

from __future__ import annotations

from gateway.contracts import JsonObject
from gateway.protocols.openai.fields import text_or_empty
from gateway.protocols.openai.functions import NO_ARGUMENTS, is_object
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartKind, PartStart
from ir.lanes import Lanes


class _Call:
    """A call being put together. ``lane`` is None until the name is known."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.lane: int | None = None
        self.ended = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def complete(self) -> bool:
        return self.lane is not None and bool(self.pieces) and is_object(self.arguments)


class Assembly:
    """Every method appends to ``out`` and raises ``Fault`` when a call cannot be made whole."""

    def __init__(self) -> None:
        self._lanes = Lanes()
        self._next_lane = 0
        self._kind: PartKind | None = None  # of the open text or reasoning part
        self._lane = 0
        self._by_index: dict[int, _Call] = {}
        self._calls: list[_Call] = []
        self._current: _Call | None = None

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def write(self, kind: PartKind, text: str, out: list[Event]) -> None:
        """A piece of text or reasoning, not empty."""
        if kind is not self._kind:
            self._end_text(out)
            self._leave_call(out)
            self._lane = self._start(PartStart(kind), out)
            self._kind = kind
        self._lanes.delta(self._lane, text, out)

    def write_call(self, delta: JsonObject, response_id: str, out: list[Event]) -> None:
        """One entry of ``tool_calls``."""
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name, piece = (
            text_or_empty(value) for value in (delta.get("id"), function.get("name"), function.get("arguments"))
        )
        call = self._find(delta.get("index"), call_id, name)
        if call is not self._current:
            self._end_text(out)
            self._leave_call(out)
            self._current = call
        if call.lane is None:
            call.call_id = call.call_id or call_id
            call.name = name
            self._open(call, response_id, out)
        if piece:
            self._append(call, piece, out)

    def finish(self, out: list[Event]) -> None:
        """Ends what is open. A call whose arguments are no object is a fault, never a call."""
        self._end_text(out)
        for call in self._calls:
            if not call.ended:
                self._complete(call, out)

    def _find(self, index: object, call_id: str, name: str) -> _Call:
        if not isinstance(index, int):
            index = self._guess_index(call_id)
        call = self._by_index.get(index)
        reused = call is not None and call_id and name and call.call_id not in ("", call_id)
        if call is None or reused:
            call = self._by_index[index] = _Call()
            self._calls.append(call)
        return call

    def _guess_index(self, call_id: str) -> int:
        for index, call in self._by_index.items():
            if call is self._current and call_id in ("", call.call_id):
                return index
        return len(self._by_index)

    def _open(self, call: _Call, response_id: str, out: list[Event]) -> None:
        if not call.name:
            return
        if not call.call_id:  # ids must differ between the turns of a history, so the answer's own id is part of it
            call.call_id = f"call_{response_id}_{self._calls.index(call)}"
        call.lane = self._start(PartStart(PartKind.TOOL_CALL, call.call_id, call.name), out)
        self._lanes.delta(call.lane, call.arguments, out)

    def _append(self, call: _Call, piece: str, out: list[Event]) -> None:
        if call.ended:
            if piece.strip():
                raise _broken()
            return
        call.pieces.append(piece)
        if call.lane is not None:
            self._lanes.delta(call.lane, piece, out)

    def _start(self, part: PartStart, out: list[Event]) -> int:
        lane, self._next_lane = self._next_lane, self._next_lane + 1
        self._lanes.start(lane, part, out)
        return lane

    def _end_text(self, out: list[Event]) -> None:
        if self._kind is not None:
            self._lanes.end(self._lane, "", out)
            self._kind = None

    def _leave_call(self, out: list[Event]) -> None:
        call, self._current = self._current, None
        if call is not None and not call.ended and call.complete:
            self._end_call(call, out)

    def _complete(self, call: _Call, out: list[Event]) -> None:
        if call.lane is None:
            raise _broken()
        arguments = call.arguments
        if not arguments.strip():
            self._lanes.delta(call.lane, NO_ARGUMENTS, out)
        elif not is_object(arguments):
            raise _broken()
        self._end_call(call, out)

    def _end_call(self, call: _Call, out: list[Event]) -> None:
        if call.lane is not None:
            self._lanes.end(call.lane, "", out)
        call.ended = True


def _broken() -> Fault:
    return Fault(Reason.BROKEN_TOOL_CALL, Stage.CONTENT)
