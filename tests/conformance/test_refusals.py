"""Acceptance criteria 9, 11 and 12, and the budgets of tools at their boundaries: refused in the caller's protocol,
with the place named, before any account is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import wire
from tests.conformance.caller import CALLED, EVERY, Caller, text, tools
from tests.plugins.house import House


@pytest.fixture(autouse=True)
def unasked(calm: House) -> Iterator[House]:
    """What is refused here reaches no account; a test that lets something pass empties the log itself."""
    calm.simulator.reset()
    yield calm
    assert calm.simulator.log() == []


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def use(identifier: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": "get_weather", "input": {}}


def result(identifier: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identifier, "content": "1"}


TEXT = {"type": "text", "text": "x"}
ASKED = said("user", "Hi")

# What is wrong with the order → the messages, and how the complaint begins.
ORDER: dict[str, tuple[list[dict[str, Any]], str]] = {
    "text before the result": (
        [ASKED, said("assistant", [use("t1")]), said("user", [TEXT, result("t1")])],
        "messages.2: tool_result blocks must come first and answer messages.1",
    ),
    "an assistant message after the call": (
        [ASKED, said("assistant", [use("t1")]), said("assistant", "Well"), said("user", [result("t1")])],
        "messages.2: tool_result blocks must come first and answer messages.1",
    ),
    "a result that nobody asked for": (
        [ASKED, said("assistant", [use("t1")]), said("user", [result("t9")])],
        "messages.2: tool_result blocks must come first and answer messages.1",
    ),
    "a second result": (
        [ASKED, said("assistant", [use("t1")]), said("user", [result("t1"), result("t1")])],
        "messages.2: tool_result blocks must come first and answer messages.1",
    ),
    "no result": (
        [ASKED, said("assistant", [use("t1")]), said("user", "And?")],
        "messages.2: tool_result blocks must come first and answer messages.1",
    ),
    "one of two results": (
        [ASKED, said("assistant", [use("t1"), use("t2")]), said("user", [result("t1")])],
        "messages.2: tool_result blocks must come first and answer messages.1",
    ),
    "a call at the end": ([ASKED, said("assistant", [use("t1")])], "messages.1: "),
    "a result at the beginning": ([said("user", [result("t1")])], "messages.0: "),
    "an id used twice": (
        [ASKED, said("assistant", [use("t1")]), said("user", [result("t1")]), said("assistant", [use("t1")]),
         said("user", [result("t1")])],
        "messages.3: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", ORDER)
def test_a_broken_order_of_calls_and_results_is_named(caller: Caller, case: str, stream: bool) -> None:
    messages, complaint = ORDER[case]
    answer = caller.messages("sim-echo", messages, stream=stream)
    assert wire.read_error(answer)[:2] == (400, "invalid_request_error")
    assert answer.json()["error"]["message"].startswith(complaint)
    assert answer.headers["x-should-retry"] == "false"


def called(*identifiers: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": arguments}
    calls = [{"id": identifier, "type": "function", "function": function} for identifier in identifiers]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answered(identifier: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identifier, "content": "1"}


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([ASKED, called("c1"), answered("c9")], "orphan_tool_result"),
        ([ASKED, called("c1"), answered("c1"), answered("c1")], "duplicate_tool_result"),
        ([ASKED, called("c1", "c1"), answered("c1")], "duplicate_tool_call"),
        ([ASKED, called("c1", "c2"), answered("c1"), said("user", "And?")], "missing_tool_result"),
        ([ASKED, called("c1")], "missing_tool_result"),
    ],
)
def test_chat_names_a_broken_pair(caller: Caller, messages: list[dict[str, Any]], code: str) -> None:
    status, kind, told, param = wire.read_error(caller.chat("sim-echo", messages))
    assert (status, kind, told) == (400, "invalid_request_error", code)
    assert param is not None
    assert param.startswith("messages[")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("arguments", ["{city:", "[]", "1", "null", '"text"', '{"a":1} x'])
def test_arguments_that_are_no_object_are_named(caller: Caller, arguments: str, stream: bool) -> None:
    messages = [ASKED, called("c1", arguments=arguments), answered("c1")]
    assert wire.read_error(caller.chat("sim-echo", messages, stream=stream)) == (
        400, "invalid_request_error", "invalid_tool_arguments", "messages[1].tool_calls[0].function.arguments",
    )  # fmt: skip


def test_empty_arguments_are_an_empty_object(caller: Caller, calm: House) -> None:
    turn = caller.ask("chat", "sim-history", [ASKED, called("c1", arguments=""), answered("c1"), said("user", "And?")])
    assert turn.text.splitlines() == ["user 2", "call 2", "tool 1", "user 4"]
    calm.simulator.reset()


UNSUPPORTED = {
    "chat": {
        "audio": ({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, "messages[0].content[1].type"),
        "a file": ({"type": "file", "file": {"file_id": "f1"}}, "messages[0].content[1].type"),
        "something new": ({"type": "hologram"}, "messages[0].content[1].type"),
    },
    "messages": {
        "a document": (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
            "messages.0.content.1",
        ),
        "a search result": ({"type": "search_result", "content": []}, "messages.0.content.1"),
        "something new": ({"type": "hologram"}, "messages.0.content.1"),
    },
    "responses": {
        "audio": ({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, "input[0].content[1].type"),
        "a file": ({"type": "input_file", "file_id": "f1"}, "input[0].content[1].type"),
        "something new": ({"type": "hologram"}, "input[0].content[1].type"),
    },
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("protocol", "case"), [(protocol, case) for protocol, cases in UNSUPPORTED.items() for case in cases]
)
def test_content_that_cannot_be_carried_is_named(caller: Caller, protocol: str, case: str, stream: bool) -> None:
    part, place = UNSUPPORTED[protocol][case]
    answer = caller.post(protocol, "sim-echo", [said("user", [text(protocol, "x"), part])], stream=stream)
    status, kind, code, param = wire.read_error(answer)
    assert (status, kind) == (400, "invalid_request_error")
    assert (code, param) == ((None, None) if protocol == "messages" else ("unsupported_content_type", place))
    assert place in answer.json()["error"]["message"]


@pytest.mark.parametrize("protocol", EVERY)
def test_128_tools_pass_and_one_more_is_refused(caller: Caller, calm: House, protocol: str) -> None:
    names = [f"tool_{number}" for number in range(129)]
    turn = caller.ask(protocol, "sim-tool", tools=tools(protocol, *names[:128]))
    assert (turn.calls[0][1], turn.finish) == ("tool_0", CALLED[protocol])
    assert len(calm.simulator.runs()[0]["tools"]) == 128
    calm.simulator.reset()
    answer = caller.post(protocol, "sim-tool", tools=tools(protocol, *names))
    check_budget(answer, protocol, "tool_definitions_exceeded", 129, 128)


@pytest.mark.parametrize("protocol", EVERY)
def test_262144_bytes_of_schemas_pass_and_one_more_is_refused(caller: Caller, calm: House, protocol: str) -> None:
    fits = schema_of(131072)
    turn = caller.ask(protocol, "sim-tool", tools=tools(protocol, "first", "second", schema=fits))
    assert (turn.calls[0][1], turn.arguments) == ("first", [{"city": "city"}])
    assert calm.simulator.runs()[0]["tools"][1]["schema"] == fits
    calm.simulator.reset()
    over = [*tools(protocol, "first", schema=fits), *tools(protocol, "second", schema=schema_of(131073))]
    answer = caller.post(protocol, "sim-tool", tools=over)
    check_budget(answer, protocol, "tool_schema_bytes_exceeded", 262145, 262144)


def schema_of(size: int) -> dict[str, Any]:
    """A schema of exactly ``size`` bytes as compact JSON in UTF-8."""
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": "ß"}}, "required": ["city"]}
    missing = size - len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode())
    schema["properties"]["city"]["description"] += "x" * missing  # type: ignore[index]
    return schema


def check_budget(answer: Any, protocol: str, code: str, actual: int, limit: int) -> None:
    if protocol != "messages":
        assert wire.read_error(answer) == (413, "invalid_request_error", code, "tools")
    else:
        assert wire.read_error(answer)[:2] == (413, "request_too_large")
    message = answer.json()["error"]["message"]
    assert str(actual) in message
    assert str(limit) in message
