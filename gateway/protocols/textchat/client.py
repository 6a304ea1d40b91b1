"""The public text chat shape: messages of text parts in, an AI-SDK UI stream out. Pure.

``POST …/api/chat`` with ``{"context": [], "model", "id", "trigger": "submit-message", "messages": [{"role", "parts":
[{"type": "text", "text"}]}]}``. The answer is ``text/event-stream`` with ``data:`` lines alone, JSON told apart by
``type``: ``text-delta`` and ``reasoning-delta`` hold a ``delta``, ``error`` an ``errorText``, ``finish`` may hold
``messageMetadata.usage``; then ``[DONE]`` or the end. Types that nobody knows are passed over.

There are no tools, images or parameters on this wire: the first go by the text bridge, the second are refused before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.wire.sse import Reader
from ir.errors import Fault, Reason, Stage
from ir.events import FinishReason, PartKind, Unified
from ir.usage import Usage

PATH = "/api/chat"
LONGEST_WAIT = 86_400

Piece = tuple[PartKind, str]

_KINDS = {"text-delta": PartKind.TEXT, "reasoning-delta": PartKind.REASONING}
_REASONS = {"length": Unified.LENGTH, "content-filter": Unified.CONTENT_FILTER}
BY_STATUS: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH_REVOKED,
    402: Reason.PAYMENT,
    403: Reason.FORBIDDEN,
    404: Reason.MODEL_GATED,
    407: Reason.EGRESS,
    408: Reason.TIMEOUT,
    413: Reason.TOO_LARGE,
    422: Reason.BAD_REQUEST,
    429: Reason.RATE_LIMIT,
    503: Reason.CAPACITY,
    504: Reason.TIMEOUT,
    529: Reason.CAPACITY,
}


def encode_request(model: str, system: str, messages: Sequence[tuple[str, str]], chat_id: str) -> bytes:
    """``messages`` are pairs of role and text; ``chat_id`` is 16 hex digits, new for each attempt."""
    said = [("system", system), *messages] if system else messages
    return orjson.dumps(
        {
            "context": [],
            "model": model,
            "id": chat_id,
            "trigger": "submit-message",
            "messages": [{"role": role, "parts": [{"type": "text", "text": text}]} for role, text in said],
        }
    )


class TextStream:
    """One answer. ``reason`` is set at its regular end, which is a ``finish`` or ``[DONE]``; ``usage`` is what it told.

    ``signs`` counts the deltas. ``fault`` is to be raised once the pieces that came with it are used.
    """

    def __init__(self) -> None:
        self.reason: FinishReason | None = None
        self.usage = Usage()
        self.signs = 0
        self.fault: Fault | None = None
        self._reader = Reader()
        self._ended = False

    @property
    def stage(self) -> Stage:
        return Stage.CONTENT if self.signs else Stage.PREAMBLE

    @property
    def ended(self) -> bool:
        """Nothing more is to come."""
        return self._ended

    def feed(self, data: bytes) -> list[Piece]:
        """Raises ``Fault`` for an error event and for what is no event, unless pieces came with it: then it is in
        ``fault``."""
        try:
            frames = self._reader.feed(data)
        except ValueError:
            raise Fault(Reason.PROTOCOL, self.stage) from None
        pieces: list[Piece] = []
        try:
            for frame in frames:
                if self._ended:
                    break
                if frame.data == "[DONE]":
                    self._ended = True
                    self.reason = self.reason or FinishReason(Unified.STOP)
                else:
                    self._event(self._parse(frame.data), pieces)
        except Fault as fault:
            if not pieces:
                raise
            self.fault = fault
        return pieces

    def close(self) -> FinishReason:
        """The connection ended. Raises ``Fault`` CUT unless the answer was whole."""
        self._ended = True
        if self.reason is None:
            raise Fault(Reason.CUT, self.stage)
        return self.reason

    def _parse(self, data: str) -> Mapping[str, Any]:
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict):
            raise Fault(Reason.PROTOCOL, self.stage)
        return event

    def _event(self, event: Mapping[str, Any], pieces: list[Piece]) -> None:
        kind = event.get("type")
        if kind in _KINDS:
            delta = event.get("delta")
            if not isinstance(delta, str):
                raise Fault(Reason.PROTOCOL, self.stage)
            if delta:
                self.signs += 1
                pieces.append((_KINDS[kind], delta))
        elif kind in ("error", "abort"):
            raise Fault(Reason.TRANSIENT if kind == "error" else Reason.CUT, self.stage, upstream_code=kind)
        elif kind == "finish":
            raw = event.get("finishReason")
            raw = raw if isinstance(raw, str) and len(raw) <= 32 else ""
            self.reason = FinishReason(_REASONS.get(raw, Unified.STOP), raw)
            metadata = event.get("messageMetadata")
            self.usage = _usage(metadata.get("usage") if isinstance(metadata, dict) else None)


def classify(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault of an answer that is no stream. A page comes from what stands in front of the server: it is the way
    that is at fault, never the account. ``headers`` has lower-case names."""
    text = headers.get("retry-after", "")
    wait = float(text) if text.isdecimal() and len(text) < 8 and int(text) < LONGEST_WAIT else None
    if "text/html" in headers.get("content-type", "") or body.lstrip()[:1] == b"<":
        return Fault(Reason.EGRESS, Stage.HEADERS, retry_after=wait, upstream_code=f"http_{status}_html")
    reason = BY_STATUS.get(status, Reason.TRANSIENT if status >= 500 else Reason.PROTOCOL)
    return Fault(reason, Stage.HEADERS, retry_after=wait, upstream_code=f"http_{status}")


def _usage(value: object) -> Usage:
    counts = value if isinstance(value, dict) else {}
    sent, said = (counts.get(name) for name in ("inputTokens", "outputTokens"))
    if not isinstance(sent, int) or not isinstance(said, int) or sent < 0 or said <= 0:
        return Usage()
    return Usage(input_uncached=sent, output=said)
