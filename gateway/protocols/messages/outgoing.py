"""``ir.Request`` → the body of an upstream Messages request: always streamed, nothing optional sent unasked.

Thinking is sent without what Anthropic forbids beside it: forced tools, temperature, top_p and top_k. Thinking of the
history is never forwarded: its signatures are ours and mean nothing upstream.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

from gateway.protocols.messages.caching import FIELD, split_system
from gateway.wire.json import dump
from ir.history import merge
from ir.request import (
    Content,
    Image,
    Message,
    Reasoning,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
)

DEFAULT_MAX_TOKENS = 4096

_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EFFORTS = {"minimal": "low", "none": None}


def encode_request(request: Request, model: str) -> bytes:
    """The JSON body; ``model`` is the upstream's id. Without a limit of the caller's ``DEFAULT_MAX_TOKENS`` is sent."""
    return dump(request_body(request, model))


def request_body(request: Request, model: str) -> dict[str, Any]:
    """The same before it is JSON."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_output_tokens or DEFAULT_MAX_TOKENS,
        "messages": _encode_messages(request),
        "stream": True,
    }
    if request.system:
        body["system"] = split_system(request.system, request.breakpoints)
    tools = _select_tools(request)
    if tools:
        controls = {
            id(request.tools[mark.index]): mark.control for mark in request.breakpoints if mark.place == "tools"
        }
        body["tools"] = [_encode_tool(tool) | _control(tool, controls) for tool in tools]
        choice = _encode_choice(request.tool_choice, request.parallel_tool_calls)
        if choice is not None:
            body["tool_choice"] = choice
    if request.stop:
        body["stop_sequences"] = request.stop
    _add_thinking(body, request)
    if request.output_format is not None:
        schema = request.output_format.schema
        schema = {"type": "object"} if schema is None else schema
        body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": schema}
    return body


def _add_thinking(body: dict[str, Any], request: Request) -> None:
    thinking = request.thinking
    effort = None if thinking.effort is None else _EFFORTS.get(thinking.effort, thinking.effort)
    if effort is not None:
        body["output_config"] = {"effort": effort}
    if thinking.enabled and not request.tool_choice.demands_call:
        body["thinking"] = _encode_thinking(thinking)
        return
    if thinking.enabled is False:
        body["thinking"] = {"type": "disabled"}
    if request.temperature is not None:
        body["temperature"] = min(request.temperature, 1.0)
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.top_k is not None:
        body["top_k"] = request.top_k


def _encode_thinking(thinking: Thinking) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": "adaptive"}
    if thinking.budget_tokens is not None:
        fields = {"type": "enabled", "budget_tokens": thinking.budget_tokens}
    if thinking.visible:
        fields["display"] = "summarized"
    return fields


def _encode_messages(request: Request) -> list[dict[str, Any]]:
    kept = []
    controls = {
        id(request.messages[mark.index].content[mark.part]): mark.control
        for mark in request.breakpoints
        if mark.place == "messages"
    }
    for message in request.messages:
        parts = tuple(part for part in message.content if not isinstance(part, Reasoning))
        if parts:
            kept.append(Message(message.role, parts))
    merged, _ = merge(kept, [""] * len(kept))
    return [
        {"role": message.role, "content": [_encode_part(part) | _control(part, controls) for part in message.content]}
        for message in merged
    ]


def _control(item: Tool | Content, controls: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The caller's cache breakpoint after this very item."""
    control = controls.get(id(item)) if controls else None
    return {} if control is None else {FIELD: control}


def _encode_part(part: Content) -> dict[str, Any]:
    match part:
        case ToolCall():
            arguments = orjson.Fragment(part.arguments or "{}")
            return {"type": "tool_use", "id": fit_id(part.id), "name": part.name, "input": arguments}
        case ToolResult():
            return _encode_result(part)
        case Text() | Image():
            return _encode_medium(part)
        case Reasoning():
            raise TypeError("thinking is never forwarded")


def _encode_medium(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source = {"type": "base64", "media_type": part.media_type, "data": part.encoded}
    return {"type": "image", "source": source}


def _encode_result(result: ToolResult) -> dict[str, Any]:
    content = result.content
    body: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": fit_id(result.call_id),
        "content": content if isinstance(content, str) else [_encode_medium(item) for item in content],
    }
    if result.is_error:
        body["is_error"] = True
    return body


def fit_id(call: str) -> str:
    """``call`` when Anthropic takes it, else a digest of it: the same id gives the same digest in every turn.

    Nothing has to be turned back: an upstream never repeats the ids of the history in its answer.
    """
    if _LEGAL_ID.fullmatch(call):
        return call
    return f"call_{hashlib.blake2b(call.encode(), digest_size=24).hexdigest()}"


def _select_tools(request: Request) -> tuple[Tool, ...]:
    if request.tool_choice.mode is not ToolMode.ALLOWED:
        return request.tools
    return tuple(tool for tool in request.tools if tool.name in request.tool_choice.names)


def _encode_tool(tool: Tool) -> dict[str, Any]:
    body: dict[str, Any] = {"name": tool.name, "input_schema": tool.schema}
    if tool.description:
        body["description"] = tool.description
    if tool.strict is not None:
        body["strict"] = tool.strict
    return body


def _encode_choice(choice: ToolChoice, parallel: bool | None) -> dict[str, Any] | None:
    """``disable_parallel_tool_use`` lives inside the choice, so it needs one; ``none`` cannot hold it."""
    if choice.mode is ToolMode.NONE:
        return {"type": "none"}
    if choice.mode is ToolMode.NAMED:
        body: dict[str, Any] = {"type": "tool", "name": choice.names[0]}
    elif choice.demands_call:
        body = {"type": "any"}
    elif parallel is None:
        return None
    else:
        body = {"type": "auto"}
    if parallel is not None:
        body["disable_parallel_tool_use"] = not parallel
    return body
