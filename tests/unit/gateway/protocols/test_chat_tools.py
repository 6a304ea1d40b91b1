from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.chat.tools import decode_tools
from ir.errors import ApiError
from ir.request import Tool, ToolChoice, ToolMode

EMPTY = {"type": "object", "properties": {}}


def function(name: Any = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


def refusal(body: dict[str, Any]) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as caught:
        decode_tools(body)
    return caught.value.code, caught.value.param


def test_a_function_arrives_whole() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    box = decode_tools({"tools": [function("get_weather", description="d", parameters=schema, strict=True)]})
    assert box.tools == (Tool("get_weather", "d", schema, True),)
    assert (box.choice, box.legacy, box.dropped) == (ToolChoice(), False, ())


@pytest.mark.parametrize("schema", [None, {}])
def test_a_missing_schema_is_an_empty_object(schema: Any) -> None:
    assert decode_tools({"tools": [function(parameters=schema)]}).tools[0].schema == EMPTY


def test_a_schema_that_names_no_type_is_completed() -> None:
    (tool,) = decode_tools({"tools": [function(parameters={"properties": {"a": {}}})]}).tools
    assert tool.schema == {"type": "object", "properties": {"a": {}}}


@pytest.mark.parametrize("schema", [[], "x", True, {"type": "array"}, {"type": None}, {"type": ["object", "null"]}])
def test_a_schema_whose_root_is_no_object_is_refused(schema: Any) -> None:
    assert refusal({"tools": [function(parameters=schema)]}) == (
        "invalid_tool_schema",
        "tools[0].function.parameters",
    )


def test_a_schema_that_nests_deeper_than_can_be_written_again_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    with pytest.raises(ApiError, match="nested too deeply") as caught:
        decode_tools({"tools": [function(parameters={"type": "object", "properties": deep})]})
    assert caught.value.code == "invalid_tool_schema"


@pytest.mark.parametrize("name", ["mcp__fs__read", "a.b", "ns:tool", "a/b", "x" * 128, " trimmed "])
def test_names_that_clients_send_are_accepted(name: str) -> None:
    assert decode_tools({"tools": [function(name)]}).tools[0].name == name.strip()


@pytest.mark.parametrize("name", ["", "  ", "a b", "x" * 129, "имя", "a\nb"])
def test_other_names_are_refused(name: str) -> None:
    assert refusal({"tools": [function(name)]}) == ("invalid_tools", "tools[0].function.name")


def test_two_tools_of_one_name_are_refused() -> None:
    assert refusal({"tools": [function("f"), function(" f")]}) == ("invalid_tools", "tools[1]")


def test_a_tool_without_a_type_is_a_function() -> None:
    entries = [{"function": {"name": "f"}}, {"type": "", "function": {"name": "g"}}]
    assert [tool.name for tool in decode_tools({"tools": entries}).tools] == ["f", "g"]


def test_a_hosted_tool_beside_a_function_is_dropped_and_named() -> None:
    box = decode_tools({"tools": [{"type": "web_search"}, function()]})
    assert (len(box.tools), box.dropped) == (1, ("tools[0]",))


def test_a_hosted_tool_alone_is_refused() -> None:
    assert refusal({"tools": [{"type": "web_search"}]}) == ("unsupported_tool_type", "tools[0].type")


def test_a_custom_tool_is_refused_even_beside_a_function() -> None:
    entries = [function(), {"type": "custom", "custom": {"name": "x"}}]
    assert refusal({"tools": entries}) == ("unsupported_tool_type", "tools[1].type")


@pytest.mark.parametrize(
    ("tools", "code", "param"),
    [
        ({}, "invalid_type", "tools"),
        (["x"], "invalid_type", "tools[0]"),
        ([{"type": 1}], "invalid_type", "tools[0].type"),
        ([{"type": "function"}], "invalid_type", "tools[0].function"),
        ([function(None)], "invalid_type", "tools[0].function.name"),
        ([function(description=1)], "invalid_type", "tools[0].function.description"),
        ([function(strict="yes")], "invalid_type", "tools[0].function.strict"),
    ],
)
def test_wrong_types_are_refused_with_their_path(tools: Any, code: str, param: str) -> None:
    assert refusal({"tools": tools}) == (code, param)


NAMED = {"type": "function", "function": {"name": " f "}}


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(ToolMode.NONE)),
        ("required", ToolChoice(ToolMode.REQUIRED)),
        (NAMED, ToolChoice(ToolMode.NAMED, ("f",))),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}},
            ToolChoice(ToolMode.ALLOWED, ("f",), forced=True),
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}},
            ToolChoice(ToolMode.ALLOWED, ("f",)),
        ),
    ],
)
def test_every_form_of_choice_is_understood(value: Any, choice: ToolChoice) -> None:
    assert decode_tools({"tools": [function()], "tool_choice": value}).choice == choice


@pytest.mark.parametrize(
    "value",
    [
        "any",
        "",
        1,
        [],
        {},
        {"type": "web_search"},
        {"type": "custom", "custom": {"name": "f"}},
        {"type": "function"},
        {"type": "function", "name": "f"},
        {"type": "function", "function": {"name": " "}},
        {"type": "allowed_tools"},
        {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": [NAMED]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": ["auto"], "tools": [NAMED]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": ["f"]}},
    ],
)
def test_any_other_choice_is_refused(value: Any) -> None:
    assert refusal({"tools": [function()], "tool_choice": value})[0] == "invalid_tool_choice"


@pytest.mark.parametrize("value", ["required", NAMED])
def test_a_demanded_call_without_tools_is_refused(value: Any) -> None:
    assert refusal({"tools": [], "tool_choice": value}) == ("missing_tools", "tool_choice")


@pytest.mark.parametrize("value", ["auto", "none"])
def test_a_choice_that_demands_nothing_needs_no_tools(value: str) -> None:
    assert decode_tools({"tool_choice": value}).tools == ()


def test_a_choice_of_an_unknown_function_is_refused() -> None:
    choice = {"type": "function", "function": {"name": "g"}}
    assert refusal({"tools": [function()], "tool_choice": choice}) == ("unknown_tool_choice_function", "tool_choice")


@pytest.mark.parametrize(
    ("value", "mode"),
    [(None, ToolMode.AUTO), ("auto", ToolMode.AUTO), ("none", ToolMode.NONE), ({"name": "f"}, ToolMode.NAMED)],
)
def test_the_legacy_choice_is_understood(value: Any, mode: ToolMode) -> None:
    box = decode_tools({"functions": [{"name": "f"}], "function_call": value})
    assert (box.legacy, box.choice.mode, [tool.name for tool in box.tools]) == (True, mode, ["f"])


@pytest.mark.parametrize("value", ["required", 1, {}, {"name": ""}])
def test_a_wrong_legacy_choice_is_refused(value: Any) -> None:
    assert refusal({"functions": [{"name": "f"}], "function_call": value})[0] == "invalid_tool_choice"


def test_tools_and_functions_together_are_refused() -> None:
    assert refusal({"tools": [function()], "functions": [{"name": "g"}]}) == ("invalid_tools", "functions")


def test_legacy_functions_are_named_by_their_own_path() -> None:
    assert refusal({"functions": [{"name": "f"}, {"name": ""}]}) == ("invalid_tools", "functions[1].name")
