from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.responses import server
from gateway.protocols.responses.namespaces import flatten
from ir.errors import ApiError
from ir.request import Request, Tool, ToolChoice, ToolKind, ToolMode, ToolOrigin

EMPTY = {"type": "object", "properties": {}}
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}


def function(name: Any = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **more}


def namespace(name: str, *children: dict[str, Any], key: str = "tools") -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": "", key: list(children)}


CUSTOM = {"type": "custom", "name": "patch", "description": "Edits."}
SEARCH = {"type": "tool_search", "execution": "client"}
SHELL = {"type": "local_shell"}
WEB = {"type": "web_search"}


def decode(*tools: dict[str, Any], **fields: Any) -> Request:
    return server.decode_request({"model": "m", "input": "Hi", "tools": list(tools), **fields})


def refusal(*tools: Any, **fields: Any) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as caught:
        decode(*tools, **fields)
    return caught.value.code, caught.value.param


def names(*tools: dict[str, Any]) -> list[str]:
    return [tool.name for tool in decode(*tools).tools]


def test_a_plain_function_arrives_whole_and_has_no_other_origin() -> None:
    (tool,) = decode(function("read", description="d", parameters=PATH, strict=True)).tools
    assert tool == Tool("read", "d", PATH, True)


def test_an_empty_list_of_tools_is_no_tools() -> None:
    """Clients, fact 19."""
    assert decode().tools == ()


def test_free_text_becomes_a_function_with_one_input() -> None:
    (tool,) = decode(CUSTOM).tools
    assert (tool.name, tool.description, list(tool.schema["properties"])) == ("patch", "Edits.", ["input"])
    assert tool.origin == ToolOrigin(ToolKind.CUSTOM, "patch")


def test_a_grammar_is_told_to_the_model() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}
    (tool,) = decode({**CUSTOM, "format": form}).tools
    assert tool.description == "Edits.\n\nThe input must match this lark grammar:\nstart: /x/"
    assert decode({**CUSTOM, "format": {"type": "text"}}).tools[0].description == "Edits."
    assert refusal({**CUSTOM, "format": {"type": "x"}}) == ("invalid_tools", "tools[0].format.type")


def test_tools_that_the_client_runs_become_functions() -> None:
    search, shell = decode(SEARCH, SHELL).tools
    assert search.origin == ToolOrigin(ToolKind.TOOL_SEARCH, "tool_search")
    assert shell.origin == ToolOrigin(ToolKind.LOCAL_SHELL, "local_shell")
    assert shell.schema["required"] == ["command"]


@pytest.mark.parametrize(
    "hosted", [WEB, {"type": "mcp", "server_label": "x"}, {"type": "tool_search"}, {"type": "new"}]
)
def test_a_hosted_tool_is_dropped_beside_others_and_refused_alone(hosted: dict[str, Any]) -> None:
    request = decode(hosted, function())
    assert ([tool.name for tool in request.tools], request.ignored) == (["f"], ("tools[0]",))
    assert refusal(hosted) == ("unsupported_tool_type", "tools[0]")


@pytest.mark.parametrize(
    ("space", "name", "flat"),
    [
        ("fs", "read", "fs__read"),
        ("", "read", "read"),
        ("functions", "exec", "exec"),
        ("a__b", "c", "a__b__c"),
        ("m", "x" * 61, "m__" + "x" * 61),
    ],
)
def test_a_namespace_is_a_prefix_of_its_tools(space: str, name: str, flat: str) -> None:
    assert flatten(space, name) == flat


@pytest.mark.parametrize(("space", "name"), [("m", "x" * 62), ("mcp.server", "read"), ("a/b", "c")])
def test_a_flat_name_that_does_not_fit_ends_in_a_hash_of_the_whole(space: str, name: str) -> None:
    flat = flatten(space, name)
    assert flat == flatten(space, name)
    assert flat != flatten(space, name + "y")
    assert len(flat) <= 64
    assert flat[-9] == "_"
    assert flat.replace("_", "").replace("-", "").isalnum()


@pytest.mark.parametrize("key", ["tools", "children"])
def test_tools_of_a_namespace_are_flattened_and_remember_it(key: str) -> None:
    request = decode(namespace("fs", function("read", parameters=PATH), {**CUSTOM}, key=key))
    assert [tool.name for tool in request.tools] == ["fs__read", "fs__patch"]
    assert request.tools[0].origin == ToolOrigin(ToolKind.FUNCTION, "read", "fs")
    assert request.tools[1].origin == ToolOrigin(ToolKind.CUSTOM, "patch", "fs")


def test_a_namespace_without_a_portable_tool_is_refused() -> None:
    assert refusal(namespace("fs", WEB), function()) == ("unsupported_tool_type", "tools[0]")
    assert refusal(namespace("fs")) == ("unsupported_tool_type", "tools[0]")
    assert decode(namespace("fs", WEB, function())).ignored == ("tools[0].tools[0]",)


@pytest.mark.parametrize(
    "tools",
    [
        (namespace("fs", function("read")), function("fs__read")),
        (namespace("functions", function("exec")), function("exec")),
        (namespace("a__b", function("c")), namespace("a", function("b__c"))),
        (function("patch"), CUSTOM),
    ],
)
def test_two_tools_that_would_have_one_name_are_refused(tools: tuple[dict[str, Any], ...]) -> None:
    assert refusal(*tools) == ("tool_name_collision", "tools")


def test_the_same_tool_twice_is_refused() -> None:
    assert refusal(function(), function()) == ("invalid_tools", "tools")
    assert refusal(namespace("a", function(), function())) == ("invalid_tools", "tools")


@pytest.mark.parametrize(
    ("tool", "code", "param"),
    [
        ("x", "invalid_type", "tools[0]"),
        ({}, "invalid_type", "tools[0].type"),
        (function(None), "invalid_type", "tools[0].name"),
        (function("a b"), "invalid_tools", "tools[0].name"),
        (function(parameters={"type": "array"}), "invalid_tool_schema", "tools[0].parameters"),
        ({"type": "custom"}, "invalid_type", "tools[0].name"),
        (namespace("fs", function("")), "invalid_tools", "tools[0].tools[0].name"),
    ],
)
def test_a_broken_definition_is_refused_with_its_path(tool: Any, code: str, param: str) -> None:
    assert refusal(tool) == (code, param)


def test_tools_in_the_input_join_the_others_and_may_come_again() -> None:
    more = {"type": "additional_tools", "role": "developer", "tools": [function("g"), WEB]}
    again = {"type": "additional_tools", "role": "developer", "tools": [function("g", description="newer")]}
    request = decode(function(), input=[more, {"role": "user", "content": "Hi"}, again])
    assert [(tool.name, tool.description) for tool in request.tools] == [("f", ""), ("g", "newer")]
    assert request.ignored == ("input[0].tools[1]",)


def test_tools_that_a_search_found_can_be_called() -> None:
    call = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "mail"}}
    found = {
        "type": "tool_search_output",
        "call_id": "c1",
        "tools": [namespace("mail", function("send", description="d"))],
    }
    request = decode(SEARCH, input=[{"role": "user", "content": "Hi"}, call, found])
    assert [tool.name for tool in request.tools] == ["tool_search", "mail__send"]


OFFERED = (function("f"), CUSTOM, namespace("fs", function("read"), function("write")), SEARCH, SHELL, WEB)


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(ToolMode.NONE)),
        ("required", ToolChoice(ToolMode.REQUIRED)),
        (function("f"), ToolChoice(ToolMode.NAMED, ("f",))),
        ({"type": "custom", "name": "patch"}, ToolChoice(ToolMode.NAMED, ("patch",))),
        (function("read", namespace="fs"), ToolChoice(ToolMode.NAMED, ("fs__read",))),
        ({"type": "namespace", "name": "fs"}, ToolChoice(ToolMode.ALLOWED, ("fs__read", "fs__write"))),
        ({"type": "tool_search"}, ToolChoice(ToolMode.NAMED, ("tool_search",))),
        ({"type": "local_shell"}, ToolChoice(ToolMode.NAMED, ("local_shell",))),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [function("f"), {"type": "namespace", "name": "fs"}],
            },
            ToolChoice(ToolMode.ALLOWED, ("f", "fs__read", "fs__write"), forced=True),
        ),
    ],
)
def test_every_form_of_choice_is_understood(value: Any, choice: ToolChoice) -> None:
    assert decode(*OFFERED, tool_choice=value).tool_choice == choice


def test_a_hosted_tool_of_a_subset_is_left_out_and_named() -> None:
    request = decode(*OFFERED, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [WEB, function("f")]})
    assert request.tool_choice == ToolChoice(ToolMode.ALLOWED, ("f",))
    assert request.ignored == ("tools[5]", "tool_choice.tools[0]")


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (WEB, "tool_choice"),
        ({"type": "web_search_preview_2025_03_11"}, "tool_choice"),
        ({"type": "mcp", "server_label": "x"}, "tool_choice"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [WEB]}, "tool_choice.tools"),
    ],
)
def test_a_hosted_tool_cannot_be_demanded(value: Any, param: str) -> None:
    assert refusal(*OFFERED, tool_choice=value) == ("unsupported_tool_type", param)


@pytest.mark.parametrize(
    "value",
    [
        "any",
        1,
        [],
        {},
        {"type": "x"},
        {"type": "function"},
        {"type": "function", "name": " "},
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "name": "f", "namespace": 1},
        {"type": "allowed_tools", "mode": "none", "tools": [function("f")]},
        {"type": "allowed_tools", "mode": "auto", "tools": []},
        {"type": "allowed_tools", "mode": "auto", "tools": ["f"]},
    ],
)
def test_any_other_choice_is_refused(value: Any) -> None:
    assert refusal(*OFFERED, tool_choice=value)[0] == "invalid_tool_choice"


@pytest.mark.parametrize("value", [function("g"), function("read"), {"type": "namespace", "name": "other"}])
def test_a_choice_of_something_unknown_is_refused(value: Any) -> None:
    assert refusal(*OFFERED, tool_choice=value) == ("unknown_tool_choice_function", "tool_choice")


def test_a_demanded_call_without_tools_is_refused() -> None:
    assert refusal(tool_choice="required") == ("missing_tools", "tool_choice")
