"""Events → the bytes of a Gemini answer, streamed or whole.

Strategy: a delta is one JSON string between two constants that are built once a stream. The clients parse every line
as JSON and break on anything else, so a stream is ``data:`` lines alone: no comment, no ``event:``, no ``[DONE]``, and
silence while the model thinks. The last chunk carries the reason and the usage only.

Source: Google's streaming reference and its clients. No tool is ever offered here; a call that a model makes all the
same is dropped and the turn ends as ``UNEXPECTED_TOOL_CALL``, which is Google's word for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gateway.contracts import ResponseMeta
from gateway.protocols.gemini.errors import error_body
from gateway.wire.json import dump
from gateway.wire.sse import data_frame
from ir.errors import ApiError
from ir.events import Event, Finish, PartDelta, PartKind, PartStart, Unified
from ir.request import Request
from ir.response import Part, Response
from ir.usage import Usage

FINISH_REASONS: Mapping[Unified, str] = {
    Unified.STOP: "STOP",
    Unified.STOP_SEQUENCE: "STOP",
    Unified.LENGTH: "MAX_TOKENS",
    Unified.CONTEXT_FULL: "MAX_TOKENS",
    Unified.TOOL_CALLS: "UNEXPECTED_TOOL_CALL",
    Unified.CONTENT_FILTER: "SAFETY",
    Unified.REFUSAL: "SAFETY",
    Unified.PAUSE: "OTHER",
}

_TEXT = b'data: {"candidates":[{"content":{"parts":[{"text":'
_THOUGHT = b'data: {"candidates":[{"content":{"parts":[{"thought":true,"text":'
_NOTHING = b""
_LINE_ENDS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")


def encode_response(response: Response, request: Request, meta: ResponseMeta) -> bytes:
    """The whole body; without any part to show, the content has only its role."""
    content: dict[str, Any] = {"role": "model"}
    parts = [shown for part in response.parts if (shown := _encode_part(part, meta))]
    if parts:
        content = {"parts": parts, **content}
    reason = FINISH_REASONS[response.finish.unified]
    candidate = {"content": content, "finishReason": reason, "index": 0}
    usage = encode_usage(response.usage, meta)
    return dump({"candidates": [candidate], "usageMetadata": usage, **_origin(meta)})


def encode_usage(usage: Usage, meta: ResponseMeta) -> dict[str, int]:
    """Counts in tokens. What nobody knows is left out: a zero would be a statement."""
    prompt = meta.input_tokens if usage.input_uncached is None else usage.input_total
    output, thoughts = usage.output or 0, usage.reasoning
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": max(0, output - (thoughts or 0))}
    if thoughts is not None:
        counts["thoughtsTokenCount"] = thoughts
    if usage.cache_read is not None:
        counts["cachedContentTokenCount"] = usage.cache_read
    counts["totalTokenCount"] = prompt + output
    return counts


class GeminiStream:
    """One streamed answer."""

    def __init__(self, meta: ResponseMeta) -> None:
        self._meta = meta
        self._heads = {
            PartKind.TEXT: _TEXT,
            PartKind.REASONING: _THOUGHT if meta.expose_reasoning else _NOTHING,
            PartKind.TOOL_CALL: _NOTHING,
        }
        self._head = _NOTHING
        self._tail = b'}],"role":"model"},"index":0}],' + dump(_origin(meta))[1:] + b"\n\n"

    def send(self, event: Event) -> bytes:
        if type(event) is PartDelta:
            return self._head + _quote(event.text) + self._tail if self._head else b""
        if type(event) is PartStart:
            self._head = self._heads[event.kind]
        elif type(event) is Finish:
            return self._finish(event)
        return b""

    def fail(self, error: ApiError) -> bytes:
        return data_frame(dump(error_body(error)))

    def idle(self, alive: bool) -> bytes:
        """Nothing, ever: the clients fail on any line that is no JSON."""
        return b""

    def _finish(self, event: Finish) -> bytes:
        candidate = {"finishReason": FINISH_REASONS[event.reason.unified], "index": 0}
        usage = encode_usage(event.usage, self._meta)
        return data_frame(dump({"candidates": [candidate], "usageMetadata": usage, **_origin(self._meta)}))


def _quote(text: str) -> bytes:
    """JSON of ``text`` without Unicode's line ends, where clients on ``httpx.iter_lines`` would cut the line."""
    quoted = dump(text)
    return quoted if text.isascii() else _LINE_ENDS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), quoted)


def _origin(meta: ResponseMeta) -> dict[str, str]:
    return {"modelVersion": meta.model, "responseId": meta.response_id}


def _encode_part(part: Part, meta: ResponseMeta) -> dict[str, Any] | None:
    if not part.text or part.kind is PartKind.TOOL_CALL:
        return None
    if part.kind is PartKind.TEXT:
        return {"text": part.text}
    return {"thought": True, "text": part.text} if meta.expose_reasoning else None
