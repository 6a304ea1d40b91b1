"""The stream of a Cloud Agents run → pieces of text and thinking, over as many connections as it takes.

An event's id is acted upon once, whatever connection it comes on: a resumed stream may repeat its last frame, and
``interaction_update`` is the richer twin of a simple event under the same id. Without an id there is no telling, so
there only the simple event counts. What the run's result holds beyond what was streamed is appended.

Source: the API's run stream (``status``, ``assistant``, ``thinking``, ``tool_call``, ``interaction_update``,
``heartbeat``, ``result``, ``error``, ``done``).
"""

from __future__ import annotations

from typing import Any

import orjson

from gateway.protocols.cloud.bodies import Outcome, read_outcome, read_usage
from gateway.protocols.cloud.classify import BY_CODE
from gateway.wire.sse import Frame, Reader
from ir.errors import Fault, Reason, Stage
from ir.events import PartKind
from ir.usage import Usage

Piece = tuple[PartKind, str]

_TWINS = {"text-delta": PartKind.TEXT, "thinking-delta": PartKind.REASONING}
_SIMPLE = {"assistant": PartKind.TEXT, "thinking": PartKind.REASONING}
_FINAL = frozenset({"unauthorized", "forbidden", "not_found"})
_ENDS = {"ERROR": Reason.TRANSIENT, "CANCELLED": Reason.TRANSIENT, "EXPIRED": Reason.TIMEOUT}


class RunStream:
    """``last_id`` is what a new connection resumes after; ``signs`` counts what shows the model at work (heartbeats and
    repeats do not); ``outcome`` is set once the run is over; ``done``: the upstream has nothing more to say;
    ``trouble``: the stream broke off with an error that a new connection may get over; ``fault``: with a final one, to
    be raised once the pieces that came before it are used."""

    def __init__(self) -> None:
        self.last_id = ""
        self.signs = 0
        self.outcome: Outcome | None = None
        self.done = False
        self.trouble: Fault | None = None
        self.fault: Fault | None = None
        self.usage = Usage()
        self._reader = Reader()
        self._acted: set[str] = set()
        self._said: list[str] = []

    @property
    def over(self) -> bool:
        return self.outcome is not None

    @property
    def stage(self) -> Stage:
        return Stage.CONTENT if self.signs else Stage.PREAMBLE

    def reconnect(self) -> None:
        """A new connection: what was half read of the old one comes again."""
        self._reader = Reader()
        self.done = False
        self.trouble = None

    def feed(self, data: bytes) -> list[Piece]:
        """Raises ``Fault`` for an error that is final, and for a run that did not finish well, unless pieces came with
        it: then it is in ``fault``."""
        try:
            frames = self._reader.feed(data)
        except ValueError:
            raise Fault(Reason.PROTOCOL, self.stage, upstream_code="event_too_large") from None
        pieces: list[Piece] = []
        try:
            for frame in frames:
                if self.outcome is not None:
                    break
                self._frame(frame, pieces)
        except Fault as fault:
            if not pieces:
                raise
            self.fault = fault
        return pieces

    def conclude(self, outcome: Outcome) -> list[Piece]:
        """The run is over, as the stream or the run itself tells. Raises ``Fault`` unless it finished."""
        if outcome.status != "FINISHED":
            reason = _ENDS.get(outcome.status, Reason.PROTOCOL)
            raise Fault(reason, self.stage, upstream_code=f"run_{outcome.status.lower()}"[:32])
        self.outcome = outcome
        said = "".join(self._said)
        rest = outcome.text[len(said) :] if outcome.text.startswith(said) else ""
        return [(PartKind.TEXT, rest)] if rest else []

    def _frame(self, frame: Frame, pieces: list[Piece]) -> None:
        if frame.id:
            self.last_id = frame.id
        match frame.event:
            case "assistant" | "thinking" | "interaction_update":
                self._update(frame, pieces)
            case "tool_call":
                self.signs += 1
            case "result":
                outcome = read_outcome(self._object(frame))
                if outcome is None or not outcome.is_final:
                    raise Fault(Reason.PROTOCOL, self.stage, upstream_code="result_event")
                pieces += self.conclude(outcome)
            case "error":
                self._error(self._object(frame))
            case "done":
                self.done = True
            case _:
                pass  # status, heartbeat, and whatever will be invented

    def _update(self, frame: Frame, pieces: list[Piece]) -> None:
        if frame.id in self._acted:
            return
        data = self._object(frame)
        kind = _SIMPLE.get(frame.event)
        if kind is None:
            if data.get("type") == "turn-ended":
                self.usage = read_usage(data.get("usage"))
            kind = _TWINS.get(str(data.get("type"))) if frame.id else None
        text = data.get("text")
        if kind is None or not isinstance(text, str) or not text:
            return
        if frame.id:
            self._acted.add(frame.id)
        self.signs += 1
        if kind is PartKind.TEXT:
            self._said.append(text)
        pieces.append((kind, text))

    def _error(self, data: dict[str, Any]) -> None:
        code = str(data.get("code"))
        name = code if code in BY_CODE else "stream_error"
        fault = Fault(BY_CODE.get(code, Reason.TRANSIENT), self.stage, upstream_code=name)
        if code in _FINAL or not fault.may_pass:
            raise fault
        self.trouble = fault

    def _object(self, frame: Frame) -> dict[str, Any]:
        try:
            value = orjson.loads(frame.data)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise Fault(Reason.PROTOCOL, self.stage, upstream_code="event_data")
        return value
