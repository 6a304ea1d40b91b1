"""The stream of a Chat upstream → events.

A turn has ended well only when a choice named a ``finish_reason``; ``[DONE]`` or the end of the connection without
one is a cut. Usage comes on the chunk of the finish or on one after it, so ``Finish`` waits for ``[DONE]`` or the end.
An error frame and anything that is not a chunk are faults: half an answer is never passed off as a whole one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.contracts import JsonObject
from gateway.protocols.chat.assembly import Assembly
from gateway.protocols.openai.classify import fault_of
from gateway.protocols.openai.counts import read_count, split_counts
from gateway.protocols.openai.fields import text_or_empty
from gateway.wire.sse import Reader
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartKind, ResponseStart, Unified
from ir.extras import NO_EXTRAS, Extras, extras, join
from ir.usage import Usage

REASONS: Mapping[str, Unified] = {
    "stop": Unified.STOP,
    "length": Unified.LENGTH,
    "tool_calls": Unified.TOOL_CALLS,
    "function_call": Unified.TOOL_CALLS,
    "content_filter": Unified.CONTENT_FILTER,
}
KNOWN = frozenset({"id", "object", "created", "model", "choices", "usage", "error"})


class Stream:
    """One answer, fed as it comes off the wire. See ``gateway.contracts.ClientStream``."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._assembly = Assembly()
        self._stage = Stage.PREAMBLE
        self._id = ""
        self._finish_reason = ""
        self._usage = Usage()
        self._start = self._late = NO_EXTRAS
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
            if frame.data == "[DONE]":
                self._end(out)
            else:
                self._chunk(self._parse(frame.data), out)

    def close(self) -> Sequence[Event]:
        """The connection ended. Raises ``Fault`` (CUT) unless the answer is whole."""
        if self.fault is not None:
            raise self.fault
        out: list[Event] = []
        if not self._done:
            self._end(out)
        return out

    def _parse(self, data: str) -> JsonObject:
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            chunk = None
        if not isinstance(chunk, dict):
            raise Fault(Reason.PROTOCOL, self._stage)
        return chunk

    def _chunk(self, chunk: JsonObject, out: list[Event]) -> None:
        if chunk.get("error"):
            raise fault_of(chunk["error"], self._stage)
        usage = chunk.get("usage")
        choices = chunk.get("choices")
        if choices is None and isinstance(usage, dict):
            choices = []
        if not isinstance(choices, list):
            raise Fault(Reason.PROTOCOL, self._stage)
        found = NO_EXTRAS if chunk.keys() <= KNOWN else _extras(chunk)
        if self._stage is Stage.PREAMBLE:
            self._id = text_or_empty(chunk.get("id"))
            self._start = found
            out.append(ResponseStart(self._id, found))
            self._stage = Stage.CONTENT
        elif found is not NO_EXTRAS and found != self._start:
            self._late = join(self._late, found)
        if isinstance(usage, dict):
            self._usage = decode_usage(usage)
        for choice in choices:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                self._choice(choice, out)

    def _choice(self, choice: JsonObject, out: list[Event]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta, out)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish_reason = reason

    def _delta(self, delta: JsonObject, out: list[Event]) -> None:
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thinking, str) and thinking:
            self._assembly.write(PartKind.REASONING, thinking, out)
        text = delta.get("content") or delta.get("refusal")
        if text:
            if not isinstance(text, str):
                raise Fault(Reason.PROTOCOL, self._stage)
            self._assembly.write(PartKind.TEXT, text, out)
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise Fault(Reason.PROTOCOL, self._stage)
        for call in calls:
            self._assembly.write_call(call, self._id, out)

    def _end(self, out: list[Event]) -> None:
        raw = self._finish_reason
        if not raw:
            raise Fault(Reason.CUT, self._stage)
        if raw == "error":  # some routers say so in the finish instead of an error frame
            raise Fault(Reason.TRANSIENT, self._stage, upstream_code="finish_error")
        unified = REASONS.get(raw, Unified.STOP)
        called = self._assembly.has_calls
        if unified is Unified.TOOL_CALLS and not called:
            raise Fault(Reason.MISSING_TOOL_CALL, self._stage)
        self._assembly.finish(out)
        if called and unified is Unified.STOP:
            unified = Unified.TOOL_CALLS
        out.append(Finish(FinishReason(unified, raw), self._usage, self._late))
        self._done = True


def _extras(chunk: JsonObject) -> Extras:
    return extras("chat", {name: value for name, value in chunk.items() if name not in KNOWN and value is not None})


def decode_usage(body: Mapping[str, Any]) -> Usage:
    """Counts of the wire, clamped so that no part is larger than its whole; what is missing stays unknown."""
    prompt, output = read_count(body.get("prompt_tokens")), read_count(body.get("completion_tokens"))
    inside = body.get("prompt_tokens_details")
    inside = inside if isinstance(inside, dict) else {}
    read, write = read_count(inside.get("cached_tokens")), read_count(inside.get("cache_write_tokens"))
    detail = body.get("completion_tokens_details")
    reasoning = read_count(detail.get("reasoning_tokens")) if isinstance(detail, dict) else None
    if read is None:
        read = read_count(body.get("prompt_cache_hit_tokens"))  # DeepSeek's own place for it
    return split_counts(prompt, output, read, write, reasoning)
