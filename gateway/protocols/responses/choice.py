"""``tool_choice`` of a Responses request: a word, one tool, a namespace, or a subset.

Names are the caller's own and become flat names; a namespace stands for all its tools. A hosted tool cannot be
chosen; in a subset with others it is left out and named. Source: OpenAI's Responses reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gateway.contracts import JsonObject
from gateway.protocols.openai.functions import MODES, bad_choice, check_choice
from gateway.protocols.responses.namespaces import flatten
from gateway.protocols.responses.tools import LOCAL_SHELL, TOOL_SEARCH
from ir.errors import ApiError, invalid
from ir.request import Tool, ToolChoice, ToolMode

HOSTED = frozenset(
    {
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "image_generation",
        "mcp",
        "shell",
        "apply_patch",
        "programmatic_tool_calling",
    }
)
_PATH = "tool_choice"


class Choice(Struct, frozen=True):
    """``dropped`` holds the paths of the hosted tools of a subset."""

    choice: ToolChoice
    dropped: tuple[str, ...] = ()


def decode_choice(value: object, tools: Sequence[Tool]) -> Choice:
    """``tools`` are those that can be carried. Raises a 400 that names the field."""
    decoded = _decode(value, tools)
    check_choice(decoded.choice, {tool.name for tool in tools})
    return decoded


def _decode(value: object, tools: Sequence[Tool]) -> Choice:
    if value is None:
        return Choice(ToolChoice())
    if isinstance(value, str) and value in MODES:
        return Choice(ToolChoice(MODES[value]))
    if not isinstance(value, dict):
        raise bad_choice(_PATH)
    if value.get("type") == "allowed_tools":
        return _allowed(value, tools)
    names = _names(value, _PATH, tools)
    if not names:
        raise _hosted(_PATH)
    if value["type"] == "namespace":
        return Choice(ToolChoice(ToolMode.ALLOWED, names))
    return Choice(ToolChoice(ToolMode.NAMED, names))


def _allowed(value: JsonObject, tools: Sequence[Tool]) -> Choice:
    mode = value.get("mode")
    if mode not in ("auto", "required"):
        raise bad_choice(f"{_PATH}.mode")
    entries = value.get("tools")
    if not isinstance(entries, list) or not entries:
        raise bad_choice(f"{_PATH}.tools")
    allowed: dict[str, None] = {}
    dropped: list[str] = []
    for index, entry in enumerate(entries):
        path = f"{_PATH}.tools[{index}]"
        if not isinstance(entry, dict):
            raise bad_choice(path)
        names = _names(entry, path, tools)
        allowed.update(dict.fromkeys(names))
        if not names:
            dropped.append(path)
    if not allowed:
        raise _hosted(f"{_PATH}.tools")
    return Choice(ToolChoice(ToolMode.ALLOWED, tuple(allowed), forced=mode == "required"), tuple(dropped))


def _names(entry: JsonObject, path: str, tools: Sequence[Tool]) -> tuple[str, ...]:
    """Flat names of what ``entry`` names; none for a hosted tool."""
    match entry.get("type"):
        case "function" | "custom":
            namespace = entry.get("namespace") or ""
            if not isinstance(namespace, str):
                raise bad_choice(f"{path}.namespace")
            return (flatten(namespace, _name(entry, path)),)
        case "namespace":
            name = _name(entry, path)
            inside = tuple(tool.name for tool in tools if tool.origin is not None and tool.origin.namespace == name)
            return inside or (name,)
        case "tool_search":
            return (TOOL_SEARCH,)
        case "local_shell":
            return (LOCAL_SHELL,)
        case str() as kind if kind in HOSTED or kind.startswith("web_search"):
            return ()
        case _:
            raise bad_choice(path)


def _name(entry: JsonObject, path: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise bad_choice(f"{path}.name")
    return name.strip()


def _hosted(path: str) -> ApiError:
    return invalid("unsupported_tool_type", f"{path}: only tools that the caller runs can be chosen", path)
