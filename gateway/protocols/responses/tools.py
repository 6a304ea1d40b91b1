"""``tools`` of a Responses request, and those that travel inside its input, → functions.

Whatever the caller runs itself becomes a function, and ``Tool.origin`` keeps its own form: ``custom`` (free text) a
function with one string ``input``; ``namespace`` its children under flat names; client-side ``tool_search`` and
``local_shell`` functions with the arguments that their calls carry. What runs at OpenAI is dropped and named beside
at least one of those, and refused alone.

Source: OpenAI's Responses reference; clients add tools in the middle of a conversation with the input items
``additional_tools`` and ``tool_search_output``, where the same tool may come again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from gateway.protocols.openai.functions import decode_description, decode_function, decode_name, decode_schema
from gateway.protocols.responses.namespaces import flatten
from ir.errors import ApiError, invalid
from ir.request import Tool, ToolKind, ToolOrigin

TOOL_SEARCH = "tool_search"
LOCAL_SHELL = "local_shell"
CARRIERS = ("additional_tools", "tool_search_output")
"""Input items with ``tools`` of their own."""

_TEXT_INPUT = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input, as plain text."}},
    "required": ["input"],
    "additionalProperties": False,
}
_SEARCH = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
_SHELL = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}, "description": "The command and its arguments."},
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "user": {"type": "string"},
    },
    "required": ["command"],
}


class Offer(Struct, frozen=True):
    """``dropped`` holds the paths of tools that cannot be carried."""

    tools: tuple[Tool, ...]
    dropped: tuple[str, ...]


class _Shelf:
    """The tools read so far, by their flat names."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.dropped: list[str] = []

    def put(self, tool: Tool, again: bool) -> None:
        """``again``: the same tool may come a second time, and the later definition holds."""
        known = self.tools.get(tool.name)
        if known is not None and known.origin != tool.origin:
            raise invalid(
                "tool_name_collision", f"tools: two different tools are called '{tool.name}', rename one", "tools"
            )
        if known is not None and not again:
            raise invalid("invalid_tools", f"tools: two tools have the name '{tool.name}'", "tools")
        self.tools[tool.name] = tool


def decode_tools(value: object, items: Sequence[tuple[str, JsonObject]]) -> Offer:
    """``value`` is the field ``tools``; ``items`` the input, each with its path. Raises a 400 that names the field."""
    shelf = _Shelf()
    for path, entry in _entries(value, "tools"):
        _take(entry, path, shelf, again=False)
    for where, item in items:
        if item.get("type") in CARRIERS:
            for path, entry in _entries(item.get("tools"), f"{where}.tools"):
                _take(entry, path, shelf, again=True)
    if shelf.dropped and not shelf.tools:
        raise _unsupported(shelf.dropped[0])
    return Offer(tuple(shelf.tools.values()), tuple(shelf.dropped))


def _entries(value: object, path: str) -> Iterator[tuple[str, JsonObject]]:
    for index, item in enumerate(fields.array([] if value is None else value, path)):
        where = f"{path}[{index}]"
        yield where, fields.mapping(item, where)


def _take(entry: JsonObject, path: str, shelf: _Shelf, again: bool) -> None:
    if fields.text(entry.get("type"), f"{path}.type") == "namespace":
        _take_namespace(entry, path, shelf, again)
        return
    tool = _decode_tool(entry, path, "")
    if tool is None:
        shelf.dropped.append(path)
    else:
        shelf.put(tool, again)


def _take_namespace(entry: JsonObject, path: str, shelf: _Shelf, again: bool) -> None:
    namespace = decode_name(entry.get("name"), f"{path}.name")
    key = "tools" if entry.get("tools") is not None else "children"
    empty = True
    for where, child in _entries(entry.get(key), f"{path}.{key}"):
        tool = _decode_tool(child, where, namespace)
        if tool is None:
            shelf.dropped.append(where)
        else:
            shelf.put(tool, again)
            empty = False
    if empty:
        raise _unsupported(path)


def _decode_tool(entry: JsonObject, path: str, namespace: str) -> Tool | None:
    """``None`` for a tool that runs at OpenAI."""
    match entry.get("type"):
        case "function":
            return _in_namespace(decode_function(entry, path), ToolKind.FUNCTION, namespace)
        case "custom":
            return _in_namespace(_decode_custom(entry, path), ToolKind.CUSTOM, namespace)
        case "tool_search" if entry.get("execution") == "client" and not namespace:
            schema = decode_schema(entry.get("parameters") or _SEARCH, f"{path}.parameters")
            text = decode_description(entry, path) or "Finds further tools that can be called."
            return Tool(TOOL_SEARCH, text, schema, origin=ToolOrigin(ToolKind.TOOL_SEARCH, TOOL_SEARCH))
        case "local_shell" if not namespace:
            text = "Runs a command on the user's machine and returns its output."
            return Tool(LOCAL_SHELL, text, _SHELL, origin=ToolOrigin(ToolKind.LOCAL_SHELL, LOCAL_SHELL))
        case _:
            return None


def _in_namespace(tool: Tool, kind: ToolKind, namespace: str) -> Tool:
    if kind is ToolKind.FUNCTION and not namespace:
        return tool
    return replace(tool, name=flatten(namespace, tool.name), origin=ToolOrigin(kind, tool.name, namespace))


def _decode_custom(entry: JsonObject, path: str) -> Tool:
    text = decode_description(entry, path)
    form = fields.mapping(entry.get("format") or {"type": "text"}, f"{path}.format")
    if form.get("type") == "grammar":
        syntax = fields.text(form.get("syntax"), f"{path}.format.syntax")
        grammar = fields.text(form.get("definition"), f"{path}.format.definition")
        text = f"{text}\n\nThe input must match this {syntax} grammar:\n{grammar}".strip()
    elif form.get("type") != "text":
        raise invalid("invalid_tools", f"{path}.format.type: must be text or grammar", f"{path}.format.type")
    return Tool(decode_name(entry.get("name"), f"{path}.name"), text, _TEXT_INPUT)


def _unsupported(path: str) -> ApiError:
    return invalid("unsupported_tool_type", f"{path}: only tools that the caller runs are supported", path)
