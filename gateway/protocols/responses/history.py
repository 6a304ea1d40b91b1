"""The ``input`` of a Responses request → system text and history in normal form.

The input is a flat list of items; each type has one function, and neighbours of one role are merged afterwards by
``ir.history``, which also checks that calls and results pair up. Calls of every kind become function calls under
their flat names; the ids of items are tolerated and never used for pairing (``call_id`` is), except by a shell output,
which names its call by either. Source: OpenAI's Responses reference, and what Codex sends back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from gateway.protocols.openai.functions import check_arguments
from gateway.protocols.responses.compaction import COMPACTION, context_text
from gateway.protocols.responses.content import decode_content, decode_output
from gateway.protocols.responses.hosted import READABLE, describe, list_tools
from gateway.protocols.responses.namespaces import flatten
from gateway.protocols.responses.references import reference_not_found, reference_of
from gateway.protocols.responses.tools import LOCAL_SHELL, TOOL_SEARCH
from gateway.wire.json import dump, is_writable
from ir.errors import ApiError, invalid
from ir.history import check_pairs, merge
from ir.request import Content, Message, Reasoning, Text, ToolCall, ToolResult


class History(Struct, frozen=True):
    """``ignored`` holds the paths of what was left out."""

    system: tuple[str, ...]
    messages: tuple[Message, ...]
    ignored: tuple[str, ...]


def decode_items(items: Sequence[tuple[str, JsonObject]]) -> History:
    """``items`` with the path of each. Raises a 400 that names the item; an empty history is the caller's business."""
    reader = _Reader()
    for path, item in items:
        reader.add(item, path)
    messages, paths = merge(reader.messages, reader.paths)
    check_pairs(messages, paths)
    return History(tuple(reader.system), messages, tuple(reader.ignored))


class _Reader:
    """What was read so far. ``shells`` maps item ids of shell calls to their call ids."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self.paths: list[str] = []
        self.ignored: list[str] = []
        self.shells: dict[str, str] = {}

    def add(self, item: JsonObject, path: str) -> None:
        if reference_of(item) is not None:
            raise reference_not_found(path)
        kind = item.get("type")
        kind = "message" if kind is None else fields.text(kind, f"{path}.type")
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise invalid("unsupported_item_type", f"{path}.type: this type of item is not supported", f"{path}.type")
        handler(self, item, path)

    def keep(self, role: Literal["user", "assistant"], content: Sequence[Content], path: str) -> None:
        if content:  # a message of nothing but empty text says nothing
            self.messages.append(Message(role, tuple(content)))
            self.paths.append(path)


def _message(reader: _Reader, item: JsonObject, path: str) -> None:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise invalid("invalid_role", f"{path}.role: must be user, assistant, system or developer", f"{path}.role")
    parts = decode_content(item.get("content"), f"{path}.content", images=role == "user")
    if role in ("user", "assistant"):
        reader.keep(role, parts, path)
    else:
        reader.system.extend(part.text for part in parts if isinstance(part, Text))


def _reasoning(reader: _Reader, item: JsonObject, path: str) -> None:
    """Thinking with a text is context; what is only opaque means nothing to another upstream."""
    _check_completed(item, path)
    text = _texts(item, "content", path) or _texts(item, "summary", path)
    if text:
        reader.keep("assistant", (Reasoning(text, fields.text_or_empty(item.get("encrypted_content"))),), path)
    else:
        reader.ignored.append(path)


def _texts(item: JsonObject, name: str, path: str) -> str:
    found = []
    for index, entry in enumerate(fields.array(item.get(name) or [], f"{path}.{name}")):
        where = f"{path}.{name}[{index}]"
        found.append(fields.text(fields.mapping(entry, where).get("text"), f"{where}.text"))
    return "\n\n".join(filter(None, found))


def _function_call(reader: _Reader, item: JsonObject, path: str) -> None:
    arguments = item.get("arguments")
    text = fields.text("" if arguments is None else arguments, f"{path}.arguments")
    _keep_call(reader, item, path, check_arguments(text, f"{path}.arguments"))


def _custom_call(reader: _Reader, item: JsonObject, path: str) -> None:
    text = fields.text(item.get("input"), f"{path}.input")
    _keep_call(reader, item, path, dump({"input": text}).decode())


def _keep_call(reader: _Reader, item: JsonObject, path: str, arguments: str) -> None:
    namespace = item.get("namespace")
    space = "" if namespace is None else fields.text(namespace, f"{path}.namespace")
    name = flatten(space, fields.identifier(item.get("name"), f"{path}.name"))
    reader.keep("assistant", (ToolCall(_call_id(item, path), name, arguments),), path)


def _shell_call(reader: _Reader, item: JsonObject, path: str) -> None:
    call_id = _call_id(item, path)
    if isinstance(item.get("id"), str):
        reader.shells[item["id"]] = call_id
    action = fields.mapping(item.get("action"), f"{path}.action")
    arguments = {name: value for name, value in action.items() if name != "type" and value is not None}
    reader.keep("assistant", (ToolCall(call_id, LOCAL_SHELL, _write(arguments, f"{path}.action")),), path)


def _ran_at_openai(item: JsonObject) -> bool:
    """Whether a search ran there: then it needs no result from the caller."""
    return item.get("call_id") is None or item.get("execution") == "server"


def _search_call(reader: _Reader, item: JsonObject, path: str) -> None:
    if _ran_at_openai(item):
        _hosted(reader, item, path)
        return
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        text = check_arguments(arguments, f"{path}.arguments")
    else:
        given = {} if arguments is None else fields.mapping(arguments, f"{path}.arguments")
        text = _write(given, f"{path}.arguments")
    reader.keep("assistant", (ToolCall(_call_id(item, path), TOOL_SEARCH, text),), path)


def _search_output(reader: _Reader, item: JsonObject, path: str) -> None:
    if _ran_at_openai(item):
        _hosted(reader, item, path)
        return
    found = list_tools(fields.array(item.get("tools") or [], f"{path}.tools"))
    text = f"Tools that can be called from now on: {dump(found).decode()}"
    reader.keep("user", (ToolResult(_call_id(item, path), text),), path)


def _output(reader: _Reader, item: JsonObject, path: str) -> None:
    content = decode_output(item.get("output"), f"{path}.output", reader.ignored)
    reader.keep("user", (ToolResult(_call_id(item, path), content),), path)


def _shell_output(reader: _Reader, item: JsonObject, path: str) -> None:
    named = _call_id(item, path)
    content = decode_output(item.get("output"), f"{path}.output", reader.ignored)
    reader.keep("user", (ToolResult(reader.shells.get(named, named), content),), path)


def _hosted(reader: _Reader, item: JsonObject, path: str) -> None:
    _check_completed(item, path)
    if not is_writable(item):
        raise _too_deep(path)
    reader.keep("assistant", (Text(describe(item)),), path)


def _compaction(reader: _Reader, item: JsonObject, path: str) -> None:
    """Only ``references.expand`` can have put the summary there: an item as it came is not opened yet."""
    reader.keep("user", (Text(context_text(fields.text(item.get("summary"), f"{path}.summary"))),), path)


def _tools_only(reader: _Reader, item: JsonObject, path: str) -> None:
    """Its tools are read by ``tools``."""


def _call_id(item: JsonObject, path: str) -> str:
    named = item.get("call_id")
    return fields.identifier(item.get("id") if named is None else named, f"{path}.call_id")


def _write(value: JsonObject, path: str) -> str:
    if not is_writable(value):
        raise _too_deep(path)
    return dump(value).decode()


def _too_deep(path: str) -> ApiError:
    return invalid("invalid_value", f"{path}: is nested too deeply", path)


def _check_completed(item: JsonObject, path: str) -> None:
    if item.get("status") not in (None, "completed"):
        raise invalid("incomplete_item", f"{path}.status: only completed items can be continued", f"{path}.status")


_HANDLERS: Mapping[str, Callable[[_Reader, JsonObject, str], None]] = {
    **dict.fromkeys(READABLE, _hosted),
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _output,
    "local_shell_call": _shell_call,
    "local_shell_call_output": _shell_output,
    "tool_search_call": _search_call,
    "tool_search_output": _search_output,
    "additional_tools": _tools_only,
    COMPACTION: _compaction,
}
