"""``decode_request``: the served subset, and every refused feature of the seed's table by its row."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.gemini import features
from gateway.protocols.gemini.decode import decode_request
from gateway.protocols.gemini.paths import Call
from gateway.protocols.gemini.server import encode_error
from ir.errors import ApiError, Kind
from ir.request import Message, Request, Text, Thinking
from tests.gemini import HI, REFUSED, config

CALL = Call("gemini-2.5-flash", "generateContent", stream=False)
STREAM = Call("gemini-2.5-flash", "streamGenerateContent", stream=True, sse=True)


def decode(call: Call = CALL, **fields: Any) -> Request:
    return decode_request({"contents": HI, **fields}, call)


def refusal(call: Call = CALL, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decode(call, **fields)
    return caught.value


def shown(error: ApiError) -> tuple[int, str, str]:
    """Status code, status and field, as the caller reads them."""
    reply = encode_error(error, "req_1")
    body = orjson.loads(reply.body)["error"]
    assert body["code"] == reply.status
    [request] = [entry for entry in body["details"] if entry["@type"].endswith("google.rpc.BadRequest")]
    [violation] = request["fieldViolations"]
    assert violation["description"]
    return reply.status, body["status"], violation["field"]


@pytest.mark.parametrize(("fields", "field"), REFUSED)
def test_a_refused_feature_names_its_field(fields: dict[str, Any], field: str) -> None:
    assert shown(refusal(**fields)) == (400, "INVALID_ARGUMENT", field)


def test_every_feature_of_the_tables_has_a_row_here_or_is_refused_alike() -> None:
    for name, feature in features.TOOLS.items():
        error = refusal(tools=[{name: {"x": 1}}])
        assert (error.message, error.param) == (feature.message, f"tools[0].{name}")
    for name, feature in features.PARTS.items():
        error = refusal(contents=[{"parts": [{name: {}}]}])
        assert (error.message, error.param) == (feature.message, f"contents[0].parts[0].{name}")
    for name, feature in features.CONFIG.items():
        error = refusal(generationConfig={name: {}})
        assert (error.message, error.param) == (feature.message, f"generationConfig.{name}")
    for name, feature in features.BODY.items():
        error = refusal(CALL, **{name: "x"})
        assert (error.message, error.param) == (feature.message, name)


def test_the_refusal_of_tools_is_the_seeds_sample() -> None:
    reply = encode_error(refusal(tools=[{"functionDeclarations": [{"name": "f"}]}]), "req_1")
    assert reply.body.decode() == (
        '{"error":{"code":400,"message":"Function calling is not supported by this endpoint.",'
        '"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest",'
        '"fieldViolations":[{"field":"tools[0].functionDeclarations","description":"Remove tools from the request."}]},'
        '{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_FEATURE","domain":"gateway",'
        '"metadata":{"feature":"function_calling"}}]}}'
    )


def test_a_stream_without_alt_sse_is_refused() -> None:
    error = refusal(Call("m", "streamGenerateContent", stream=True))
    assert shown(error) == (400, "INVALID_ARGUMENT", "alt")


def test_a_missing_model_is_refused() -> None:
    assert shown(refusal(Call("", "generateContent", stream=False))) == (400, "INVALID_ARGUMENT", "model")


@pytest.mark.parametrize("body", [None, [], "x", 3, True])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    with pytest.raises(ApiError) as caught:
        decode_request(body, CALL)
    assert (caught.value.kind, caught.value.code) == (Kind.INVALID_REQUEST, "invalid_json")


def test_criterion_1_system_and_user_text() -> None:
    request = decode(systemInstruction={"parts": [{"text": "Be brief."}, {"text": "In English."}]})
    assert request == Request(
        model="gemini-2.5-flash", system="Be brief.\n\nIn English.", messages=(Message("user", (Text("Hi"),)),)
    )


def test_criterion_2_the_url_tells_whether_to_stream_and_which_model() -> None:
    request = decode(STREAM, model="models/other", stream=False)
    assert (request.model, request.stream) == ("gemini-2.5-flash", True)
    assert request.ignored == ("model", "stream")


def test_criterion_11_calls_in_the_history_are_refused_whatever_their_arguments() -> None:
    error = refusal(contents=[{"role": "model", "parts": [{"functionCall": {"name": "f", "args": "{city:"}}]}])
    assert shown(error) == (400, "INVALID_ARGUMENT", "contents[0].parts[0].functionCall")


def test_criterion_12_unsupported_content_is_refused_by_its_path() -> None:
    error = refusal(contents=[{"parts": [{"text": "x"}, {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}]}])
    assert shown(error) == (400, "INVALID_ARGUMENT", "contents[0].parts[1].inlineData")


def test_both_spellings_mean_the_same_at_every_level() -> None:
    camel = decode(
        systemInstruction={"parts": [{"text": "s"}]},
        generationConfig={
            "maxOutputTokens": 9,
            "stopSequences": ["X"],
            "thinkingConfig": {"thinkingBudget": 100, "includeThoughts": True},
        },
    )
    snake = decode(
        system_instruction={"parts": [{"text": "s"}]},
        generation_config={
            "max_output_tokens": 9,
            "stop_sequences": ["X"],
            "thinking_config": {"thinking_budget": 100, "include_thoughts": True},
        },
    )
    assert camel == snake
    assert camel.max_output_tokens == 9
    assert camel.stop == ("X",)


def test_a_field_in_both_spellings_is_refused() -> None:
    error = refusal(systemInstruction={"parts": []}, system_instruction={"parts": []})
    assert shown(error) == (400, "INVALID_ARGUMENT", "systemInstruction")


def test_null_is_the_same_as_absent() -> None:
    assert decode(tools=None, cachedContent=None, generationConfig={"responseSchema": None}) == decode()


def test_a_list_of_one_may_stand_without_brackets() -> None:
    request = decode(contents={"parts": {"text": "Hi"}}, system_instruction={"parts": {"text": "s"}})
    assert request == decode(systemInstruction={"parts": [{"text": "s"}]})


def test_a_missing_role_is_the_users_and_neighbours_are_merged() -> None:
    turns = [{"parts": [{"text": "a"}]}, {"role": "user", "parts": [{"text": "b"}, {"text": ""}]}]
    model = {"role": "model", "parts": [{"text": "c", "thoughtSignature": "AA=="}]}
    assert decode(contents=[*turns, model, *HI]).messages == (
        Message("user", (Text("a"), Text("b"))),
        Message("assistant", (Text("c"),)),
        Message("user", (Text("Hi"),)),
    )


def test_thoughts_of_the_history_are_dropped_and_listed() -> None:
    model = {"role": "model", "parts": [{"text": "hm", "thought": True}, {"thoughtSignature": "AA=="}]}
    request = decode(contents=[*HI, model, *HI])
    assert request.messages == (Message("user", (Text("Hi"), Text("Hi"))),)
    assert request.ignored == ("contents.parts.thought",)


def test_knobs_without_effect_are_listed() -> None:
    request = decode(
        safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        labels={"team": "a"},
        generationConfig={
            "temperature": 0,
            "topP": 0.5,
            "topK": 3.0,
            "seed": 1,
            "presencePenalty": 0.1,
            "frequency_penalty": 0.1,
            "candidateCount": 1,
            "responseMimeType": "text/plain",
            "responseModalities": ["TEXT"],
            "responseLogprobs": False,
        },
    )
    assert request.ignored == (
        "safetySettings",
        "labels",
        "generationConfig.temperature",
        "generationConfig.topP",
        "generationConfig.topK",
        "generationConfig.seed",
        "generationConfig.presencePenalty",
        "generationConfig.frequencyPenalty",
    )


def test_empty_lists_and_a_tool_config_that_wants_nothing_are_nothing() -> None:
    request = decode(
        tools=[], safetySettings=[], toolConfig={"functionCallingConfig": {"mode": "NONE"}}, generationConfig={}
    )
    assert request == decode()
    assert decode(tools=[{"functionDeclarations": []}], tool_config={}) == decode()


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        ({}, Thinking()),
        ({"includeThoughts": False}, Thinking()),
        ({"includeThoughts": True}, Thinking(enabled=True, visible=True)),
        ({"thinkingBudget": 0, "includeThoughts": True}, Thinking(enabled=False, visible=True)),
        ({"thinkingBudget": 8192}, Thinking(enabled=True, budget_tokens=8192)),
        ({"thinkingBudget": -1}, Thinking(enabled=True)),
        ({"thinkingLevel": "HIGH"}, Thinking(enabled=True, effort="high")),
        ({"thinking_level": "minimal"}, Thinking(enabled=True, effort="minimal")),
        ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, Thinking()),
    ],
)
def test_thinking_config_becomes_effort_or_budget(thinking: dict[str, Any], expected: Thinking) -> None:
    assert decode(generationConfig={"thinkingConfig": thinking}).thinking == expected


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"contents": "Hi"}, "contents"),
        ({"contents": ["Hi"]}, "contents[0]"),
        ({"contents": [{"parts": "Hi"}]}, "contents[0].parts"),
        ({"contents": [{"parts": [{"text": 1}]}]}, "contents[0].parts[0].text"),
        ({"contents": [{"role": 1, "parts": [{"text": "x"}]}]}, "contents[0].role"),
        ({"systemInstruction": "Be brief."}, "systemInstruction"),
        (config(maxOutputTokens=0), "generationConfig.maxOutputTokens"),
        (config(maxOutputTokens="9"), "generationConfig.maxOutputTokens"),
        (config(maxOutputTokens=1.5), "generationConfig.maxOutputTokens"),
        (config(maxOutputTokens=True), "generationConfig.maxOutputTokens"),
        (config(temperature="hot"), "generationConfig.temperature"),
        (config(stopSequences="X"), "generationConfig.stopSequences"),
        (config(stopSequences=[""]), "generationConfig.stopSequences[0]"),
        (config(stopSequences=list("abcdef")), "generationConfig.stopSequences"),
        (config(thinkingConfig={"thinkingBudget": -2}), "generationConfig.thinkingConfig.thinkingBudget"),
        (config(thinkingConfig={"thinkingLevel": "MOST"}), "generationConfig.thinkingConfig.thinkingLevel"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "x"}}}, "toolConfig.functionCallingConfig.mode"),
    ],
)
def test_a_wrong_type_or_value_names_its_field(fields: dict[str, Any], field: str) -> None:
    assert shown(refusal(**fields)) == (400, "INVALID_ARGUMENT", field)


def test_as_many_stop_sequences_as_google_takes_are_taken() -> None:
    assert decode(generationConfig={"stopSequences": list("abcde")}).stop == tuple("abcde")


def test_an_unknown_name_that_is_no_name_is_not_repeated() -> None:
    error = refusal(CALL, **{"my secret plan": 1})
    assert "secret" not in error.message + str(error.param)
    assert error.param == "unknown_field"
