"""``messages`` of a Messages request: content blocks, and the order that tool results must keep.

Claude Code puts ``role: "system"`` messages between the others; their texts join the system prompt. What only
Anthropic can read inside a *tool result* becomes a short note instead of an error: it comes from a tool, it would
come again with every later turn, and a refusal would lock the conversation for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from gateway.protocols.messages.caching import control_of, locate
from gateway.protocols.messages.fields import refuse, take_flag, take_list, take_name, take_object, take_text
from gateway.protocols.messages.order import Turn, check_order
from gateway.wire.json import dump
from ir.history import merge
from ir.images import MEDIA_TYPES, inline
from ir.request import Breakpoint, Content, Image, Message, Reasoning, Text, ToolCall, ToolResult


class History(Struct, frozen=True):
    """Messages in normal form, the texts of system messages in order, names of what was dropped, cache breakpoints."""

    messages: tuple[Message, ...]
    system: tuple[str, ...]
    ignored: tuple[str, ...]
    breakpoints: tuple[Breakpoint, ...] = ()


def decode_messages(value: object) -> History:
    """Raises a 400 for a bad block, a result out of its place, or when nothing is left to answer."""
    entries = [] if value is None else take_list(value, "messages")
    turns: list[Turn] = []
    system: list[str] = []
    ignored: list[str] = []
    marked: list[tuple[Content, Mapping[str, Any]]] = []
    for index, entry in enumerate(entries):
        path = f"messages.{index}"
        fields = take_object(entry, path)
        match fields.get("role"):
            case "user" | "assistant" as role:
                turns.append(
                    Turn(index, role, tuple(_decode_content(fields.get("content"), role, path, ignored, marked)))
                )
            case "system":
                system.extend(decode_texts(fields.get("content"), f"{path}.content"))
                if fields.get("output_config") is not None:
                    ignored.append("messages.output_config")
            case _:
                raise refuse(f"{path}.role", "must be user, assistant or system", "invalid_role")
    check_order(turns)
    spoken = [turn for turn in turns if turn.parts]
    if not spoken:
        raise refuse("messages", "at least one message with content is required", "missing_messages")
    messages, _ = merge([Message(turn.role, turn.parts) for turn in spoken], [""] * len(spoken))
    if messages[-1].role == "assistant":
        ignored.append("prefill")
    return History(messages, tuple(system), tuple(ignored), tuple(locate(messages, marked)))


def decode_texts(value: object, path: str) -> list[str]:
    """The texts of a system prompt: a string, or text blocks. Empty ones are dropped."""
    if isinstance(value, str):
        return [value] if value else []
    texts = []
    for index, block in enumerate(take_list(value, path)):
        where = f"{path}.{index}"
        fields = take_object(block, where)
        if fields.get("type") != "text":
            raise refuse(where, "only text blocks are supported here", "unsupported_content_type")
        texts.append(take_text(fields.get("text"), f"{where}.text"))
    return [text for text in texts if text]


def _decode_content(
    value: object,
    role: Literal["user", "assistant"],
    path: str,
    ignored: list[str],
    marked: list[tuple[Content, Mapping[str, Any]]],
) -> Sequence[Content]:
    if isinstance(value, str):
        return (Text(value),) if value else ()
    parts: list[Content] = []
    for index, block in enumerate(take_list(value, f"{path}.content")):
        where = f"{path}.content.{index}"
        fields = take_object(block, where)
        if fields.get("type") == "text":
            text = take_text(fields.get("text"), f"{where}.text")
            if not text:
                continue
            parts.append(Text(text))
        elif role == "user":
            parts.append(_decode_user_block(fields, where, ignored))
        else:
            parts.append(_decode_assistant_block(fields, where))
        control = control_of(fields)
        if control is not None:
            marked.append((parts[-1], control))
    return parts


def _decode_user_block(fields: dict[str, Any], path: str, ignored: list[str]) -> Content:
    match fields.get("type"):
        case "image":
            return _decode_image(fields, path)
        case "tool_result":
            call = take_name(fields.get("tool_use_id"), f"{path}.tool_use_id")
            failed = take_flag(fields.get("is_error"), f"{path}.is_error")
            return ToolResult(call, _decode_result(fields.get("content"), path, ignored), bool(failed))
        case _:
            raise _unsupported(fields, path)


def _decode_assistant_block(fields: dict[str, Any], path: str) -> Content:
    match fields.get("type"):
        case "tool_use":
            call = take_name(fields.get("id"), f"{path}.id")
            name = take_name(fields.get("name"), f"{path}.name")
            return ToolCall(call, name, _decode_input(fields.get("input"), f"{path}.input"))
        case "thinking":
            text = take_text(fields.get("thinking"), f"{path}.thinking")
            signature = fields.get("signature")
            return Reasoning(text, "" if signature is None else take_text(signature, f"{path}.signature"))
        case "redacted_thinking":
            return Reasoning("", take_text(fields.get("data"), f"{path}.data"), redacted=True)
        case _:
            raise _unsupported(fields, path)


def _decode_input(value: object, path: str) -> str:
    if not isinstance(value, dict):
        raise refuse(path, "must be an object", "invalid_tool_arguments")
    try:
        return dump(value).decode()
    except TypeError:  # deeper than anybody down the line could write it again
        raise refuse(path, "is nested too deeply", "invalid_tool_arguments") from None


def _decode_image(fields: dict[str, Any], path: str) -> Image:
    source = take_object(fields.get("source"), f"{path}.source")
    if source.get("type") != "base64":
        raise refuse(path, "only inline Base64 images are accepted", "unsupported_image_source")
    media_type = take_text(source.get("media_type"), f"{path}.source.media_type")
    return inline(media_type, take_text(source.get("data"), f"{path}.source.data"), path)


def _decode_result(value: object, path: str, ignored: list[str]) -> str | tuple[Text | Image, ...]:
    """A string stays a string; nothing is the empty string."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    parts: list[Text | Image] = []
    for index, block in enumerate(take_list(value, f"{path}.content")):
        where = f"{path}.content.{index}"
        part = _decode_result_block(take_object(block, where), where, ignored)
        if part != _NOTHING:
            parts.append(part)
    return tuple(parts)


_NOTHING = Text("")


def _decode_result_block(fields: dict[str, Any], path: str, ignored: list[str]) -> Text | Image:
    source = fields.get("source")
    kind = fields.get("type")
    match kind, source:
        case "text", _:
            return Text(take_text(fields.get("text"), f"{path}.text"))
        case "tool_reference", _:
            return Text(f"The tool {take_name(fields.get('tool_name'), f'{path}.tool_name')} is now available.")
        case "image", {"type": "base64", "media_type": str(media)} if media.lower() in MEDIA_TYPES:
            return _decode_image(fields, path)
        case "document", {"type": "text", "data": str(text)}:
            return Text(text)
        case _:
            name = kind if isinstance(kind, str) and kind in ("image", "document", "search_result") else "content"
            ignored.append(f"tool_result.{name}")
            return Text(f"[{name} left out: only text and images of common types can be shown here]")


def _unsupported(fields: dict[str, Any], path: str) -> Exception:
    if not isinstance(fields.get("type"), str):
        return refuse(f"{path}.type", "must be a string")
    return refuse(path, "this type of content block is not supported here", "unsupported_content_type")
