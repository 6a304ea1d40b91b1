"""Bodies that cannot be served: refused with the right status in the caller's protocol, with the field named, with a
record, and with no upstream asked."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.functional.callers import CHAT, MESSAGES, PATHS, body_of, error_of, post
from tests.functional.conftest import Expectation
from tests.plugins.house import House

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 60).decode()
LONE = ("\\ud800", "\\udc00", "\\ud83dx")

Where = Callable[[str, Any], dict[str, Any]]


def tools(path: str, *, name: Any = "t", description: Any = "d", schema: Any = None, count: int = 1) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}} if schema is None else schema
    made = []
    for index in range(count):
        called = name if count == 1 else f"{name}{index}"
        if path == CHAT:
            function = {"name": called, "description": description, "parameters": schema}
            made.append({"type": "function", "function": function})
        else:
            made.append({"name": called, "description": description, "input_schema": schema})
    return {"tools": made}


def history(path: str, *, arguments: Any = "{}", call: Any = "c1", result_for: Any = "c1", result: Any = "r",
            results: int = 1) -> dict[str, Any]:  # fmt: skip
    """A turn with one tool call and its results. ``arguments`` is text on Chat; on Messages what that text holds."""
    asked = {"role": "user", "content": "x"}
    if path == CHAT:
        function = {"name": "t", "arguments": arguments}
        called = {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": function}]}
        answered = [{"role": "tool", "tool_call_id": result_for, "content": result}] * results
        return {"messages": [asked, called, *answered]}
    given = json.loads(arguments) if isinstance(arguments, str) else arguments
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "t", "input": given}]}
    blocks = [{"type": "tool_result", "tool_use_id": result_for, "content": result}] * results
    return {"messages": [asked, called, *([{"role": "user", "content": blocks}] if blocks else [])]}


def image(path: str, data: str = PNG, media_type: str = "image/png", count: int = 1) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    if path == MESSAGES:
        part = {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    return {"messages": [{"role": "user", "content": [part] * count}]}


def parts(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


RAW = {
    "nothing": b"",
    "half an object": b'{"model": "sim-echo"',
    "not an object": b"[]",
    "a bare null": b"null",
    "invalid UTF-8": b'{"model": "sim-echo\xff"}',
    "UTF-16": '{"model": "sim-echo"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "deep nesting": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "NaN": b'{"model": NaN}',
    "a number without end": b'{"max_tokens": 1e999}',
    "an integer of 5000 digits": b'{"max_tokens": ' + b"9" * 5000 + b"}",
    "a trailing comma": b'{"model": "sim-echo",}',
    "a control character": b'{"model": "sim-echo\x01"}',
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_what_is_not_the_json_of_an_object_is_refused(
    untouched: House, refused: Expectation, path: str, raw: bytes
) -> None:
    answer = post(untouched, path, raw)
    refused(answer, 400, "invalid_json")
    assert error_of(path, answer)["type"] == "invalid_request_error"


# What is wrong → fields on top of a good body, the code, and what the message must name (Chat, Messages).
FAULTS: dict[str, tuple[Where | dict[str, Any], str, str, str]] = {
    "no model": ({"model": None}, "missing_model|invalid_type", "model", "model"),
    "model is a number": ({"model": 5}, "invalid_type", "model", "model"),
    "messages is text": ({"messages": "x"}, "invalid_type", "messages", "messages"),
    "messages is empty": ({"messages": []}, "missing_messages", "messages", "messages"),
    "a message is a number": ({"messages": [1]}, "invalid_type", "messages[0]", "messages.0"),
    "nothing but empty text": (parts({"type": "text", "text": ""}), "missing_messages", "messages", "messages"),
    "an unknown role": (
        {"messages": [{"role": "judge", "content": "x"}]}, "invalid_role", "messages[0].role", "messages.0.role",
    ),
    "content is a number": (
        {"messages": [{"role": "user", "content": 5}]}, "invalid_type", "messages[0].content", "messages.0.content",
    ),
    "an unknown part": (
        parts({"type": "video"}), "unsupported_content_type", "messages[0].content[0].type", "messages.0.content.0",
    ),
    "a part without a type": (
        parts({"text": "x"}), "invalid_type", "messages[0].content[0].type", "messages.0.content.0.type",
    ),
    "max_tokens is zero": ({"max_tokens": 0}, "invalid_value", "max_tokens", "max_tokens"),
    "max_tokens is text": ({"max_tokens": "many"}, "invalid_type", "max_tokens", "max_tokens"),
    "temperature is huge": ({"temperature": 1e300}, "invalid_value", "temperature", "temperature"),
    "stream is text": ({"stream": "yes"}, "invalid_type", "stream", "stream"),
    "tools is an object": ({"tools": {}}, "invalid_tools|invalid_type", "tools", "tools"),
    "a tool has a bad name": (
        lambda path, _: tools(path, name="a b"), "invalid_tools", "tools[0].function.name", "tools.0.name",
    ),
    "a schema is a list": (
        lambda path, _: tools(path, schema=[1]), "invalid_tool_schema", "tools[0].function.parameters",
        "tools.0.input_schema",
    ),
    "a schema without a bottom": (
        lambda path, _: tools(path, schema={"type": "object", "properties": nested(300)}), "invalid_tool_schema",
        "tools[0].function.parameters", "tools.0.input_schema",
    ),
    "arguments without a bottom": (
        lambda path, _: history(path, arguments=json.dumps(nested(300))), "invalid_tool_arguments",
        "messages[1].tool_calls[0].function.arguments", "messages.1.content.0.input",
    ),
    "arguments that are a list": (
        lambda path, _: history(path, arguments="[1]"), "invalid_tool_arguments",
        "messages[1].tool_calls[0].function.arguments", "messages.1.content.0.input",
    ),
    "a result for a call that nobody made": (
        lambda path, _: history(path, result_for="c2"), "orphan_tool_result", "messages[2]", "messages.2",
    ),
    "a call without its result": (
        lambda path, _: history(path, results=0), "missing_tool_result", "messages[1]", "messages.1",
    ),
    "two results for one call": (
        lambda path, _: history(path, results=2), "duplicate_tool_result", "messages[2]", "messages.2",
    ),
    "a forced tool that is not there": (
        lambda path, _: {
            **tools(path),
            "tool_choice": {"type": "function", "function": {"name": "z"}} if path == CHAT
            else {"type": "tool", "name": "z"},
        },
        "unknown_tool_choice_function", "tool_choice", "tool_choice",
    ),
    "an image from an address": (
        lambda path, _: parts(
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}} if path == CHAT
            else {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
        ),
        "unsupported_image_source", "messages[0].content[0].image_url.url", "messages.0.content.0",
    ),
    "an image of another kind": (
        lambda path, _: image(path, media_type="image/tiff"), "invalid_image", "messages[0].content[0].image_url.url",
        "messages.0.content.0",
    ),
    "an image that is not what it says": (
        lambda path, _: image(path, media_type="image/gif"), "invalid_image", "image 1", "image 1",
    ),
    "an image in broken Base64": (
        lambda path, _: image(path, data="A" * 63 + "!"), "invalid_image", "image 1", "image 1",
    ),
}  # fmt: skip


def build(path: str, fields: Where | dict[str, Any]) -> dict[str, Any]:
    return body_of(path) | (fields(path, None) if callable(fields) else fields)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("fields", "codes", "chat", "messages"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named(
    untouched: House, refused: Expectation, path: str, fields: Where | dict[str, Any], codes: str, chat: str,
    messages: str,
) -> None:  # fmt: skip
    answer = post(untouched, path, build(path, fields))
    error = error_of(path, answer)
    code = error["code"] if path == CHAT else next(iter(codes.split("|")[::-1]))
    assert code in codes.split("|")
    refused(answer, 400, code)
    assert error["type"] == "invalid_request_error"
    assert (chat if path == CHAT else messages) in error["message"]
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("field", ["content", "description", "schema", "result", "arguments", "call", "stop", "user"])
@pytest.mark.parametrize("path", PATHS)
def test_half_a_surrogate_pair_is_no_text_wherever_it_stands(
    untouched: House, refused: Expectation, path: str, field: str
) -> None:
    made: dict[str, dict[str, Any]] = {
        "content": parts({"type": "text", "text": "@"}),
        "description": tools(path, description="@"),
        "schema": tools(path, schema={"type": "object", "properties": {"@": {}}}),
        "result": history(path, result="@"),
        "arguments": history(path, arguments='{"a":"@"}'),
        "call": history(path, call="@", result_for="@"),
        "stop": {"stop": ["@"], "stop_sequences": ["@"]},
        "user": {"user": "@", "metadata": {"user_id": "@"}},
    }
    for lone in LONE:
        text = json.dumps(body_of(path) | made[field])
        escaped = lone.replace("\\", "\\\\") if (field, path) == ("arguments", CHAT) else lone
        answer = post(untouched, path, text.replace("@", escaped).encode())
        refused(answer, 400, "invalid_tool_arguments" if "\\\\" in escaped else "invalid_json")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "model",
    ["nope", "m" * 100_000, "sim-echo\r\nx-evil: 1", "sim-\0", "sim-[e]cho", "*", "sim-echo-thinking-thinking", "../x"],
)
def test_a_model_that_is_none_of_ours_is_not_found(
    untouched: House, refused: Expectation, path: str, model: str
) -> None:
    answer = post(untouched, path, body_of(path, model))
    refused(answer, 404, "model_not_found")
    assert "x-evil" not in answer.headers
    assert error_of(path, answer)["type"] == ("invalid_request_error" if path == CHAT else "not_found_error")


def test_messages_demands_max_tokens(untouched: House, refused: Expectation) -> None:
    answer = post(untouched, MESSAGES, {"model": "sim-echo", "messages": [{"role": "user", "content": "x"}]})
    refused(answer, 400, "missing_max_tokens")
    assert error_of(MESSAGES, answer)["message"] == "max_tokens: Field required"


OVERSIZE: dict[str, tuple[Where, str, str]] = {
    "tools": (
        lambda path, _: tools(path, count=129), "tool_definitions_exceeded", "129 definitions exceed the limit of 128",
    ),
    "schemas": (
        lambda path, _: tools(path, schema={"type": "object", "description": "x" * 262_144}),
        "tool_schema_bytes_exceeded", "exceed the limit of 262144",
    ),
    "images": (lambda path, _: image(path, count=21), "image_count_exceeded", "21 images exceed the limit of 20"),
    "one image": (
        lambda path, _: image(path, data="A" * (5 * 1024 * 1024 // 3 * 4 + 8)), "image_too_large",
        "exceed the limit of 5242880",
    ),
    "images together": (
        lambda path, _: image(path, data="A" * (1024 * 1024 // 3 * 4), count=7), "image_total_exceeded",
        "exceed the limit of 6291456",
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("fields", "code", "told"), OVERSIZE.values(), ids=OVERSIZE)
def test_too_much_is_refused_with_limit_and_actual_value(
    untouched: House, refused: Expectation, path: str, fields: Where, code: str, told: str
) -> None:
    answer = post(untouched, path, build(path, fields))
    refused(answer, 413, code)
    error = error_of(path, answer)
    assert error["type"] == ("invalid_request_error" if path == CHAT else "request_too_large")
    assert told in error["message"]


@pytest.mark.parametrize("path", PATHS)
def test_a_prompt_that_no_window_holds_is_refused_in_the_words_clients_compact_on(
    untouched: House, refused: Expectation, path: str
) -> None:
    answer = post(untouched, path, body_of(path, text="word " * 300_000))
    refused(answer, 400, "context_length_exceeded")
    assert "prompt is too long: " in error_of(path, answer)["message"]
    assert " maximum" in error_of(path, answer)["message"]


@pytest.mark.parametrize("path", PATHS)
def test_a_body_over_the_limit_is_refused(untouched: House, refused: Expectation, path: str) -> None:
    answer = post(untouched, path, b'{"a": "' + b"x" * (33 * 1024 * 1024) + b'"}')
    refused(answer, 413, "request_too_large")


def test_a_budget_at_its_limit_passes(calm_house: House) -> None:
    for path in PATHS:
        answer = post(calm_house, path, body_of(path) | tools(path, count=128))
        assert answer.status_code == 200
    calm_house.simulator.reset()


@pytest.mark.parametrize("path", PATHS)
def test_fields_without_effect_are_listed_and_their_names_kept_clean(calm_house: House, path: str) -> None:
    odd = {"flavour": "x", "evil\r\nx-evil: 1": 1, "ünï": 2, "null_is_absent": None}
    answer = post(calm_house, path, body_of(path) | odd)
    assert answer.status_code == 200
    assert answer.headers["x-poolgate-ignored"] == "flavour,unknown_field"
    assert "x-evil" not in answer.headers
    assert calm_house.record(answer.headers["x-request-id"])["ignored"] == ["flavour", "unknown_field"]
    calm_house.simulator.reset()


@pytest.mark.parametrize("path", PATHS)
def test_of_two_equal_keys_the_last_counts(calm_house: House, path: str) -> None:
    raw = json.dumps(body_of(path))[:-1] + ', "model": "sim-lorem-3"}'
    answer = post(calm_house, path, raw.encode())
    assert answer.json()["model"] == "sim-lorem-3"
    calm_house.simulator.reset()


@pytest.mark.parametrize("path", PATHS)
def test_nul_is_a_character_like_any_other_in_a_text(calm_house: House, path: str) -> None:
    answer = post(calm_house, path, body_of(path, text="a\0b"))
    assert answer.status_code == 200
    assert "a\\u0000b" in answer.text
    assert calm_house.record(answer.headers["x-request-id"])["outcome"] == "ok"
    calm_house.simulator.reset()
