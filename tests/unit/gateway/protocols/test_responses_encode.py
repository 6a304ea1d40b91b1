"""What the golden transcripts do not show: forms of calls, failures, the body for an upstream."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway.contracts import ResponseMeta
from gateway.protocols.responses import client, server
from gateway.protocols.responses.calls import call_item, free_text
from gateway.protocols.responses.envelope import FAILURES, INCOMPLETE
from gateway.wire.sse import Reader
from ir.errors import ApiError, Kind
from ir.events import Finish, FinishReason, PartDelta, PartKind, PartStart, ResponseStart, Unified
from ir.request import (
    Image,
    Message,
    Reasoning,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolKind,
    ToolOrigin,
    ToolResult,
)

META = ResponseMeta("r1", 1, "m")
ASKED = Request("m", (Message("user", (Text("Hi"),)),), stream=True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input":"a\\nb"}', "a\nb"),
        ('{"input":"a","x":1}', "a"),
        ('{"patch":"p"}', "p"),
        ('{"a":"b","c":"d"}', '{"a":"b","c":"d"}'),
        ('{"input":1}', '{"input":1}'),
        ("plain", "plain"),
        ("{}", "{}"),
        ("", ""),
    ],
)
def test_free_text_is_taken_out_of_the_arguments_as_far_as_they_hold_one(arguments: str, text: str) -> None:
    assert free_text(arguments) == text


@pytest.mark.parametrize(
    ("arguments", "action"),
    [
        ('{"command":["ls"],"user":"me"}', {"command": ["ls"], "env": {}, "user": "me"}),
        ('{"command":"ls -l","env":{"A":"b"}}', {"command": ["ls -l"], "env": {"A": "b"}}),
        ('{"command":["a",1],"timeout_ms":"x"}', {"command": ["a", "1"], "env": {}}),
        ("", {"command": [], "env": {}}),
    ],
)
def test_a_shell_call_has_an_action_whatever_the_model_wrote(arguments: str, action: dict[str, Any]) -> None:
    item = call_item(ToolOrigin(ToolKind.LOCAL_SHELL, "local_shell"), "lsc_1", "c1", arguments, "completed")
    assert item["action"] == {"type": "exec", **action}


def test_a_name_is_restored_by_the_map_and_never_by_splitting_it() -> None:
    """Seed 3, namespace flattening, row "never"."""
    plain = Tool("exec__exec", "", {"type": "object"})
    inside = Tool("fs__read", "", {"type": "object"}, origin=ToolOrigin(ToolKind.FUNCTION, "read", "fs"))
    stream = server.stream(replace(ASKED, tools=(plain, inside)), META)
    wire = b"".join(
        stream.send(PartStart(PartKind.TOOL_CALL, f"c{number}", name))
        for number, name in enumerate(["exec__exec", "fs__read", "a__b"])
    )
    items = [orjson.loads(frame.data)["item"] for frame in Reader().feed(wire)]
    assert [(item["name"], item.get("namespace")) for item in items] == [
        ("exec__exec", None),
        ("read", "fs"),
        ("a__b", None),
    ]


def test_the_answer_is_there_to_be_stored_before_its_end_is_written() -> None:
    stream = server.stream(ASKED, META)
    stream.send(ResponseStart())
    before = stream.final
    wire = stream.send(Finish(FinishReason(Unified.STOP)))
    assert before is None
    assert orjson.loads(Reader().feed(wire)[-1].data)["response"] == stream.final


@pytest.mark.parametrize("unified", Unified)
def test_every_end_has_a_status(unified: Unified) -> None:
    """T7."""
    stream = server.stream(ASKED, META)
    stream.send(Finish(FinishReason(unified)))
    assert stream.final is not None
    expected = ("incomplete", {"reason": INCOMPLETE[unified]}) if unified in INCOMPLETE else ("completed", None)
    assert (stream.final["status"], stream.final["incomplete_details"]) == expected


def failed(error: ApiError) -> list[dict[str, Any]]:
    return [orjson.loads(frame.data) for frame in Reader().feed(server.stream(ASKED, META).fail(error))]


def test_a_failure_before_the_beginning_is_told_twice() -> None:
    """T11: an ``error`` event too, but only before ``response.created``."""
    first, second = failed(ApiError(Kind.TIMEOUT, "timeout", "too late"))
    assert first == {"type": "error", "sequence_number": 0, "code": "timeout", "message": "too late", "param": None}
    assert (second["response"]["id"], second["response"]["error"]) == (
        "resp_r1",
        {"code": "server_error", "message": "too late"},
    )


@pytest.mark.parametrize("kind", Kind)
def test_every_failure_has_a_code_of_the_reference(kind: Kind) -> None:
    code = failed(ApiError(kind, "our_code", "x"))[-1]["response"]["error"]["code"]
    assert code == FAILURES.get(kind, "server_error")


def test_a_full_context_is_told_in_the_word_that_makes_clients_compact() -> None:
    error = ApiError(Kind.INVALID_REQUEST, "context_length_exceeded", "x")
    assert failed(error)[-1]["response"]["error"]["code"] == "context_length_exceeded"


def test_an_empty_part_shows_nothing() -> None:
    stream = server.stream(ASKED, replace(META, expose_reasoning=True))
    assert stream.send(PartStart(PartKind.TEXT)) == b""
    assert stream.send(PartStart(PartKind.REASONING)) == b""
    stream.send(Finish(FinishReason(Unified.STOP)))
    assert stream.final is not None
    assert stream.final["output"] == []


def test_a_delta_costs_one_frame_with_the_next_number() -> None:
    stream = server.stream(ASKED, META)
    stream.send(PartStart(PartKind.TEXT))
    stream.send(PartDelta("a"))
    assert stream.send(PartDelta("b")) == (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_r1_0",'
        b'"output_index":0,"content_index":0,"logprobs":[],"delta":"b","sequence_number":3}\n\n'
    )


def test_the_body_for_an_upstream_is_minimal() -> None:
    assert orjson.loads(client.encode_request(ASKED, "gpt")) == {
        "model": "gpt",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "store": False,
        "stream": True,
    }


def test_a_history_keeps_its_order_on_the_way_to_an_upstream() -> None:
    history = (
        Message("user", (Text("a"), Image("image/png", "iVBORw0K"))),
        Message("assistant", (Reasoning("hm", "s"), Text("b"), ToolCall("c1", "f", "{}"), Text("c"))),
        Message("user", (ToolResult("c1", (Text("r"),), is_error=True), Text("d"))),
    )
    request = replace(ASKED, messages=history, system="s", thinking=Thinking(budget_tokens=5000, visible=True))
    body = orjson.loads(client.encode_request(request, "gpt"))
    assert [item.get("role", item["type"]) for item in body["input"]] == [
        "user",
        "assistant",
        "function_call",
        "assistant",
        "function_call_output",
        "user",
    ]
    assert (body["instructions"], body["reasoning"]) == ("s", {"effort": "medium", "summary": "auto"})


@pytest.mark.parametrize(("strict", "said"), [(None, False), (False, False), (True, True)])
def test_a_tool_says_whether_it_is_strict_because_silence_would_mean_try(strict: bool | None, said: bool) -> None:
    request = replace(ASKED, tools=(Tool("f", "", {"type": "object"}, strict),))
    assert orjson.loads(client.encode_request(request, "gpt"))["tools"][0]["strict"] is said
