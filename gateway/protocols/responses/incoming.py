"""The stream of a Responses upstream → events.

Items are told apart by ``output_index`` and may interleave; ``ir.lanes`` holds back those that are not first. Vendors
that imitate the protocol leave events out, so each is optional: deltas that never came are taken from the ``done``
events, those from ``output_item.done``, and items that never came from the final response. What came as deltas counts:
a later event only adds what is missing at the end. A turn has ended well only with ``response.completed`` or
``response.incomplete``; the end of the connection before it is a cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.contracts import JsonObject
from gateway.protocols.openai.classify import fault_of
from gateway.protocols.openai.counts import read_count, split_counts
from gateway.protocols.openai.fields import text_or_empty
from gateway.protocols.responses.assembly import Assembly
from gateway.wire.sse import Frame, Reader
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartKind, ResponseStart, Unified
from ir.extras import Extras, extras
from ir.usage import Usage

DELTAS: Mapping[str, PartKind] = {
    "response.output_text.delta": PartKind.TEXT,
    "response.refusal.delta": PartKind.TEXT,
    "response.reasoning_summary_text.delta": PartKind.REASONING,
    "response.reasoning_text.delta": PartKind.REASONING,
}
WHOLES: Mapping[str, tuple[PartKind, str]] = {
    "response.output_text.done": (PartKind.TEXT, "text"),
    "response.refusal.done": (PartKind.TEXT, "refusal"),
    "response.reasoning_summary_text.done": (PartKind.REASONING, "text"),
    "response.reasoning_text.done": (PartKind.REASONING, "text"),
    "response.function_call_arguments.done": (PartKind.TOOL_CALL, "arguments"),
}
"""Events that repeat what the deltas before them said, and the field that does."""

STARTS = ("response.created", "response.in_progress", "response.queued")
ENDS = ("response.completed", "response.incomplete", "response.done")


KNOWN = frozenset(
    {
        "background", "completed_at", "conversation", "created_at", "error", "id", "incomplete_details", "instructions",
        "max_output_tokens", "metadata", "model", "object", "output", "parallel_tool_calls", "previous_response_id",
        "prompt_cache_key", "reasoning", "safety_identifier", "status", "store", "temperature", "text", "tool_choice",
        "tools", "top_p", "truncation", "usage", "user",
    }
)  # fmt: skip
"""Fields of a response that are the gateway's own to say, or the request's."""


class Stream:
    """One answer, fed as it comes off the wire. See ``gateway.contracts.ClientStream``."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._assembly = Assembly()
        self._stage = Stage.PREAMBLE
        self._done = False
        self.fault: Fault | None = None

    def feed(self, data: bytes) -> Sequence[Event]:
        if self.fault is not None:
            raise self.fault
        out: list[Event] = []
        try:
            self._read(data, out)
        except Fault as fault:
            if not out:
                raise
            self.fault = fault
        return out

    def _read(self, data: bytes, out: list[Event]) -> None:
        try:
            frames = self._reader.feed(data)
        except ValueError:
            raise Fault(Reason.PROTOCOL, self._stage) from None
        for frame in frames:
            if self._done:
                break
            if frame.data != "[DONE]":  # some add it, it says nothing
                self._event(self._parse(frame), out)

    def close(self) -> Sequence[Event]:
        """The connection ended. Raises ``Fault`` (CUT) unless the answer is whole."""
        if self.fault is not None:
            raise self.fault
        if not self._done:
            raise Fault(Reason.CUT, self._stage)
        return []

    def _parse(self, frame: Frame) -> JsonObject:
        try:
            event = orjson.loads(frame.data)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict):
            raise Fault(Reason.PROTOCOL, self._stage)
        if not isinstance(event.get("type"), str):
            event["type"] = frame.event
        return event

    def _event(self, event: JsonObject, out: list[Event]) -> None:
        kind = event["type"]
        if kind in DELTAS:
            self._begin(event, out)
            self._assembly.write(event, DELTAS[kind], out)
        elif kind == "response.function_call_arguments.delta":
            self._begin(event, out)
            self._assembly.write_arguments(event, out)
        elif kind in WHOLES:
            self._begin(event, out)
            self._assembly.fill(event, *WHOLES[kind], out)
        elif kind == "response.output_item.added":
            self._begin(event, out)
            self._assembly.add(event, out)
        elif kind == "response.output_item.done":
            self._begin(event, out)
            self._assembly.end(event, out)
        elif kind in STARTS:
            self._begin(event, out)
        elif kind in ENDS:
            self._begin(event, out)
            self._end(event, out)
        elif kind in ("response.failed", "error") or event.get("error"):
            raise self._fault(event)

    def _begin(self, event: JsonObject, out: list[Event]) -> None:
        if self._stage is Stage.PREAMBLE:
            self._stage = Stage.CONTENT
            response = event.get("response")
            name = text_or_empty(response.get("id")) if isinstance(response, dict) else ""
            self._assembly.response_id = name
            out.append(ResponseStart(name))

    def _fault(self, event: JsonObject) -> Fault:
        response = event.get("response")
        error = response.get("error") if isinstance(response, dict) else event.get("error")
        return fault_of(error or event, self._stage)

    def _end(self, event: JsonObject, out: list[Event]) -> None:
        response = event.get("response")
        response = response if isinstance(response, dict) else {}
        status = response.get("status")
        if status in ("failed", "cancelled"):
            raise self._fault(event)
        self._assembly.finish(response.get("output"), out)
        usage = response.get("usage")
        reason = self._reason(event["type"] == "response.incomplete" or status == "incomplete", response)
        counts = decode_usage(usage) if isinstance(usage, dict) else Usage()
        out.append(Finish(reason, counts, _extras(response)))
        self._done = True

    def _reason(self, incomplete: bool, response: JsonObject) -> FinishReason:
        if not incomplete:
            called = self._assembly.has_calls
            return FinishReason(Unified.TOOL_CALLS if called else Unified.STOP, "completed")
        details = response.get("incomplete_details")
        raw = text_or_empty(details.get("reason")) if isinstance(details, dict) else ""
        unified = Unified.CONTENT_FILTER if raw == "content_filter" else Unified.LENGTH
        return FinishReason(unified, raw or "incomplete")


def _extras(response: JsonObject) -> Extras:
    fields = {name: value for name, value in response.items() if name not in KNOWN and value is not None}
    return extras("responses", fields)


def decode_usage(body: Mapping[str, Any]) -> Usage:
    """Counts of the wire; what is missing stays unknown."""
    inside, detail = body.get("input_tokens_details"), body.get("output_tokens_details")
    inside = inside if isinstance(inside, dict) else {}
    return split_counts(
        read_count(body.get("input_tokens")),
        read_count(body.get("output_tokens")),
        read_count(inside.get("cached_tokens")),
        read_count(inside.get("cache_write_tokens")),
        read_count(detail.get("reasoning_tokens")) if isinstance(detail, dict) else None,
    )
