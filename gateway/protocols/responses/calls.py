"""Tool calls of an answer in the form in which the caller declared the tool.

``Tool.origin`` says which form that is; a plain function has none. Each form has its own item, prefix of the item's
id and, for the two that stream, its own event names. Source: OpenAI's Responses reference, "Output item".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from gateway.contracts import JsonObject
from ir.request import Request, ToolKind, ToolOrigin


class Form(Struct, frozen=True):
    """``event`` and ``field`` name the streamed text; a form without them shows the call when it is whole."""

    prefix: str
    event: str = ""
    field: str = ""


FORMS: Mapping[ToolKind, Form] = {
    ToolKind.FUNCTION: Form("fc", "response.function_call_arguments", "arguments"),
    ToolKind.CUSTOM: Form("ctc", "response.custom_tool_call_input", "input"),
    ToolKind.TOOL_SEARCH: Form("tsc"),
    ToolKind.LOCAL_SHELL: Form("lsc"),
}


def origins(request: Request) -> Mapping[str, ToolOrigin]:
    """What the caller declared, by function name, where that is not a plain function."""
    return {tool.name: tool.origin for tool in request.tools if tool.origin is not None}


def call_item(origin: ToolOrigin, item_id: str, call_id: str, arguments: str, status: str) -> JsonObject:
    """``arguments`` is JSON text; "" for a call that has only begun."""
    item: JsonObject = {"type": "", "id": item_id, "call_id": call_id, "status": status}
    match origin.kind:
        case ToolKind.FUNCTION:
            item |= {"type": "function_call", "name": origin.name, "arguments": arguments}
        case ToolKind.CUSTOM:
            item |= {"type": "custom_tool_call", "name": origin.name, "input": free_text(arguments)}
        case ToolKind.TOOL_SEARCH:
            item |= {"type": "tool_search_call", "execution": "client", "arguments": _parse(arguments)}
        case ToolKind.LOCAL_SHELL:
            item |= {"type": "local_shell_call", "action": _action(_parse(arguments))}
    if origin.namespace:
        item["namespace"] = origin.namespace
    return item


def free_text(arguments: str) -> str:
    """The text in the arguments of a custom tool: its ``input``, else its only text, else the JSON as it is.

    Models do name the field otherwise; the client's own parser can judge what they wrote better than a refusal here.
    """
    parsed = _parse(arguments)
    if isinstance(parsed.get("input"), str):
        return str(parsed["input"])
    texts = [value for value in parsed.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 == len(parsed) else arguments


def _parse(arguments: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _action(arguments: Mapping[str, Any]) -> JsonObject:
    command = arguments.get("command")
    if isinstance(command, str):
        command = [command]
    words = [str(word) for word in command] if isinstance(command, list) else []
    env = arguments.get("env")
    action: JsonObject = {"type": "exec", "command": words, "env": env if isinstance(env, dict) else {}}
    for name, kind in (("timeout_ms", int), ("user", str), ("working_directory", str)):
        if isinstance(arguments.get(name), kind):
            action[name] = arguments[name]
    return action
