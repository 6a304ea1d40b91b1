"""``ir.Request`` → the body that a Chat upstream is asked with.

Minimal on purpose: a field stands there only when the caller gave it, since every vendor refuses others. What Chat
cannot say is left out or moved: text after a call goes before it, images of a tool result follow in the user message
(tool messages carry text only), signatures and ``is_error`` have no place. More than four stop sequences are not sent
at all; the pipeline watches for all of them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.contracts import JsonObject
from gateway.protocols.chat.decode import MAX_STOPS
from gateway.protocols.openai.options import encode_effort, encode_format
from gateway.wire.json import dump
from ir.request import (
    Content,
    Image,
    Message,
    OutputFormat,
    Reasoning,
    Request,
    Text,
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
    body: JsonObject = {"model": model, "messages": _messages(request)}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        _put(body, "tool_choice", _choice(request.tool_choice))
        _put(body, "parallel_tool_calls", request.parallel_tool_calls)
    _put(body, "max_completion_tokens", request.max_output_tokens)
    _put(body, "stop", list(request.stop) if 0 < len(request.stop) <= MAX_STOPS else None)
    _put(body, "temperature", request.temperature)
    _put(body, "top_p", request.top_p)
    _put(body, "reasoning_effort", encode_effort(request.thinking))
    _put(body, "response_format", _format(request.output_format))
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body


def _format(form: OutputFormat | None) -> JsonObject | None:
    if form is None or form.schema is None:
        return None if form is None else encode_format(form)
    schema = encode_format(form)
    return {"type": schema.pop("type"), "json_schema": schema}


def _put(body: JsonObject, name: str, value: object) -> None:
    if value is not None:
        body[name] = value


def _messages(request: Request) -> list[JsonObject]:
    messages: list[JsonObject] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        messages.extend(_user(message) if message.role == "user" else _assistant(message))
    return messages


def _user(message: Message) -> list[JsonObject]:
    """Each result is a tool message right behind its call; the rest follows as one user message."""
    messages: list[JsonObject] = []
    moved: list[Image] = []
    for part in message.content:
        if isinstance(part, ToolResult):
            content, images = _result(part)
            messages.append({"role": "tool", "tool_call_id": part.call_id, "content": content})
            moved.extend(images)
    rest = [*moved, *(part for part in message.content if isinstance(part, Text | Image))]
    if rest:
        messages.append({"role": "user", "content": _content(rest)})
    return messages


def _result(result: ToolResult) -> tuple[Any, list[Image]]:
    if isinstance(result.content, str):
        return result.content, []
    texts = [{"type": "text", "text": item.text} for item in result.content if isinstance(item, Text)]
    return texts or "", [item for item in result.content if isinstance(item, Image)]


def _content(parts: Sequence[Text | Image]) -> Any:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_part(part) for part in parts]


def _part(part: Text | Image) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.encoded}"}}


def _assistant(message: Message) -> list[JsonObject]:
    """One message a stretch of thinking and text, the calls on the last: Chat has one place for each."""
    stretches = _stretches([part for part in message.content if not isinstance(part, ToolCall)])
    calls = [part for part in message.content if isinstance(part, ToolCall)]
    messages = [_stretch(thinking, texts) for thinking, texts in stretches]
    if calls:
        messages[-1]["tool_calls"] = [_call(call) for call in calls]
    elif messages == [_stretch([], [])]:
        return []
    return messages


def _stretches(parts: Sequence[Content]) -> list[tuple[list[str], list[Text]]]:
    """Thinking after text begins a new stretch. Redacted thinking means nothing to another vendor: dropped."""
    thinking: list[str] = []
    texts: list[Text] = []
    stretches = [(thinking, texts)]
    for part in parts:
        if isinstance(part, Text):
            texts.append(part)
        elif isinstance(part, Reasoning) and part.text:
            if texts:
                thinking, texts = [], []
                stretches.append((thinking, texts))
            thinking.append(part.text)
    return stretches


def _stretch(thinking: Sequence[str], texts: Sequence[Text]) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": _content(texts) if texts else None}
    if thinking:
        message["reasoning_content"] = "\n\n".join(thinking)
    return message


def _call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _tool(tool: Tool) -> JsonObject:
    function: JsonObject = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.schema
    _put(function, "strict", tool.strict)
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> Any:
    match choice.mode:
        case ToolMode.AUTO:
            return None  # what a vendor does by itself
        case ToolMode.NAMED:
            return _named(choice.names[0])
        case ToolMode.ALLOWED:
            mode = "required" if choice.forced else "auto"
            return {
                "type": "allowed_tools",
                "allowed_tools": {"mode": mode, "tools": [_named(name) for name in choice.names]},
            }
        case _:
            return choice.mode.value


def _named(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name}}
