from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.responses import compact, server
from gateway.protocols.responses.decode import ECHOED
from gateway.protocols.responses.envelope import DEFAULTS
from ir.errors import ApiError
from ir.request import Message, Request, Text, Thinking


def decode(**fields: Any) -> Request:
    return server.decode_request({"model": "m1", "input": "Hi", **fields})


def refusal(body: object) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as caught:
        server.decode_request(body)
    return caught.value.code, caught.value.param


def refused(**fields: Any) -> tuple[str, str | None]:
    return refusal({"model": "m1", "input": "Hi", **fields})


HELLO = (Message("user", (Text("Hi"),)),)


def test_a_string_is_one_user_message_and_instructions_come_before_developer_messages() -> None:
    """Criterion 1; T1, rows system and messages."""
    assert decode() == Request("m1", HELLO, store=True)
    items = [
        {"role": "developer", "content": "In English."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    ]
    request = decode(instructions="Be brief.", input=items)
    assert (request.system, request.messages) == ("Be brief.\n\nIn English.", HELLO)


@pytest.mark.parametrize(
    "empty", [None, [], "", [{"role": "developer", "content": "x"}], [{"role": "user", "content": ""}]]
)
def test_an_input_without_a_dialogue_is_refused(empty: object) -> None:
    assert refused(input=empty) == ("missing_input", "input")


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ([], "invalid_json", None),
        ({"input": "Hi"}, "missing_model", "model"),
        ({"model": "m", "input": 1}, "invalid_type", "input"),
        ({"model": "m", "input": ["x"]}, "invalid_type", "input[0]"),
    ],
)
def test_a_body_of_another_shape_is_refused(body: object, code: str, param: str | None) -> None:
    assert refusal(body) == (code, param)


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"background": True}, "unsupported_parameter", "background"),
        ({"conversation": "conv_1"}, "unsupported_parameter", "conversation"),
        ({"prompt": {"id": "p"}}, "unsupported_parameter", "prompt"),
        ({"generate": False}, "unsupported_parameter", "generate"),
        ({"top_logprobs": 1}, "unsupported_parameter", "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "unsupported_parameter", "include[0]"),
        ({"include": ["reasoning.encrypted_content", "x"]}, "unsupported_parameter", "include[1]"),
        ({"text": {"format": {"type": "grammar"}}}, "unsupported_response_format", "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "invalid_type", "text.format.name"),
        ({"previous_response_id": "resp_x"}, "previous_response_not_found", "previous_response_id"),
        ({"reasoning": {"effort": "huge"}}, "invalid_value", "reasoning.effort"),
        ({"reasoning": {"summary": "long"}}, "invalid_value", "reasoning.summary"),
        ({"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
        ({"temperature": 3}, "invalid_value", "temperature"),
        ({"stream": "yes"}, "invalid_type", "stream"),
        ({"store": 1}, "invalid_type", "store"),
        ({"instructions": []}, "invalid_type", "instructions"),
        ({"metadata": []}, "invalid_type", "metadata"),
        ({"include": "x"}, "invalid_type", "include"),
        ({"text": "x"}, "invalid_type", "text"),
        ({"parallel_tool_calls": "no"}, "invalid_type", "parallel_tool_calls"),
    ],
)
def test_a_field_that_cannot_be_carried_is_refused_by_name(fields: dict[str, Any], code: str, param: str) -> None:
    assert refused(**fields) == (code, param)


def test_an_earlier_response_alone_is_the_error_of_the_tenth_criterion() -> None:
    with pytest.raises(ApiError) as caught:
        server.decode_request({"model": "m1", "previous_response_id": "resp_x", "input": []})
    error = server.encode_error(caught.value, "req_1")
    assert error.status == 400
    assert orjson.loads(error.body)["error"] == {
        "message": "previous_response_id 'resp_x' cannot be resolved and the request has no conversation",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }


@pytest.mark.parametrize(
    "neutral",
    [
        {"background": False},
        {"conversation": None},
        {"truncation": "disabled"},
        {"text": {"format": {"type": "text"}}},
        {"top_logprobs": 0},
        {"include": []},
        {"metadata": {"a": "b"}},
        {"prompt_cache_key": "k"},
        {"previous_response_id": None},
    ],
)
def test_a_value_that_needs_nothing_is_accepted_and_not_listed(neutral: dict[str, Any]) -> None:
    assert decode(**neutral).ignored == ()


@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        ({"truncation": "auto"}, ("truncation",)),
        ({"text": {"verbosity": "low"}}, ("text.verbosity",)),
        ({"client_metadata": {"a": "b"}}, ("client_metadata",)),
        ({"reasoning": {"context": "all_turns"}}, ("reasoning.context",)),
        ({"include": ["web_search_call.action.sources", "file_search_call.results"]}, ("include",)),
        ({"service_tier": "auto", "max_tool_calls": 3, "stop": "x"}, ("service_tier", "max_tool_calls", "stop")),
        ({"sec\nret": 1}, ("unknown_field",)),
    ],
)
def test_knobs_and_unknown_fields_are_listed(fields: dict[str, Any], ignored: tuple[str, ...]) -> None:
    assert decode(**fields).ignored == ignored


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        (None, Thinking()),
        ({}, Thinking()),
        ({"effort": "none"}, Thinking(enabled=False)),
        ({"effort": "xhigh"}, Thinking(enabled=True, effort="xhigh")),
        ({"summary": "auto"}, Thinking(visible=True)),
        ({"effort": "low", "generate_summary": "concise"}, Thinking(enabled=True, effort="low", visible=True)),
    ],
)
def test_thinking_is_shown_to_who_asks_for_a_summary(reasoning: object, thinking: Thinking) -> None:
    assert decode(reasoning=reasoning).thinking == thinking


def test_the_opaque_form_of_thinking_comes_when_it_is_to_be_included() -> None:
    assert decode(include=["reasoning.encrypted_content"]).thinking == Thinking(signed=True)


@pytest.mark.parametrize(("value", "stored"), [(None, True), (True, True), (False, False)])
def test_answers_are_stored_unless_the_caller_says_no(value: object, stored: bool) -> None:
    assert decode(store=value).store is stored


def test_the_turn_s_numbers_and_flags_arrive() -> None:
    request = decode(
        max_output_tokens=5, temperature=1.5, top_p=0.5, stream=True, parallel_tool_calls=False, prompt_cache_key="s"
    )
    assert (request.max_output_tokens, request.temperature, request.top_p) == (5, 1.5, 0.5)
    assert (request.stream, request.parallel_tool_calls, request.session) == (True, False, "s")
    assert decode(user="u").session == ""


def test_the_answer_that_a_turn_goes_on_from_is_known_by_its_id() -> None:
    body = server.Expanded(model="m", input="Hi", previous_response_id="resp_7")
    assert server.decode_request(body).follows == "7"
    assert decode().follows == ""


def test_what_the_answer_repeats_is_what_the_caller_sent() -> None:
    sent = {"instructions": "x", "temperature": 0.1, "metadata": {"a": "b"}, "store": False, "tool_choice": "none"}
    assert decode(**sent, text=None).echo == sent
    assert decode().echo == {}


def test_every_field_that_has_a_default_in_the_answer_is_one_that_it_repeats() -> None:
    assert set(DEFAULTS) <= set(ECHOED)


def test_a_body_nested_deeper_than_can_be_written_is_refused() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    assert refused(metadata=deep)[0] == "invalid_json"
    items = [{"type": "web_search_call", "status": "completed", "action": deep}]
    assert refused(input=items) == ("invalid_value", "input[0]")
    shell = [{"type": "local_shell_call", "call_id": "c", "action": deep}]
    assert refused(input=shell) == ("invalid_value", "input[0].action")


def test_an_answer_that_the_caller_began_is_listed_but_not_one_that_is_to_be_summed_up() -> None:
    begun = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "He"}]
    assert decode(input=begun).ignored == ("prefill",)
    assert decode(input=[*begun, {"type": "compaction_trigger"}]).ignored == ()
    assert compact.decode_request({"model": "m1", "input": begun}).ignored == ()
