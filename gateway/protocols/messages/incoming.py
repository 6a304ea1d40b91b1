"""The SSE stream of an upstream Messages answer → events.

Tolerant of what providers leave out (a block's start, its index, its stop) and strict about the two things that
matter: a stream without ``message_stop`` is cut, and a tool call's input must be the JSON text of an object.
``ping``, unknown events and blocks that only Anthropic's own tools produce are passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import orjson

from gateway.protocols.messages.faults import read_error
from gateway.wire.sse import Frame, Reader
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartKind, PartStart, ResponseStart, Unified
from ir.extras import NO_EXTRAS, Extras, extras
from ir.lanes import Lanes
from ir.usage import Usage

UNIFIED: Mapping[str, Unified] = {
    "end_turn": Unified.STOP,
    "stop_sequence": Unified.STOP_SEQUENCE,
    "max_tokens": Unified.LENGTH,
    "tool_use": Unified.TOOL_CALLS,
    "pause_turn": Unified.PAUSE,
    "refusal": Unified.REFUSAL,
    "model_context_window_exceeded": Unified.CONTEXT_FULL,
}

_KINDS = {"text": PartKind.TEXT, "thinking": PartKind.REASONING, "tool_use": PartKind.TOOL_CALL}
_DELTAS: Mapping[str, tuple[PartKind, str]] = {
    "text_delta": (PartKind.TEXT, "text"),
    "thinking_delta": (PartKind.REASONING, "thinking"),
    "input_json_delta": (PartKind.TOOL_CALL, "partial_json"),
}
_MESSAGE = frozenset({"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"})
_END = frozenset({"type", "delta", "usage"})
_COUNTERS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class _Block:
    """An open content block. ``pieces`` gathers a call's input, to be checked whole; ``given`` came with the start."""

    def __init__(self, kind: PartKind | None, given: str = "") -> None:
        self.kind = kind  # None: a block that is passed over
        self.given = given
        self.pieces: list[str] = []
        self.signature = ""
        self.started = kind is PartKind.TOOL_CALL


class MessagesReader:
    """Bytes in, events out: see ``gateway.contracts.ClientStream``.

    Events that came before a fault in the same read are given first; the fault is raised by the next call.
    """

    def __init__(self) -> None:
        self._frames = Reader()
        self._lanes = Lanes()
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._reasoning: int | None = None
        self._reason = FinishReason(Unified.STOP)
        self._late = NO_EXTRAS
        self._called = False
        self._state: Literal["idle", "open", "done"] = "idle"
        self._spoke = False
        self.fault: Fault | None = None

    def feed(self, data: bytes) -> Sequence[Event]:
        if self.fault is not None:
            raise self.fault
        out: list[Event] = []
        try:
            for frame in self._frames.feed(data):
                if self._state == "done":
                    break
                self._see(frame, out)
        except Fault as fault:
            self.fault = fault
        except (ValueError, KeyError):  # KeyError: a lane that is in use or was never opened
            self.fault = Fault(Reason.PROTOCOL, self._stage)
        if self.fault is not None and not out:
            raise self.fault
        return out

    def close(self) -> Sequence[Event]:
        if self.fault is not None:
            raise self.fault
        if self._state != "done":
            raise Fault(Reason.CUT, self._stage)
        return ()

    @property
    def _stage(self) -> Stage:
        return Stage.CONTENT if self._spoke else Stage.PREAMBLE

    def _see(self, frame: Frame, out: list[Event]) -> None:
        if frame.data == "[DONE]":
            return
        body = orjson.loads(frame.data)
        match _object(body).get("type"):
            case "content_block_delta":
                self._take_delta(body, out)
            case "content_block_start":
                self._start_block(body, out)
            case "content_block_stop":
                self._stop_block(_index(body), out)
            case "message_start":
                self._start(body, out)
            case "message_delta":
                self._take_end(body)
            case "message_stop":
                self._finish(out)
            case "error":
                raise read_error(body, self._stage)
            case _:
                pass

    def _start(self, body: dict[str, Any], out: list[Event]) -> None:
        if self._state != "idle":
            raise ValueError("second message_start")
        self._state = "open"
        message = _object(body.get("message") or {})
        self._take_usage(message.get("usage"))
        out.append(ResponseStart(_text(message.get("id")), _extras(message, _MESSAGE)))

    def _start_block(self, body: dict[str, Any], out: list[Event]) -> None:
        index, fields = _index(body), _object(body.get("content_block"))
        if self._state != "open" or index in self._blocks:
            raise ValueError("a block in the wrong place")
        kind = _KINDS.get(_text(fields.get("type")))
        block = self._blocks[index] = _Block(kind)
        if kind is PartKind.TOOL_CALL:
            self._called = self._spoke = True
            block.given = _json_text(fields.get("input"))
            call, name = _text(fields.get("id")), _text(fields.get("name"))
            if not call or not name:
                raise ValueError("a tool call without id or name")
            self._lanes.start(index, PartStart(kind, call, name), out)
        elif kind is PartKind.TEXT:
            self._speak(index, block, _text(fields.get("text")), out)
        elif kind is PartKind.REASONING:
            block.signature = _text(fields.get("signature"))
            self._speak(index, block, _text(fields.get("thinking")), out)

    def _take_delta(self, body: dict[str, Any], out: list[Event]) -> None:
        index, delta = _index(body), _object(body.get("delta"))
        name = delta.get("type")
        if name == "signature_delta" and index in self._blocks:
            self._blocks[index].signature += _text(delta.get("signature"))
        known = _DELTAS.get(name) if isinstance(name, str) else None
        if known is None:
            return
        kind, field = known
        block = self._blocks.get(index)
        if block is None:
            if self._state != "open" or kind is PartKind.TOOL_CALL:
                raise ValueError("a delta without its block")
            block = self._blocks[index] = _Block(kind)
        if block.kind is None:
            return
        if block.kind is not kind:
            raise ValueError("a delta of another kind than its block")
        text = _text(delta.get(field))
        if kind is PartKind.TOOL_CALL:
            block.pieces.append(text)
        self._speak(index, block, text, out)

    def _speak(self, index: int, block: _Block, text: str, out: list[Event]) -> None:
        """A part of text or thinking starts with its first words: an empty one never shows."""
        if not text:
            return
        self._spoke = True
        if not block.started and block.kind is not None:
            block.started = True
            self._lanes.start(index, PartStart(block.kind), out)
        self._lanes.delta(index, text, out)

    def _stop_block(self, index: int, out: list[Event]) -> None:
        block = self._blocks.pop(index, None)
        if block is None or not block.started:
            return
        if block.kind is PartKind.TOOL_CALL:
            self._check_input(index, block, out)
        self._lanes.end(index, block.signature, out)

    def _check_input(self, index: int, block: _Block, out: list[Event]) -> None:
        text = "".join(block.pieces)
        if not text:
            text = block.given
            self._lanes.delta(index, text, out)
        try:
            whole = isinstance(orjson.loads(text or "{}"), dict)
        except orjson.JSONDecodeError:
            whole = False
        if not whole:
            raise Fault(Reason.BROKEN_TOOL_CALL, self._stage)

    def _take_end(self, body: dict[str, Any]) -> None:
        self._take_usage(body.get("usage"))
        self._late = _extras(body, _END)
        delta = _object(body.get("delta") or {})
        raw = _text(delta.get("stop_reason"))
        matched = _text(delta.get("stop_sequence")) or None
        self._reason = FinishReason(UNIFIED.get(raw, Unified.STOP), raw, matched)

    def _take_usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        for name in _COUNTERS:
            count = usage.get(name)
            if isinstance(count, int):
                self._counts[name] = max(0, count)
        details = usage.get("output_tokens_details")
        if isinstance(details, dict) and isinstance(details.get("thinking_tokens"), int):
            self._reasoning = max(0, details["thinking_tokens"])

    def _finish(self, out: list[Event]) -> None:
        if self._state != "open":
            raise ValueError("message_stop before message_start")
        for index in list(self._blocks):
            self._stop_block(index, out)
        counts = self._counts.get
        output = counts("output_tokens")
        reasoning = self._reasoning if output is None or self._reasoning is None else min(self._reasoning, output)
        usage = Usage(
            counts("input_tokens"),
            output,
            counts("cache_read_input_tokens"),
            counts("cache_creation_input_tokens"),
            reasoning,
        )
        self._state = "done"
        out.append(Finish(_settle(self._reason, self._called), usage, self._late))


def _settle(reason: FinishReason, called: bool) -> FinishReason:
    """A turn with a call waits for its result, whatever the upstream's word; one without cannot."""
    if called and reason.unified in (Unified.STOP, Unified.STOP_SEQUENCE, Unified.PAUSE):
        return FinishReason(Unified.TOOL_CALLS, reason.raw)
    if not called and reason.unified is Unified.TOOL_CALLS:
        return FinishReason(Unified.STOP, reason.raw)
    return reason


def _extras(body: Mapping[str, Any], known: Collection[str]) -> Extras:
    return extras("messages", {name: value for name, value in body.items() if name not in known and value is not None})


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError("not a string")
    return value


def _json_text(value: object) -> str:
    """JSON text of an input that came whole, "" for none."""
    try:
        return orjson.dumps(value).decode() if value else ""
    except TypeError:
        raise ValueError("nested too deeply") from None


def _index(body: dict[str, Any]) -> int:
    index = body.get("index", 0)
    if not isinstance(index, int):
        raise ValueError("not an index")
    return index
