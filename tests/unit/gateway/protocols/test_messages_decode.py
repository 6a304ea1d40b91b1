"""The envelope of a request: fields, thinking, tools and their choice."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.messages.server import decode_request
from ir.errors import ApiError, Kind
from ir.extras import Extras
from ir.request import Message, OutputFormat, Request, Text, Thinking, Tool, ToolChoice, ToolMode

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "get_weather", "description": "Weather", "input_schema": SCHEMA}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
DEEP = orjson.loads(b'{"a":' * 300 + b"1" + b"}" * 300)
ENABLED = {"type": "enabled", "budget_tokens": 1024}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m1", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}], **fields}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in body().items() if key != name}


def refusal(request: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decode_request(request)
    assert caught.value.kind is Kind.INVALID_REQUEST
    return caught.value


def test_the_smallest_request() -> None:
    assert decode_request(body()) == Request("m1", (Message("user", (Text("Hi"),)),), max_output_tokens=4096)


def test_every_field_that_can_be_carried_is_carried() -> None:
    request = decode_request(
        body(
            system="Be brief.",
            stream=True,
            temperature=1,
            top_p=0.5,
            top_k=40,
            stop_sequences=["END", " x"],
            metadata={"user_id": "user_ab12_account__session_session-1"},
            tools=[WEATHER],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
        )
    )
    assert request == Request(
        "m1",
        (Message("user", (Text("Hi"),)),),
        system="Be brief.",
        tools=(Tool("get_weather", "Weather", SCHEMA),),
        tool_choice=ToolChoice(ToolMode.REQUIRED),
        parallel_tool_calls=False,
        max_output_tokens=4096,
        stop=("END", " x"),
        temperature=1.0,
        top_p=0.5,
        top_k=40,
        stream=True,
        session="session-1",
        extras=Extras("messages", {"metadata": {"user_id": "user_ab12_account__session_session-1"}}),
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "array"}}}}, "output_config.format"),
        ({"output_format": {"type": "json_schema", "schema": {"type": "array"}}}, "output_format"),
    ],
)
def test_the_form_of_the_answer_stands_in_either_field(fields: dict[str, Any], param: str) -> None:
    assert decode_request(body(**fields)).output_format == OutputFormat(param, {"type": "array"})


def test_null_is_the_same_as_absent() -> None:
    names = ["system", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "tools", "tool_choice"]
    extra = ["thinking", "output_config", "thread", "mcp_servers", "container", "output_format", "service_tier"]
    assert decode_request(body(**dict.fromkeys([*names, *extra]))) == decode_request(body())


@pytest.mark.parametrize(
    ("request_body", "code", "param", "message"),
    [
        ([], "invalid_json", None, "the request body must be a JSON object"),
        (None, "invalid_json", None, "the request body must be a JSON object"),
        (without("model"), "invalid_type", "model", "model: must be a string that is not empty"),
        (body(model=""), "invalid_type", "model", "model: must be a string that is not empty"),
        (without("max_tokens"), "missing_max_tokens", "max_tokens", "max_tokens: Field required"),
        (body(max_tokens=0), "invalid_value", "max_tokens", "max_tokens: must be greater than or equal to 1"),
        (body(max_tokens="10"), "invalid_type", "max_tokens", "max_tokens: must be a whole number"),
        (body(max_tokens=True), "invalid_type", "max_tokens", "max_tokens: must be a whole number"),
        (body(stream="yes"), "invalid_type", "stream", "stream: must be true or false"),
        (body(temperature=1.5), "invalid_value", "temperature", "temperature: must be between 0 and 1"),
        (body(temperature="hot"), "invalid_type", "temperature", "temperature: must be a number"),
        (body(top_p=-0.1), "invalid_value", "top_p", "top_p: must be between 0 and 1"),
        (body(top_k=-1), "invalid_value", "top_k", "top_k: must be greater than or equal to 0"),
        (body(top_k=1.5), "invalid_type", "top_k", "top_k: must be a whole number"),
        (body(stop_sequences="END"), "invalid_type", "stop_sequences", "stop_sequences: must be a list"),
        (body(stop_sequences=[1]), "invalid_type", "stop_sequences.0", "stop_sequences.0: must be a string"),
        (
            body(stop_sequences=["a", " \n"]),
            "invalid_value",
            "stop_sequences.1",
            "stop_sequences.1: each stop sequence must contain non-whitespace",
        ),
        (body(metadata="x"), "invalid_type", "metadata", "metadata: must be an object"),
        (body(metadata={"user_id": 1}), "invalid_type", "metadata.user_id", "metadata.user_id: must be a string"),
        (body(system=1), "invalid_type", "system", "system: must be a list"),
        (body(system=[{"type": "text"}]), "invalid_type", "system.0.text", "system.0.text: must be a string"),
        (
            body(system=[{"type": "image"}]),
            "unsupported_content_type",
            "system.0",
            "system.0: only text blocks are supported here",
        ),
        (body(tools={}), "invalid_type", "tools", "tools: must be a list"),
        (body(tools=["x"]), "invalid_type", "tools.0", "tools.0: must be an object"),
    ],
)
def test_a_wrong_field_is_refused_by_name(request_body: object, code: str, param: str | None, message: str) -> None:
    error = refusal(request_body)
    assert (error.code, error.param, error.message) == (code, param, message)


def test_system_blocks_are_joined_by_a_blank_line_and_empty_ones_dropped() -> None:
    system = [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": ""},
        {"type": "text", "text": "In English."},
    ]
    assert decode_request(body(system=system)).system == "Be brief.\n\nIn English."


def test_unknown_fields_are_listed_and_cache_control_is_not() -> None:
    request = decode_request(
        body(service_tier="auto", context_management={}, cache_control={"type": "ephemeral"}, betas=["x"])
    )
    assert request.ignored == ("service_tier", "context_management", "betas")


def test_a_field_name_that_is_a_sentence_is_not_repeated() -> None:
    assert decode_request(body(**{"my password\r\nis": 1})).ignored == ("unknown_field",)


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}])
def test_a_thread_is_refused_with_the_details_that_make_the_sdk_send_the_whole_history(thread: object) -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}
    error = refusal(body(thread=thread, messages=[{"role": "user", "content": [result]}]))
    assert error.details == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"mcp_servers": [{"type": "url", "url": "http://x", "name": "m"}]}, "unsupported_parameter"),
        ({"container": "c1"}, "unsupported_parameter"),
        ({"output_config": {"format": {"type": "json_object"}}}, "unsupported_response_format"),
        ({"output_format": {"type": "text"}}, "unsupported_response_format"),
        ({"output_format": {"type": "json_schema"}}, "invalid_type"),
    ],
)
def test_what_only_anthropic_can_do_is_refused(fields: dict[str, Any], code: str) -> None:
    error = refusal(body(**fields))
    assert error.code == code
    assert error.param is not None
    assert error.param.split(".")[0] in fields


def test_no_mcp_servers_are_none() -> None:
    assert decode_request(body(mcp_servers=[])).ignored == ("mcp_servers",)


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (ENABLED, Thinking(enabled=True, budget_tokens=1024, visible=True)),
        ({**ENABLED, "display": "summarized"}, Thinking(enabled=True, budget_tokens=1024, visible=True)),
        ({**ENABLED, "display": "omitted"}, Thinking(enabled=True, budget_tokens=1024)),
        ({"type": "adaptive"}, Thinking(enabled=True, visible=True)),
        ({"type": "adaptive", "display": "omitted"}, Thinking(enabled=True)),
        ({"type": "adaptive", "display": "updates"}, Thinking(enabled=True, visible=True)),
        ({"type": "disabled"}, Thinking(enabled=False)),
    ],
)
def test_thinking(thinking: object, expected: Thinking) -> None:
    assert decode_request(body(thinking=thinking)).thinking == expected


@pytest.mark.parametrize(
    ("thinking", "param"),
    [
        ("on", "thinking"),
        ({}, "thinking.type"),
        ({"type": "sometimes"}, "thinking.type"),
        ({"type": "enabled"}, "thinking.enabled.budget_tokens"),
        ({"type": "enabled", "budget_tokens": 1023}, "thinking.enabled.budget_tokens"),
        ({"type": "enabled", "budget_tokens": 4096}, "thinking.enabled.budget_tokens"),
        ({"type": "adaptive", "display": 1}, "thinking.display"),
    ],
)
def test_wrong_thinking_is_refused(thinking: object, param: str) -> None:
    assert refusal(body(thinking=thinking)).param == param


@pytest.mark.parametrize(("effort", "expected"), [("low", "low"), ("xhigh", "xhigh"), ("max", "xhigh")])
def test_effort(effort: str, expected: str) -> None:
    request = decode_request(body(output_config={"effort": effort}))
    assert (request.thinking, request.ignored) == (Thinking(effort=expected), ())


def test_an_effort_that_nobody_knows_yet_is_ignored_and_listed() -> None:
    request = decode_request(body(output_config={"effort": "ultra"}))
    assert (request.thinking, request.ignored) == (Thinking(), ("output_config.effort",))


def test_a_tool_keeps_its_schema_untouched_and_a_deferred_one_is_kept() -> None:
    schema = {"$schema": "x", "type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}}
    tool = {"name": "f", "input_schema": schema, "defer_loading": True, "cache_control": {"type": "ephemeral"}}
    request = decode_request(body(tools=[{**tool, "strict": True, "type": "custom", "eager_input_streaming": True}]))
    assert (request.tools, request.ignored) == ((Tool("f", "", schema, strict=True),), ())


@pytest.mark.parametrize("schema", [None, {}, {"properties": {}}])
def test_a_schema_without_a_root_type_becomes_one_of_an_object(schema: object) -> None:
    tool = decode_request(body(tools=[{"name": "f", "input_schema": schema}])).tools[0]
    assert tool.schema["type"] == "object"


@pytest.mark.parametrize("schema", ["x", [], {"type": "string"}, {"type": ["object", "null"]}, {"type": None}, DEEP])
def test_a_schema_whose_root_is_no_object_or_that_nobody_can_write_again_is_refused(schema: object) -> None:
    error = refusal(body(tools=[{"name": "f", "input_schema": schema}]))
    assert (error.code, error.param) == ("invalid_tool_schema", "tools.0.input_schema")


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, None, 1, "é", "f\n"])
def test_a_bad_tool_name_is_refused(name: object) -> None:
    error = refusal(body(tools=[{"name": name, "input_schema": SCHEMA}]))
    assert (error.code, error.param) == ("invalid_tools", "tools.0.name")


def test_a_tool_name_may_have_128_characters_and_comes_once() -> None:
    assert decode_request(body(tools=[{**WEATHER, "name": "x" * 128}])).tools[0].name == "x" * 128
    error = refusal(body(tools=[WEATHER, WEATHER]))
    assert (error.code, error.param) == ("invalid_tools", "tools.1")


def test_no_tools_are_fine() -> None:
    assert decode_request(body(tools=[])).tools == ()


def test_anthropics_own_tools_beside_a_portable_one_are_dropped_and_listed() -> None:
    request = decode_request(body(tools=[SEARCH, WEATHER, {"type": "bash_20250124", "name": "bash"}]))
    assert [tool.name for tool in request.tools] == ["get_weather"]
    assert request.ignored == ("tools.0", "tools.2")


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [SEARCH]},
        {"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
        {"tools": [SEARCH, WEATHER], "tool_choice": {"type": "tool", "name": "web_search"}},
    ],
)
def test_anthropics_own_tools_alone_or_forced_are_refused(fields: dict[str, Any]) -> None:
    assert refusal(body(**fields)).code == "unsupported_tool_type"


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, ToolChoice(), None),
        ({"type": "none"}, ToolChoice(ToolMode.NONE), None),
        ({"type": "any"}, ToolChoice(ToolMode.REQUIRED), None),
        ({"type": "tool", "name": "get_weather"}, ToolChoice(ToolMode.NAMED, ("get_weather",)), None),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(), False),
        ({"type": "auto", "disable_parallel_tool_use": False}, ToolChoice(), True),
    ],
)
def test_tool_choice(choice: object, expected: ToolChoice, parallel: bool | None) -> None:
    request = decode_request(body(tools=[WEATHER], tool_choice=choice))
    assert (request.tool_choice, request.parallel_tool_calls) == (expected, parallel)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tool_choice": "auto"}, "invalid_tool_choice"),
        ({"tool_choice": {"type": "function"}}, "invalid_tool_choice"),
        ({"tool_choice": {"type": []}}, "invalid_tool_choice"),
        ({"tool_choice": {"type": "tool"}, "tools": [WEATHER]}, "invalid_tool_choice"),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}, "invalid_type"),
        ({"tool_choice": {"type": "any"}}, "missing_tools"),
        ({"tool_choice": {"type": "any"}, "tools": []}, "missing_tools"),
        ({"tool_choice": {"type": "tool", "name": "f"}}, "missing_tools"),
        ({"tool_choice": {"type": "tool", "name": "f"}, "tools": [WEATHER]}, "unknown_tool_choice_function"),
        ({"tool_choice": {"type": "any"}, "tools": [WEATHER], "thinking": ENABLED}, "thinking_with_forced_tool"),
    ],
)
def test_a_choice_that_cannot_be_met_is_refused(fields: dict[str, Any], code: str) -> None:
    assert refusal(body(**fields)).code == code


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_a_free_choice_needs_no_tools(kind: str) -> None:
    assert decode_request(body(tool_choice={"type": kind})).tools == ()


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        ('{"device_id":"d","account_uuid":"","session_id":"0000-1"}', "0000-1"),
        ("user_ab12_account_cd34_session_0000-1", "0000-1"),
        ("user_ab12_account__session_0000-1", "0000-1"),
        ("user-17", ""),
        ("", ""),
        (None, ""),
        ('{"session_id":17}', ""),
        ('{"session_id"', ""),
        ("{" + "x" * 2000, ""),
        ('{"session_id":"' + "x" * 2000 + '"}', ""),
    ],
)
def test_the_session_is_read_from_the_user_s_id_as_claude_code_writes_it(user_id: str | None, session: str) -> None:
    assert decode_request(body(metadata={"user_id": user_id})).session == session
