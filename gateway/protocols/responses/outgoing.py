"""``ir.Request`` → the body that a Responses upstream is asked with.

Minimal on purpose: a field stands there only when the caller gave it. Nothing is kept upstream (``store`` false), so
the whole history goes along. Thinking of the history is not sent: its opaque forms are ours and mean nothing there.
What Responses cannot say is left out: stop sequences (the pipeline watches for them itself), ``is_error``, ``top_k``.
Every tool goes as a plain function, with ``strict`` said either way, because its absence means "try" here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.contracts import JsonObject
from gateway.protocols.openai.options import encode_effort, encode_format
from gateway.wire.json import dump
from ir.request import (
    Content,
    Image,
    Message,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
)


def encode_request(request: Request, model: str) -> bytes:
    """The JSON body of a streamed turn; ``model`` is the upstream's id."""
    return dump(request_body(request, model))


def request_body(request: Request, model: str) -> JsonObject:
    """The same before it is JSON."""
    body: JsonObject = {"model": model}
    _put(body, "instructions", request.system or None)
    body["input"] = [item for message in request.messages for item in _items(message)]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        _put(body, "tool_choice", _choice(request.tool_choice))
        _put(body, "parallel_tool_calls", request.parallel_tool_calls)
    _put(body, "max_output_tokens", request.max_output_tokens)
    _put(body, "temperature", request.temperature)
    _put(body, "top_p", request.top_p)
    _put(body, "reasoning", _reasoning(request.thinking))
    if request.output_format is not None:
        body["text"] = {"format": encode_format(request.output_format)}
    return {**body, "store": False, "stream": True}


def _put(body: JsonObject, name: str, value: object) -> None:
    if value is not None:
        body[name] = value


def _items(message: Message) -> list[JsonObject]:
    """Neighbouring texts and images are one message; a call or a result is an item of its own."""
    items: list[JsonObject] = []
    parts: list[JsonObject] = []
    for part in message.content:
        match part:
            case Text() | Image():
                parts.append(_part(part, message.role))
            case ToolCall() | ToolResult():
                _flush(items, parts, message.role)
                items.append(_tool_item(part))
            case _:
                pass
    _flush(items, parts, message.role)
    return items


def _flush(items: list[JsonObject], parts: list[JsonObject], role: str) -> None:
    if parts:
        items.append({"type": "message", "role": role, "content": parts.copy()})
        parts.clear()


def _part(part: Content, role: str) -> JsonObject:
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": f"data:{part.media_type};base64,{part.encoded}"}
    text = part.text if isinstance(part, Text) else ""
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}


def _tool_item(part: ToolCall | ToolResult) -> JsonObject:
    if isinstance(part, ToolCall):
        return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
    content: Any = part.content
    if not isinstance(content, str):
        content = [_part(item, "user") for item in content] or ""
    return {"type": "function_call_output", "call_id": part.call_id, "output": content}


def _tool(tool: Tool) -> JsonObject:
    function: JsonObject = {"type": "function", "name": tool.name}
    _put(function, "description", tool.description or None)
    return {**function, "parameters": tool.schema, "strict": bool(tool.strict)}


def _choice(choice: ToolChoice) -> Any:
    match choice.mode:
        case ToolMode.AUTO:
            return None  # what a vendor does by itself
        case ToolMode.NAMED:
            return _named(choice.names[0])
        case ToolMode.ALLOWED:
            mode = "required" if choice.forced else "auto"
            return {"type": "allowed_tools", "mode": mode, "tools": _named_all(choice.names)}
        case _:
            return choice.mode.value


def _named_all(names: Sequence[str]) -> list[JsonObject]:
    return [_named(name) for name in names]


def _named(name: str) -> JsonObject:
    return {"type": "function", "name": name}


def _reasoning(thinking: Thinking) -> JsonObject | None:
    options: JsonObject = {}
    _put(options, "effort", encode_effort(thinking))
    if thinking.visible:
        options["summary"] = "auto"
    return options or None
