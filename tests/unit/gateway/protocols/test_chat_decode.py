from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.chat.server import decode_request
from ir.errors import ApiError, Kind
from ir.request import Image, Message, Reasoning, Text, Thinking, ToolCall, ToolResult

PIXEL = "data:image/png;base64,iVBORw0KGgo="
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m1", "messages": list(messages) or [{"role": "user", "content": "Hi"}], **more}


def call(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    calls = [
        {"id": name, "type": "function", "function": {"name": "get_weather", "arguments": arguments}} for name in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, content: Any = "1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "Hi"}


def refusal(request: object) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as caught:
        decode_request(request)
    assert caught.value.kind is Kind.INVALID_REQUEST
    return caught.value.code, caught.value.param


def test_system_and_developer_texts_are_one_system_text_in_order() -> None:
    request = decode_request(
        body(
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "In English."}]},
            USER,
        )
    )
    assert request.system == "Be brief.\n\nIn English."
    assert request.messages == (Message("user", (Text("Hi"),)),)


def test_neighbours_of_one_role_become_one_message_and_empty_texts_go() -> None:
    request = decode_request(body(USER, {"role": "user", "content": ""}, {"role": "user", "content": "there"}))
    assert request.messages == (Message("user", (Text("Hi"), Text("there"))),)


def test_a_second_turn_keeps_results_before_text_and_in_the_order_of_their_calls() -> None:
    request = decode_request(
        body(USER, call("c1", "c2"), result("c2", '{"temp":2}'), result("c1", ""), {"role": "user", "content": "Now?"})
    )
    assert request.messages[1].content == (ToolCall("c1", "get_weather", "{}"), ToolCall("c2", "get_weather", "{}"))
    assert request.messages[2].content == (ToolResult("c1", ""), ToolResult("c2", '{"temp":2}'), Text("Now?"))


def test_what_clients_echo_back_in_an_assistant_message_is_accepted() -> None:
    echo: dict[str, Any] = {
        "role": "assistant",
        "content": "Hello",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "reasoning_content": "hm",
    }
    assert decode_request(body(USER, echo)).messages[1].content == (Reasoning("hm"), Text("Hello"))


def test_a_refusal_in_the_history_is_text() -> None:
    parts = [{"type": "refusal", "refusal": "No."}]
    request = decode_request(body(USER, {"role": "assistant", "content": parts}))
    assert request.messages[1].content == (Text("No."),)
    request = decode_request(body(USER, {"role": "assistant", "content": None, "refusal": "No."}))
    assert request.messages[1].content == (Text("No."),)


def test_the_other_name_of_reasoning_is_read_where_it_is_a_text() -> None:
    request = decode_request(body(USER, {"role": "assistant", "content": "a", "reasoning": "hm"}))
    assert request.messages[1].content == (Reasoning("hm"), Text("a"))
    request = decode_request(body(USER, {"role": "assistant", "content": "a", "reasoning": {"effort": "high"}}))
    assert request.messages[1].content == (Text("a"),)


def test_images_are_accepted_from_the_user_and_in_tool_results() -> None:
    image = {"type": "image_url", "image_url": {"url": PIXEL, "detail": "high"}}
    request = decode_request(body({"role": "user", "content": [image]}, call("c1"), result("c1", [image])))
    expected = Image("image/png", "iVBORw0KGgo=")
    assert request.messages[0].content == (expected,)
    assert request.messages[2].content == (ToolResult("c1", (expected,)),)


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ({"role": "narrator", "content": "x"}, "invalid_role", "messages[0].role"),
        ({"role": ["user"], "content": "x"}, "invalid_role", "messages[0].role"),
        ({"content": "x"}, "invalid_role", "messages[0].role"),
        ("x", "invalid_type", "messages[0]"),
        ({"role": "user"}, "invalid_type", "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "invalid_type", "messages[0].content[0]"),
        ({"role": "user", "content": [{"text": "x"}]}, "invalid_type", "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "text"}]}, "invalid_type", "messages[0].content[0].text"),
        (
            {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "input_audio"}]},
            "unsupported_content_type",
            "messages[0].content[1].type",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]},
            "unsupported_image_source",
            "messages[0].content[0].image_url.url",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "data:"}]},
            "invalid_type",
            "messages[0].content[0].image_url",
        ),
        (
            {"role": "system", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]},
            "unsupported_content_type",
            "messages[0].content[0].type",
        ),
        (
            {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]},
            "unsupported_content_type",
            "messages[0].content[0].type",
        ),
        ({"role": "assistant", "audio": {"id": "a"}}, "unsupported_content_type", "messages[0].audio"),
        ({"role": "assistant", "reasoning_content": 1}, "invalid_type", "messages[0].reasoning_content"),
        ({"role": "assistant", "tool_calls": {}}, "invalid_type", "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{}]}, "invalid_type", "messages[0].tool_calls[0].function"),
        ({"role": "tool", "content": "x"}, "invalid_type", "messages[0].tool_call_id"),
        ({"role": "tool", "tool_call_id": "", "content": "x"}, "invalid_value", "messages[0].tool_call_id"),
    ],
)
def test_a_wrong_message_is_refused_with_its_path(message: Any, code: str, param: str) -> None:
    assert refusal({"model": "m1", "messages": [message]}) == (code, param)


@pytest.mark.parametrize("text", ["{city:", "[]", "1", "null", '"x"', '{"a":1', '{"a":' * 300 + "1" + "}" * 300])
def test_arguments_that_are_no_object_are_refused(text: str) -> None:
    code, param = refusal(body(USER, call("c1", arguments=text), result("c1")))
    assert (code, param) == ("invalid_tool_arguments", "messages[1].tool_calls[0].function.arguments")


@pytest.mark.parametrize("text", ["", "  ", None])
def test_empty_arguments_are_an_empty_object(text: Any) -> None:
    request = decode_request(body(USER, call("c1", arguments=text), result("c1")))
    assert request.messages[1].content == (ToolCall("c1", "get_weather", "{}"),)


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([USER, result("c9")], "orphan_tool_result"),
        ([USER, call("c1"), result("c1"), result("c1")], "duplicate_tool_result"),
        ([USER, call("c1"), USER], "missing_tool_result"),
        ([USER, call("c1")], "missing_tool_result"),
        ([USER, call("c1", "c2"), result("c1")], "missing_tool_result"),
        ([USER, call("c1", "c1"), result("c1")], "duplicate_tool_call"),
        ([USER, call("c1"), result("c1"), call("c1"), result("c1")], "duplicate_tool_call"),
        ([USER, {"role": "function", "name": "f", "content": "1"}], "orphan_tool_result"),
    ],
)
def test_calls_and_results_that_do_not_pair_are_refused(messages: list[dict[str, Any]], code: str) -> None:
    assert refusal(body(*messages))[0] == code


def test_the_legacy_form_of_calls_is_paired_by_name() -> None:
    request = decode_request(
        body(
            USER,
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
            {"role": "function", "name": "f", "content": "1"},
            functions=[{"name": "f", "parameters": {"type": "object"}}],
            function_call={"name": "f"},
        )
    )
    assert request.legacy_functions
    assert request.parallel_tool_calls is False
    assert request.messages[1].content == (ToolCall("call_legacy_1", "f", '{"a":1}'),)
    assert request.messages[2].content == (ToolResult("call_legacy_1", "1"),)
    assert request.tool_choice.names == ("f",)


@pytest.mark.parametrize("value", [None, [], "x", 1, True])
def test_a_body_that_is_no_object_is_refused(value: object) -> None:
    assert refusal(value) == ("invalid_json", None)


@pytest.mark.parametrize(
    "messages", [None, [], [{"role": "system", "content": "x"}], [{"role": "user", "content": ""}]]
)
def test_a_request_without_anything_to_answer_is_refused(messages: Any) -> None:
    assert refusal({"model": "m1", "messages": messages}) == ("missing_messages", "messages")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"model": None}, "missing_model", "model"),
        ({"model": ""}, "missing_model", "model"),
        ({"model": 4}, "invalid_type", "model"),
        ({"messages": "x"}, "invalid_type", "messages"),
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"n": "1"}, "invalid_type", "n"),
        ({"n": 0}, "invalid_value", "n"),
        ({"logprobs": True}, "unsupported_parameter", "logprobs"),
        ({"audio": {"voice": "x"}}, "unsupported_parameter", "audio"),
        ({"modalities": ["text", "audio"]}, "unsupported_parameter", "modalities"),
        ({"modalities": "text"}, "invalid_type", "modalities"),
        ({"web_search_options": {}}, "unsupported_parameter", "web_search_options"),
        ({"response_format": {"type": "grammar"}}, "unsupported_response_format", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "invalid_type", "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            "invalid_type",
            "response_format.json_schema.name",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": []}}},
            "invalid_type",
            "response_format.json_schema.schema",
        ),
        ({"response_format": "text"}, "invalid_type", "response_format"),
        ({"temperature": 2.1}, "invalid_value", "temperature"),
        ({"temperature": "1"}, "invalid_type", "temperature"),
        ({"temperature": True}, "invalid_type", "temperature"),
        ({"top_p": -0.1}, "invalid_value", "top_p"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"max_completion_tokens": 1.5}, "invalid_type", "max_completion_tokens"),
        ({"stream": 1}, "invalid_type", "stream"),
        ({"stream_options": []}, "invalid_type", "stream_options"),
        ({"stream_options": {"include_usage": "yes"}}, "invalid_type", "stream_options.include_usage"),
        ({"stop": ""}, "invalid_value", "stop"),
        ({"stop": ["a", ""]}, "invalid_value", "stop[1]"),
        ({"stop": ["a", 1]}, "invalid_type", "stop[1]"),
        ({"stop": list("abcde")}, "invalid_value", "stop"),
        ({"stop": {}}, "invalid_type", "stop"),
        ({"parallel_tool_calls": "no"}, "invalid_type", "parallel_tool_calls"),
        ({"reasoning_effort": "enormous"}, "invalid_value", "reasoning_effort"),
        ({"reasoning_effort": 3}, "invalid_type", "reasoning_effort"),
        ({"user": 7}, "invalid_type", "user"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields: dict[str, Any], code: str, param: str) -> None:
    assert refusal({**body(), **fields}) == (code, param)


def test_a_refusal_never_repeats_what_the_field_held() -> None:
    with pytest.raises(ApiError) as caught:
        decode_request(body({"role": "SECRET-ROLE", "content": "x"}))
    assert "SECRET" not in caught.value.message


def test_fields_with_an_effect_arrive() -> None:
    request = decode_request(
        body(
            max_tokens=5,
            max_completion_tokens=7,
            stop="END",
            temperature=1,
            top_p=0.5,
            stream=True,
            stream_options={"include_usage": True},
            tools=[WEATHER],
            parallel_tool_calls=False,
            prompt_cache_key="k",
            user="u",
        )
    )
    assert (request.max_output_tokens, request.stop, request.temperature, request.top_p) == (7, ("END",), 1.0, 0.5)
    assert (request.stream, request.include_usage, request.parallel_tool_calls) == (True, True, False)
    assert request.session == "k"


def test_the_end_user_is_no_conversation() -> None:
    assert decode_request(body(user="u")).session == ""
    assert decode_request(body()).session == ""


@pytest.mark.parametrize(
    ("effort", "thinking"),
    [
        (None, Thinking()),
        ("none", Thinking(enabled=False)),
        ("minimal", Thinking(enabled=True, effort="minimal")),
        ("xhigh", Thinking(enabled=True, effort="xhigh")),
    ],
)
def test_effort_says_whether_and_how_much_to_think(effort: str | None, thinking: Thinking) -> None:
    assert decode_request(body(reasoning_effort=effort)).thinking == thinking


def test_knobs_and_unknown_fields_are_listed_and_neutral_values_are_not() -> None:
    request = decode_request(
        body(
            seed=1,
            logit_bias={},
            metadata={"a": "b"},
            store=False,
            brand_new={"x": 1},
            user="u",
            n=1,
            logprobs=False,
            modalities=["text"],
            response_format={"type": "text"},
            service_tier=None,
        )
    )
    assert request.ignored == ("seed", "logit_bias", "metadata", "store", "brand_new", "user")


def test_the_name_of_an_unknown_field_cannot_carry_content() -> None:
    assert decode_request(body(**{"my secret\r\nprompt": 1})).ignored == ("unknown_field",)


def test_a_hosted_search_beside_tools_is_ignored_and_listed() -> None:
    assert decode_request(body(tools=[WEATHER], web_search_options={})).ignored == ("web_search_options",)


def test_an_answer_that_the_caller_began_is_listed() -> None:
    assert decode_request(body(USER, {"role": "assistant", "content": "one"})).ignored == ("prefill",)
    assert decode_request(body(USER, {"role": "assistant", "content": "one"}, USER)).ignored == ()
