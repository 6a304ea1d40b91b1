"""The ``messages`` of a Chat request → system text and history in normal form.

One pass over the list; each role has one function. Pairing of calls and results is not this file's business: the
parts are handed to ``ir.history`` with the path that each message had. Source: OpenAI's Chat Completions reference,
and what clients echo back (``refusal: null``, ``annotations: []``, ``audio: null``, ``function_call: null``).

The legacy form has no call ids: a ``function_call`` gets one by its position, and a ``function`` message answers the
oldest open call of its name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from gateway.protocols.openai.functions import check_arguments
from ir.errors import ApiError, invalid
from ir.history import check_pairs, merge
from ir.images import parse_data_url
from ir.request import Content, Image, Message, Reasoning, Text, ToolCall, ToolResult

TEXT_ONLY = ("text",)
WITH_IMAGES = ("text", "image_url")
FROM_ASSISTANT = ("text", "refusal")


class Conversation(Struct, frozen=True):
    system: str
    messages: tuple[Message, ...]


def decode_messages(value: object) -> Conversation:
    """Raises a 400 that names the field; ``missing_messages`` when there is nothing to answer."""
    history = _History()
    for index, item in enumerate(fields.array([] if value is None else value, "messages")):
        path = f"messages[{index}]"
        history.add(fields.mapping(item, path), path)
    if not history.messages:
        raise invalid("missing_messages", "messages: at least one user or assistant message is needed", "messages")
    messages, paths = merge(history.messages, history.paths)
    check_pairs(messages, paths)
    return Conversation("\n\n".join(history.system), messages)


class _History:
    """What was read so far. ``open_functions`` holds the legacy calls without an answer: (name, our id)."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self.paths: list[str] = []
        self.open_functions: list[tuple[str, str]] = []

    def add(self, message: JsonObject, path: str) -> None:
        match message.get("role"):
            case "system" | "developer":
                parts = _parts(message.get("content"), f"{path}.content", TEXT_ONLY)
                self.system.extend(part.text for part in parts if isinstance(part, Text))
            case "user":
                self._keep("user", _parts(message.get("content"), f"{path}.content", WITH_IMAGES), path)
            case "assistant":
                self._keep("assistant", self._assistant(message, path), path)
            case "tool":
                self._keep("user", (_tool_result(message, path),), path)
            case "function":
                self._keep("user", (self._function_result(message, path),), path)
            case _:
                raise invalid(
                    "invalid_role",
                    f"{path}.role: must be system, developer, user, assistant, tool or function",
                    f"{path}.role",
                )

    def _keep(self, role: Literal["user", "assistant"], content: tuple[Content, ...], path: str) -> None:
        if content:  # a message of nothing but empty text says nothing
            self.messages.append(Message(role, content))
            self.paths.append(path)

    def _assistant(self, message: JsonObject, path: str) -> tuple[Content, ...]:
        if message.get("audio") is not None:
            raise _unsupported(f"{path}.audio", "audio is not supported")
        parts: list[Content] = []
        thinking = _reasoning(message, path)
        if thinking:
            parts.append(Reasoning(thinking))
        if message.get("content") is not None:
            parts.extend(_parts(message["content"], f"{path}.content", FROM_ASSISTANT))
        if message.get("refusal"):
            parts.append(Text(fields.text(message["refusal"], f"{path}.refusal")))
        parts.extend(_tool_calls(message.get("tool_calls"), f"{path}.tool_calls"))
        if message.get("function_call") is not None:
            parts.append(self._function_call(message["function_call"], f"{path}.function_call"))
        return tuple(parts)

    def _function_call(self, value: object, path: str) -> ToolCall:
        name, arguments = _named_arguments(value, path)
        call = ToolCall(f"call_legacy_{len(self.messages)}", name, arguments)
        self.open_functions.append((name, call.id))
        return call

    def _function_result(self, message: JsonObject, path: str) -> ToolResult:
        name = fields.text(message.get("name"), f"{path}.name")
        for position, (called, call_id) in enumerate(self.open_functions):
            if called == name:
                del self.open_functions[position]
                return ToolResult(call_id, _result_content(message.get("content"), f"{path}.content"))
        raise invalid("orphan_tool_result", f"{path}: no earlier function call has this name", path)


def _parts(value: object, path: str, allowed: Collection[str]) -> tuple[Text | Image, ...]:
    """Content as parts, without empty texts. ``allowed`` are the part types of the message's role."""
    if isinstance(value, str):
        return (Text(value),) if value else ()
    found: list[Text | Image] = []
    for index, item in enumerate(fields.array(value, path, "a string or a list of parts")):
        where = f"{path}[{index}]"
        part = _part(fields.mapping(item, where), where, allowed)
        if isinstance(part, Image) or part.text:
            found.append(part)
    return tuple(found)


def _part(part: JsonObject, path: str, allowed: Collection[str]) -> Text | Image:
    kind = fields.text(part.get("type"), f"{path}.type")
    if kind not in allowed:
        raise _unsupported(f"{path}.type", f"only {' and '.join(allowed)} parts are accepted here")
    if kind == "image_url":
        source = fields.mapping(part.get("image_url"), f"{path}.image_url")
        return parse_data_url(fields.text(source.get("url"), f"{path}.image_url.url"), f"{path}.image_url.url")
    return Text(fields.text(part.get(kind), f"{path}.{kind}"))


def _unsupported(path: str, why: str) -> ApiError:
    return invalid("unsupported_content_type", f"{path}: {why}", path)


def _reasoning(message: JsonObject, path: str) -> str:
    """Thinking that a client sent back: ``reasoning_content``, or ``reasoning`` where that is a text."""
    thinking = message.get("reasoning_content")
    if thinking is not None:
        return fields.text(thinking, f"{path}.reasoning_content")
    other = message.get("reasoning")
    return other if isinstance(other, str) else ""


def _tool_calls(value: object, path: str) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for index, item in enumerate(fields.array([] if value is None else value, path)):
        where = f"{path}[{index}]"
        call = fields.mapping(item, where)
        if call.get("type") not in (None, "", "function"):
            raise invalid("unsupported_tool_type", f"{where}.type: only function calls are supported", f"{where}.type")
        name, arguments = _named_arguments(call.get("function"), f"{where}.function")
        calls.append(ToolCall(fields.identifier(call.get("id"), f"{where}.id"), name, arguments))
    return calls


def _named_arguments(value: object, path: str) -> tuple[str, str]:
    function = fields.mapping(value, path)
    name = fields.identifier(function.get("name"), f"{path}.name")
    arguments = function.get("arguments")
    text = fields.text("" if arguments is None else arguments, f"{path}.arguments")
    return name, check_arguments(text, f"{path}.arguments")


def _tool_result(message: JsonObject, path: str) -> ToolResult:
    call_id = fields.identifier(message.get("tool_call_id"), f"{path}.tool_call_id")
    return ToolResult(call_id, _result_content(message.get("content"), f"{path}.content"))


def _result_content(value: object, path: str) -> str | tuple[Text | Image, ...]:
    """A string stays a string. Images are accepted, since clients that look at files send them here."""
    if value is None or isinstance(value, str):
        return value or ""
    return _parts(value, path, WITH_IMAGES)
