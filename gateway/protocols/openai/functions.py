"""What Chat and Responses share about functions: their definition, their arguments in a history, and who may be chosen.

Source: OpenAI's function calling guide. Both protocols put the same four fields at different depths.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import orjson

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from gateway.wire.json import is_writable
from ir.errors import ApiError, invalid
from ir.request import Tool, ToolChoice, ToolMode

# OpenAI's own set, and the separators that names of MCP tools come with.
NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
MODES = {"auto": ToolMode.AUTO, "none": ToolMode.NONE, "required": ToolMode.REQUIRED}
NO_ARGUMENTS = "{}"


def decode_function(value: object, path: str) -> Tool:
    """``value`` has ``name``, ``description``, ``parameters`` and ``strict``. Raises a 400 that names the field."""
    function = fields.mapping(value, path)
    strict = function.get("strict")
    return Tool(
        decode_name(function.get("name"), f"{path}.name"),
        decode_description(function, path),
        decode_schema(function.get("parameters"), f"{path}.parameters"),
        None if strict is None else fields.boolean(strict, f"{path}.strict"),
    )


def decode_name(value: object, path: str) -> str:
    name = fields.text(value, path).strip()
    if not NAME.fullmatch(name):
        raise invalid("invalid_tools", f"{path}: must be 1 to 128 letters, digits or any of _ - . : /", path)
    return name


def decode_description(definition: JsonObject, path: str) -> str:
    description = definition.get("description")
    return "" if description is None else fields.text(description, f"{path}.description")


def decode_schema(value: object, path: str) -> JsonObject:
    """A schema whose root is an object; one that says nothing about its type is completed."""
    if value is None or value == {}:
        return {"type": "object", "properties": {}}
    if not isinstance(value, dict) or value.get("type", "object") != "object":
        raise invalid("invalid_tool_schema", f"{path}: must be a JSON Schema of type object", path)
    if not is_writable(value):
        raise invalid("invalid_tool_schema", f"{path}: is nested too deeply", path)
    return value if "type" in value else {"type": "object", **value}


def check_arguments(text: str, path: str) -> str:
    """The same text when it is the JSON of an object; an empty one means no arguments."""
    if not text.strip():
        return NO_ARGUMENTS
    if not is_object(text):
        raise invalid("invalid_tool_arguments", f"{path}: must be the JSON text of an object", path)
    if not is_writable(orjson.loads(text)):
        raise invalid("invalid_tool_arguments", f"{path}: is nested too deeply", path)
    return text


def is_object(text: str) -> bool:
    """Whether ``text`` is the whole JSON text of an object."""
    if not text.rstrip().endswith("}"):  # saves parsing what cannot be whole yet
        return False
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def bad_choice(path: str) -> ApiError:
    return invalid(
        "invalid_tool_choice", f"{path}: must be none, auto, required, a named function or allowed tools", path
    )


def check_choice(choice: ToolChoice, known: Collection[str]) -> None:
    """Raises a 400 when a call is demanded without tools, or a name that is not in ``known`` is chosen."""
    if choice.mode in (ToolMode.AUTO, ToolMode.NONE):
        return
    if not known:
        raise invalid("missing_tools", "tool_choice: the request has no tools to choose from", "tool_choice")
    for name in choice.names:
        if name not in known:
            raise invalid("unknown_tool_choice_function", f"tool_choice: no tool has the name '{name}'", "tool_choice")
