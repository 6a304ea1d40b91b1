"""Answers in Chat form: one whole body, or a stream of chunks.

Every chunk of a stream differs from its neighbour in one string, so the bytes around it are made once per part and a
delta costs one string encoding and one concatenation. The role chunk waits for the first part that the caller may
see: until then nothing of the answer is on the wire and the turn may still move to another account.

Source: OpenAI's Chat Completions reference, "The chat completion object" and "The chat completion chunk object".
``reasoning_content`` is the extension that DeepSeek introduced and most clients read; it is off unless exposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.contracts import JsonObject, ResponseMeta
from gateway.protocols.openai.errors import error_body
from gateway.protocols.openai.functions import NO_ARGUMENTS
from gateway.wire import sse
from gateway.wire.json import dump
from ir.errors import ApiError
from ir.events import Event, Finish, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Request
from ir.response import Part, Response
from ir.usage import Usage

FINISH_REASONS: Mapping[Unified, str] = {
    Unified.STOP: "stop",
    Unified.STOP_SEQUENCE: "stop",
    Unified.LENGTH: "length",
    Unified.CONTEXT_FULL: "length",
    Unified.TOOL_CALLS: "tool_calls",
    Unified.CONTENT_FILTER: "content_filter",
    Unified.REFUSAL: "content_filter",
    Unified.PAUSE: "stop",
}
DONE = b"data: [DONE]\n\n"


def encode_response(response: Response, request: Request, meta: ResponseMeta) -> bytes:
    """The body of a non-streamed answer: what a client would have put together from the stream."""
    calls = response.of(PartKind.TOOL_CALL)
    text = "".join(part.text for part in response.of(PartKind.TEXT))
    message: JsonObject = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    thinking = "".join(part.text for part in response.of(PartKind.REASONING)) if meta.expose_reasoning else ""
    if thinking:
        message["reasoning_content"] = thinking
    if calls:
        message |= _calls(calls, request.legacy_functions)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _finish_reason(response.finish.unified, bool(calls), request.legacy_functions),
    }
    body = {**response.extras.of("chat"), **_envelope(meta, "chat.completion")}
    return dump({**body, "choices": [choice], "usage": encode_usage(response.usage, meta.input_tokens)})


def encode_usage(usage: Usage, estimated_input: int = 0) -> JsonObject:
    """Cached and reasoning counts stand there only when known: a zero would tell the client that nothing was cached."""
    prompt = estimated_input if usage.input_uncached is None and not usage.input_total else usage.input_total
    output = usage.output or 0
    body: JsonObject = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    cache = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    known = {name: count for name, count in cache.items() if count is not None}
    if known:
        body["prompt_tokens_details"] = known
    if usage.reasoning is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return body


def _envelope(meta: ResponseMeta, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{meta.response_id}", "object": kind, "created": meta.created, "model": meta.model}


def _calls(calls: Sequence[Part], legacy: bool) -> JsonObject:
    if legacy:  # the old form has room for one call
        return {"function_call": _function(calls[0].name, calls[0].text)}
    return {
        "tool_calls": [
            {"id": part.call_id, "type": "function", "function": _function(part.name, part.text)} for part in calls
        ]
    }


def _function(name: str, arguments: str) -> JsonObject:
    return {"name": name, "arguments": arguments or NO_ARGUMENTS}


def _finish_reason(unified: Unified, called: bool, legacy: bool) -> str:
    reason = FINISH_REASONS[unified]
    if called and reason == "stop":
        reason = "tool_calls"
    return "function_call" if legacy and reason == "tool_calls" else reason


class Stream:
    """One streamed answer. ``_before`` and ``_after`` are the bytes around the next delta; empty: not shown."""

    def __init__(self, request: Request, meta: ResponseMeta) -> None:
        self._own = _envelope(meta, "chat.completion.chunk")
        self._wrap({})
        self._end = b',"usage":null}\n\n' if request.include_usage else b"}\n\n"
        self._tail = b',"logprobs":null,"finish_reason":null}]' + self._end
        self._role = self._chunk({"role": "assistant", "content": ""})
        self._include_usage = request.include_usage
        self._legacy = request.legacy_functions
        self._expose_reasoning = meta.expose_reasoning
        self._estimated_input = meta.input_tokens
        self._calls = 0
        self._bare_call = False
        self._before = b""
        self._after = b""

    def send(self, event: Event) -> bytes:
        if type(event) is PartDelta:
            if not self._before:
                return b""
            self._bare_call = False
            return self._before + dump(event.text) + self._after
        match event:
            case PartStart():
                return self._open(event)
            case PartEnd():
                return self._close()
            case Finish():
                return self._finish(event)
            case ResponseStart(extras=extras) if extras.of("chat"):
                self._wrap(extras.of("chat"))
                self._role = self._chunk({"role": "assistant", "content": ""})
                return b""
            case _:
                return b""

    def fail(self, error: ApiError) -> bytes:
        """The error frame, and neither a finish nor ``[DONE]``: clients must not take the answer for a whole one."""
        return sse.data_frame(dump(error_body(error)))

    def idle(self, alive: bool) -> bytes:
        return sse.COMMENT

    def _open(self, start: PartStart) -> bytes:
        self._before = self._after = b""
        match start.kind:
            case PartKind.TEXT:
                self._surround(b'{"content":', b"}")
            case PartKind.REASONING:
                if not self._expose_reasoning:
                    return b""
                self._surround(b'{"reasoning_content":', b"}")
            case PartKind.TOOL_CALL:
                return self._open_call(start)
        return self._take_role()

    def _open_call(self, start: PartStart) -> bytes:
        index, self._calls = self._calls, self._calls + 1
        function = {"name": start.name, "arguments": ""}
        if self._legacy:
            if index:
                return b""
            delta: JsonObject = {"function_call": function}
            self._surround(b'{"function_call":{"arguments":', b"}}")
        else:
            delta = {"tool_calls": [{"index": index, "id": start.call_id, "type": "function", "function": function}]}
            self._surround(b'{"tool_calls":[{"index":%d,"function":{"arguments":' % index, b"}}]}")
        self._bare_call = True
        return self._take_role() + self._chunk(delta)

    def _close(self) -> bytes:
        """A call without any argument text gets an empty object: clients parse what they put together."""
        closing = self._before + dump(NO_ARGUMENTS) + self._after if self._bare_call else b""
        self._bare_call = False
        self._before = self._after = b""
        return closing

    def _finish(self, finish: Finish) -> bytes:
        reason = _finish_reason(finish.reason.unified, self._calls > 0, self._legacy)
        if finish.extras.of("chat"):
            self._wrap({**self._extras, **finish.extras.of("chat")})
        pieces = [
            self._take_role(),
            self._head,
            b'{},"logprobs":null,"finish_reason":"' + reason.encode() + b'"}]' + self._end,
        ]
        if self._include_usage:
            usage = dump(encode_usage(finish.usage, self._estimated_input))
            pieces += [self._envelope, b',"choices":[],"usage":' + usage + b"}\n\n"]
        return b"".join([*pieces, DONE])

    def _wrap(self, extras: Mapping[str, Any]) -> None:
        """What every chunk begins with."""
        self._extras = extras
        self._envelope = b"data: " + dump({**extras, **self._own})[:-1]
        self._head = self._envelope + b',"choices":[{"index":0,"delta":'

    def _surround(self, before: bytes, after: bytes) -> None:
        self._before = self._head + before
        self._after = after + self._tail

    def _take_role(self) -> bytes:
        role, self._role = self._role, b""
        return role

    def _chunk(self, delta: Mapping[str, Any]) -> bytes:
        return self._head + dump(delta) + self._tail
