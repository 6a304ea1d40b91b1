"""Events → the bytes of a Messages answer, streamed or whole.

Strategy: a text delta is by far the most frequent event, so everything in its frame that does not change within a
part is built once when the part starts, and a delta is one JSON string between two constants. Blocks of text and
thinking open with their first delta: an empty part shows nothing and takes no index, because clients send answers
back and Anthropic's rules refuse empty blocks.

Source: Anthropic's streaming reference. Thinking is shown only when ``meta.expose_reasoning`` says so, with our own
signature: without one the clients could not send it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.contracts import ResponseMeta
from gateway.protocols.messages.errors import error_body
from gateway.wire.json import dump
from gateway.wire.sse import COMMENT, event_frame
from ir.errors import ApiError, Culprit, Kind
from ir.events import Event, Finish, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Request
from ir.response import Part, Response
from ir.usage import Usage

STOP_REASONS: Mapping[Unified, str] = {
    Unified.STOP: "end_turn",
    Unified.STOP_SEQUENCE: "stop_sequence",
    Unified.LENGTH: "max_tokens",
    Unified.CONTEXT_FULL: "model_context_window_exceeded",
    Unified.TOOL_CALLS: "tool_use",
    Unified.CONTENT_FILTER: "refusal",
    Unified.REFUSAL: "refusal",
    Unified.PAUSE: "pause_turn",
}

_PING = event_frame(b"ping", b'{"type":"ping"}')
_STOP = event_frame(b"message_stop", b'{"type":"message_stop"}')
_DELTAS = {
    PartKind.TEXT: b'"text_delta","text":',
    PartKind.REASONING: b'"thinking_delta","thinking":',
    PartKind.TOOL_CALL: b'"input_json_delta","partial_json":',
}
_TAIL = b"}}\n\n"


def encode_response(response: Response, request: Request, meta: ResponseMeta) -> bytes:
    """The whole body. Raises a 502 when a tool call's arguments are not the JSON text of an object."""
    reason = response.finish
    return dump(
        {
            **response.extras.of("messages"),
            **_envelope(meta),
            "content": [block for part in response.parts if (block := _encode_part(part, meta))],
            "stop_reason": STOP_REASONS[reason.unified],
            "stop_sequence": reason.stop_sequence,
            "usage": encode_usage(response.usage, meta),
        }
    )


def encode_usage(usage: Usage, meta: ResponseMeta) -> dict[str, int]:
    """Counts in tokens. Cache counters that nobody knows are left out: a zero would be a statement."""
    counts = {"input_tokens": meta.input_tokens if usage.input_uncached is None else usage.input_uncached}
    if usage.cache_write is not None:
        counts["cache_creation_input_tokens"] = usage.cache_write
    if usage.cache_read is not None:
        counts["cache_read_input_tokens"] = usage.cache_read
    counts["output_tokens"] = usage.output or 0
    return counts


class MessagesStream:
    """One streamed answer. A second ``ResponseStart`` (another attempt took over) gives nothing."""

    def __init__(self, meta: ResponseMeta) -> None:
        self._meta = meta
        self._started = False
        self._index = 0
        self._kind = PartKind.TEXT
        self._hidden = False
        self._fresh = False  # the part had no delta yet
        self._opening = b""  # held back until the first delta
        self._head = b""
        self._thoughts: list[str] | None = None

    def send(self, event: Event) -> bytes:
        if type(event) is PartDelta:
            if self._fresh:
                return self._begin(event.text)
            if self._hidden:
                return b""
            if self._thoughts is not None:
                self._thoughts.append(event.text)
            return self._head + dump(event.text) + _TAIL
        match event:
            case ResponseStart():
                return self._start(event)
            case PartStart():
                return self._open(event)
            case PartEnd():
                return self._close()
            case Finish():
                return self._finish(event)
            case _:
                raise TypeError(f"no event: {type(event).__name__}")

    def fail(self, error: ApiError) -> bytes:
        return event_frame(b"error", dump(error_body(error)))

    def idle(self, alive: bool) -> bytes:
        return _PING if alive and self._started else COMMENT

    def _start(self, start: ResponseStart) -> bytes:
        if self._started:
            return b""
        self._started = True
        message = {
            **start.extras.of("messages"),
            **_envelope(self._meta),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self._meta.input_tokens, "output_tokens": 0},
        }
        return event_frame(b"message_start", dump({"type": "message_start", "message": message})) + _PING

    def _open(self, part: PartStart) -> bytes:
        self._kind = part.kind
        self._hidden = part.kind is PartKind.REASONING and not self._meta.expose_reasoning
        if self._hidden:
            return b""
        self._fresh = True
        self._head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":' % (
            self._index
        )
        self._head += _DELTAS[part.kind]
        block = {"type": "content_block_start", "index": self._index, "content_block": _empty_block(part)}
        opening = event_frame(b"content_block_start", dump(block))
        if part.kind is PartKind.TOOL_CALL:
            return opening
        self._opening = opening
        self._thoughts = [] if part.kind is PartKind.REASONING else None
        return b""

    def _begin(self, text: str) -> bytes:
        opening, self._opening, self._fresh = self._opening, b"", False
        if self._thoughts is not None:
            self._thoughts.append(text)
        return opening + self._head + dump(text) + _TAIL

    def _close(self) -> bytes:
        hidden, self._hidden = self._hidden, False
        fresh, self._fresh = self._fresh, False
        thoughts, self._thoughts = self._thoughts, None
        self._opening = b""
        if hidden or (fresh and self._kind is not PartKind.TOOL_CALL):
            return b""
        last = b""
        if fresh:  # a call without arguments: clients read the input from deltas only
            last = self._head + b'"{}"' + _TAIL
        elif thoughts is not None:
            signature = {"type": "signature_delta", "signature": self._meta.sign("".join(thoughts))}
            delta = {"type": "content_block_delta", "index": self._index, "delta": signature}
            last = event_frame(b"content_block_delta", dump(delta))
        stop = event_frame(b"content_block_stop", b'{"type":"content_block_stop","index":%d}' % self._index)
        self._index += 1
        return last + stop

    def _finish(self, event: Finish) -> bytes:
        payload = {
            **event.extras.of("messages"),
            "type": "message_delta",
            "delta": {
                "stop_reason": STOP_REASONS[event.reason.unified],
                "stop_sequence": event.reason.stop_sequence,
            },
            "usage": encode_usage(event.usage, self._meta),
        }
        return event_frame(b"message_delta", dump(payload)) + _STOP


def _envelope(meta: ResponseMeta) -> dict[str, Any]:
    return {"id": f"msg_{meta.response_id}", "type": "message", "role": "assistant", "model": meta.model}


def _empty_block(part: PartStart) -> dict[str, Any]:
    match part.kind:
        case PartKind.TEXT:
            return {"type": "text", "text": ""}
        case PartKind.REASONING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case PartKind.TOOL_CALL:
            return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": {}}


def _encode_part(part: Part, meta: ResponseMeta) -> dict[str, Any] | None:
    if part.kind is PartKind.TOOL_CALL:
        return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": _encode_input(part.text)}
    if not part.text:
        return None
    if part.kind is PartKind.TEXT:
        return {"type": "text", "text": part.text}
    if not meta.expose_reasoning:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": meta.sign(part.text)}


def _encode_input(arguments: str) -> orjson.Fragment:
    """The caller gets the upstream's own JSON text: parsing it again would round large numbers."""
    text = arguments or "{}"
    try:
        whole = isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        whole = False
    if not whole:
        raise ApiError(
            Kind.UPSTREAM,
            "upstream_invalid_tool_arguments",
            "the upstream produced a tool call with broken arguments",
            culprit=Culprit.UPSTREAM,
        )
    return orjson.Fragment(text)
