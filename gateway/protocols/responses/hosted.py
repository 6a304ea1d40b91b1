"""Calls of tools that ran at OpenAI, as they come back in a history → readable text.

No upstream can execute or replay them, but what they found is part of the conversation. Only the fields that can be
read are kept; pictures and ids are not. Source: OpenAI's Responses reference, the ``…_call`` output items.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.contracts import JsonObject
from gateway.wire.json import dump

READABLE: Mapping[str, tuple[str, ...]] = {
    "web_search_call": ("action",),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt",),
    "computer_call": ("action", "actions"),
    "mcp_call": ("server_label", "name", "arguments", "output", "error"),
    "mcp_list_tools": ("server_label", "tools"),
    "tool_search_call": ("arguments",),
    "tool_search_output": ("tools",),
}
_SHOWN_OF_A_TOOL = ("type", "name", "description", "server_label")


def describe(item: JsonObject) -> str:
    """One line for a completed call: its type and what of it can be read, as compact JSON."""
    kind = item["type"]
    shown = {name: item[name] for name in READABLE[kind] if item.get(name)}
    for name, trim in (("outputs", _without_pictures), ("tools", list_tools)):
        if isinstance(shown.get(name), list):
            shown[name] = trim(shown[name])
    return f"[{kind}: {dump(shown).decode()}]"


def list_tools(tools: list[object]) -> list[JsonObject]:
    """Names and descriptions of tool definitions, namespaces opened."""
    found: list[JsonObject] = []
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        inner = tool.get("tools")
        if isinstance(inner, list):
            found += [{"namespace": tool.get("name"), **child} for child in list_tools(inner)]
        else:
            found.append({name: tool[name] for name in _SHOWN_OF_A_TOOL if isinstance(tool.get(name), str)})
    return found


def _without_pictures(outputs: list[object]) -> list[object]:
    return [entry for entry in outputs if isinstance(entry, dict) and entry.get("type") != "image"]
