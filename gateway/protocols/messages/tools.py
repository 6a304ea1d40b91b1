"""``tools`` and ``tool_choice`` of a Messages request.

Only tools with an ``input_schema`` can be carried. Anthropic's own (``web_search_…``, ``bash_…`` and the like, told by
their ``type``) run on or are trained for Anthropic's side: beside at least one portable tool they are dropped and
listed, alone or forced they are refused.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from gateway.protocols.messages.caching import control_of
from gateway.protocols.messages.fields import refuse, take_flag, take_list, take_name, take_object, take_text
from gateway.wire.json import is_writable
from ir.request import Breakpoint, Tool, ToolChoice, ToolMode

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MODES = {"auto": ToolMode.AUTO, "none": ToolMode.NONE, "any": ToolMode.REQUIRED, "tool": ToolMode.NAMED}


class Offer(Struct, frozen=True):
    """The tools that can be carried, the names of those that cannot, and where the dropped ones stood; cache
    breakpoints."""

    tools: tuple[Tool, ...] = ()
    hosted: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()
    breakpoints: tuple[Breakpoint, ...] = ()


def decode_tools(value: object) -> Offer:
    """Raises a 400 for a bad or doubled definition, and when every tool is one of Anthropic's own."""
    if value is None:
        return Offer()
    tools: dict[str, Tool] = {}
    hosted: dict[str, str] = {}
    breakpoints = []
    for index, entry in enumerate(take_list(value, "tools")):
        path = f"tools.{index}"
        fields = take_object(entry, path)
        if fields.get("type") in (None, "custom"):
            tool = _decode_tool(fields, path)
            if tool.name in tools:
                raise refuse(path, f"the tool name '{tool.name}' is used twice", "invalid_tools")
            control = control_of(fields)
            if control is not None:
                breakpoints.append(Breakpoint("tools", control, len(tools)))
            tools[tool.name] = tool
        else:
            take_name(fields["type"], f"{path}.type")
            name = fields.get("name")
            hosted[path] = name if isinstance(name, str) else ""
    if hosted and not tools:
        raise refuse(next(iter(hosted)), "tools that run at Anthropic are not supported", "unsupported_tool_type")
    return Offer(tuple(tools.values()), frozenset(hosted.values()), tuple(hosted), tuple(breakpoints))


def _decode_tool(fields: dict[str, Any], path: str) -> Tool:
    name = fields.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refuse(f"{path}.name", "must be 1 to 128 letters, digits, underscores or hyphens", "invalid_tools")
    description = fields.get("description")
    return Tool(
        name,
        "" if description is None else take_text(description, f"{path}.description"),
        _decode_schema(fields.get("input_schema"), f"{path}.input_schema"),
        take_flag(fields.get("strict"), f"{path}.strict"),
    )


def _decode_schema(value: object, path: str) -> dict[str, Any]:
    if value is None:
        return {"type": "object", "properties": {}}
    if not isinstance(value, dict):
        raise refuse(path, "must be a JSON Schema object", "invalid_tool_schema")
    if value.get("type", "object") != "object":
        raise refuse(path, 'the root must have "type": "object"', "invalid_tool_schema")
    if not is_writable(value):
        raise refuse(path, "is nested too deeply", "invalid_tool_schema")
    return value if "type" in value else {"type": "object", **value}


def decode_choice(value: object, offer: Offer) -> tuple[ToolChoice, bool | None]:
    """The choice, and whether parallel calls are allowed (``None``: not said)."""
    if value is None:
        return ToolChoice(), None
    if not isinstance(value, dict):
        raise refuse("tool_choice", "must be an object", "invalid_tool_choice")
    word = value.get("type")
    mode = _MODES.get(word) if isinstance(word, str) else None
    if mode is None:
        raise refuse("tool_choice.type", "must be auto, any, tool or none", "invalid_tool_choice")
    serial = take_flag(value.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use")
    parallel = None if serial is None else not serial
    if mode is ToolMode.NAMED:
        return ToolChoice(mode, (_decode_named(value.get("name"), offer),)), parallel
    if mode is ToolMode.REQUIRED and not offer.tools:
        raise refuse("tool_choice", "a tool call is demanded but no tools are given", "missing_tools")
    return ToolChoice(mode), parallel


def _decode_named(name: object, offer: Offer) -> str:
    if not isinstance(name, str) or not name:
        raise refuse("tool_choice.name", "must name a tool", "invalid_tool_choice")
    if any(tool.name == name for tool in offer.tools):
        return name
    if name in offer.hosted:
        raise refuse("tool_choice.name", "tools that run at Anthropic are not supported", "unsupported_tool_type")
    if not offer.tools:
        raise refuse("tool_choice", "a tool call is demanded but no tools are given", "missing_tools")
    raise refuse("tool_choice.name", "no tool has this name", "unknown_tool_choice_function")
