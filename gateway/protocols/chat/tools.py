"""``tools``, ``tool_choice`` and their legacy forms ``functions`` and ``function_call`` → the caller's tools.

Hosted tools (``web_search``, …) run at the vendor and cannot be carried. Beside a function tool they are dropped and
named, since the caller can do without; alone they are refused. A ``custom`` tool runs at the caller, so that dropping
it would lose work silently: always refused. Source: OpenAI's Chat Completions reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from gateway.protocols.openai.functions import MODES, bad_choice, check_choice, decode_function
from ir.errors import ApiError, invalid
from ir.request import Tool, ToolChoice, ToolMode


class Toolbox(Struct, frozen=True):
    """``dropped`` holds the paths of hosted tools; ``legacy``: the caller speaks the old form."""

    tools: tuple[Tool, ...]
    choice: ToolChoice
    legacy: bool
    dropped: tuple[str, ...]


def decode_tools(body: JsonObject) -> Toolbox:
    """Raises a 400 that names the field."""
    dropped: tuple[str, ...] = ()
    legacy = body.get("functions") is not None
    if legacy:
        if body.get("tools"):
            raise invalid("invalid_tools", "functions: send either tools or functions", "functions")
        items = fields.array(body["functions"], "functions")
        tools = tuple(decode_function(item, f"functions[{index}]") for index, item in enumerate(items))
    else:
        tools, dropped = _tools(body.get("tools"))
    _check_unique(tools, "functions" if legacy else "tools")
    if body.get("tool_choice") is not None:
        choice = _choice(body["tool_choice"])
    else:
        choice = _legacy_choice(body.get("function_call"))
    check_choice(choice, {tool.name for tool in tools})
    return Toolbox(tools, choice, legacy, dropped)


def _tools(value: object) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    tools: list[Tool] = []
    dropped: list[str] = []
    for index, item in enumerate(fields.array([] if value is None else value, "tools")):
        path = f"tools[{index}]"
        entry = fields.mapping(item, path)
        match fields.text(entry.get("type") or "function", f"{path}.type"):
            case "function":
                tools.append(decode_function(entry.get("function"), f"{path}.function"))
            case "custom":
                raise _unsupported(path)
            case _:
                dropped.append(path)
    if dropped and not tools:
        raise _unsupported(dropped[0])
    return tuple(tools), tuple(dropped)


def _unsupported(path: str) -> ApiError:
    return invalid("unsupported_tool_type", f"{path}.type: only function tools are supported", f"{path}.type")


def _check_unique(tools: Sequence[Tool], path: str) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            raise invalid("invalid_tools", f"{path}: two tools have the name '{tool.name}'", f"{path}[{index}]")
        seen.add(tool.name)


def _choice(value: object) -> ToolChoice:
    if isinstance(value, str) and value in MODES:
        return ToolChoice(MODES[value])
    if isinstance(value, dict):
        if value.get("type") == "function":
            return ToolChoice(ToolMode.NAMED, (_chosen_name(value.get("function"), "tool_choice"),))
        if value.get("type") == "allowed_tools":
            return _allowed(value.get("allowed_tools"))
    raise bad_choice("tool_choice")


def _allowed(value: object) -> ToolChoice:
    path = "tool_choice.allowed_tools"
    if not isinstance(value, dict) or value.get("mode") not in ("auto", "required"):
        raise bad_choice(path)
    entries = value.get("tools")
    if not isinstance(entries, list) or not entries:
        raise bad_choice(f"{path}.tools")
    names: list[str] = []
    for index, entry in enumerate(entries):
        where = f"{path}.tools[{index}]"
        if not isinstance(entry, dict) or entry.get("type") != "function":
            raise bad_choice(where)
        names.append(_chosen_name(entry.get("function"), where))
    return ToolChoice(ToolMode.ALLOWED, tuple(names), forced=value["mode"] == "required")


def _chosen_name(value: object, path: str) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise bad_choice(f"{path}.function.name")
    return name.strip()


def _legacy_choice(value: object) -> ToolChoice:
    if value is None or value == "auto":
        return ToolChoice()
    if value == "none":
        return ToolChoice(ToolMode.NONE)
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise bad_choice("function_call")
    return ToolChoice(ToolMode.NAMED, (name.strip(),))
