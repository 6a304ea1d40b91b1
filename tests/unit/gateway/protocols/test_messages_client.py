"""Messages as the client: the body that goes out, the stream that comes in, refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from anthropic.types import MessageCreateParams
from msgspec.structs import replace
from pydantic import TypeAdapter

from gateway.protocols.messages.client import classify, encode_request, stream
from gateway.protocols.messages.faults import TYPES
from gateway.protocols.messages.incoming import UNIFIED
from gateway.protocols.messages.outgoing import DEFAULT_MAX_TOKENS, fit_id
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import (
    Image,
    Message,
    Reasoning,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
)
from ir.response import fold
from ir.usage import Usage

GOLDEN = Path(__file__).parents[3] / "golden" / "messages"
HI = Request("m", (Message("user", (Text("Hi"),)),))
TOOLS = (Tool("f", "F", {"type": "object"}), Tool("g", "", {"type": "object"}))
PARAMS: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)


def sent(request: Request) -> Any:
    body = orjson.loads(encode_request(request, "up-1"))
    PARAMS.validate_python(body)
    return body


def test_the_smallest_body() -> None:
    assert sent(HI) == {
        "model": "up-1",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": True,
    }


def test_results_go_out_first_and_thinking_of_the_history_stays_here() -> None:
    history = (
        Message("user", (Text("look"), Image("image/png", "iVBORw0KGgo="))),
        Message("assistant", (Reasoning("hm", "our signature"), Text("ok"), ToolCall("c1", "f", '{"a":1}'))),
        Message("user", (ToolResult("c1", (Text("sunny"),), is_error=True), Text("and?"))),
    )
    body = sent(replace(HI, messages=history, tools=TOOLS))
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "ok"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    ]
    assert body["messages"][2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "text", "text": "sunny"}],
            "is_error": True,
        },
        {"type": "text", "text": "and?"},
    ]
    assert b"our signature" not in encode_request(replace(HI, messages=history), "m")


def test_a_turn_of_thinking_alone_leaves_no_empty_message_behind() -> None:
    history = (HI.messages[0], Message("assistant", (Reasoning("hm"),)), Message("user", (Text("go on"),)))
    assert sent(replace(HI, messages=history))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "go on"}]}
    ]


@pytest.mark.parametrize("call", ["x" * 65, "a b", "函数", "call:1", ""])
def test_an_id_that_anthropic_refuses_is_replaced_the_same_way_everywhere(call: str) -> None:
    history = (
        HI.messages[0],
        Message("assistant", (ToolCall(call, "f", "{}"),)),
        Message("user", (ToolResult(call, ""),)),
    )
    messages = sent(replace(HI, messages=history, tools=TOOLS))["messages"]
    used, answered = messages[1]["content"][0]["id"], messages[2]["content"][0]["tool_use_id"]
    assert used == answered
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", used)


def test_ids_stay_apart_and_a_legal_one_stays_itself() -> None:
    assert fit_id("toolu_01-A") == "toolu_01-A"
    assert fit_id("a b") != fit_id("a  b")


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (ToolChoice(), None, None),
        (ToolChoice(), False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(ToolMode.NONE), False, {"type": "none"}),
        (ToolChoice(ToolMode.REQUIRED), None, {"type": "any"}),
        (ToolChoice(ToolMode.REQUIRED), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice(ToolMode.NAMED, ("g",)), None, {"type": "tool", "name": "g"}),
    ],
)
def test_tool_choice(choice: ToolChoice, parallel: bool | None, expected: object) -> None:
    body = sent(replace(HI, tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel))
    assert body.get("tool_choice") == expected
    assert len(body["tools"]) == 2


@pytest.mark.parametrize(("forced", "expected"), [(True, {"type": "any"}), (False, None)])
def test_an_allowed_subset_goes_out_as_fewer_tools(forced: bool, expected: object) -> None:
    body = sent(replace(HI, tools=TOOLS, tool_choice=ToolChoice(ToolMode.ALLOWED, ("g",), forced)))
    assert [tool["name"] for tool in body["tools"]] == ["g"]
    assert body.get("tool_choice") == expected


def test_a_choice_without_tools_is_not_sent() -> None:
    body = sent(replace(HI, parallel_tool_calls=False, tool_choice=ToolChoice(ToolMode.NONE)))
    assert not {"tools", "tool_choice"} & set(body)


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (Thinking(), {}),
        (Thinking(enabled=False), {"thinking": {"type": "disabled"}}),
        (Thinking(enabled=True), {"thinking": {"type": "adaptive"}}),
        (Thinking(enabled=True, visible=True), {"thinking": {"type": "adaptive", "display": "summarized"}}),
        (Thinking(enabled=True, budget_tokens=2048), {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (
            Thinking(enabled=True, effort="minimal"),
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        (Thinking(effort="high"), {"output_config": {"effort": "high"}}),
        (Thinking(enabled=False, effort="none"), {"thinking": {"type": "disabled"}}),
    ],
)
def test_thinking(thinking: Thinking, expected: dict[str, Any]) -> None:
    body = sent(replace(HI, thinking=thinking))
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == expected


def test_thinking_goes_out_without_what_anthropic_forbids_beside_it() -> None:
    sampling = replace(HI, temperature=0.5, top_p=0.5, top_k=5, thinking=Thinking(enabled=True))
    assert not {"temperature", "top_p", "top_k"} & set(sent(sampling))
    forced = replace(sampling, tools=TOOLS, tool_choice=ToolChoice(ToolMode.REQUIRED))
    body = sent(forced)
    assert "thinking" not in body
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 0.5, 5)


def test_a_temperature_above_anthropics_scale_is_lowered_to_its_top() -> None:
    assert sent(replace(HI, temperature=1.7))["temperature"] == 1.0


# The stream


def wire(*events: dict[str, Any] | bytes) -> bytes:
    frames = [
        event if isinstance(event, bytes) else b"event: %s\ndata: %s" % (event["type"].encode(), orjson.dumps(event))
        for event in events
    ]
    return b"".join(frame + b"\n\n" for frame in frames)


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def use(index: int, call: str, **extra: Any) -> dict[str, Any]:
    return start(index, type="tool_use", id=call, name="get_weather", **{"input": {}, **extra})


def pieces(index: int, text: str) -> dict[str, Any]:
    return delta(index, type="input_json_delta", partial_json=text)


def ending(reason: str | None = "end_turn", **extra: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **extra}, "usage": {"output_tokens": 2}}


OPENING: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "msg_9", "usage": {"input_tokens": 9, "output_tokens": 1}},
}
PING = {"type": "ping"}
CLOSING = {"type": "message_stop"}
USAGE = Usage(9, 2)


def read(*events: dict[str, Any] | bytes) -> list[Event]:
    reader = stream()
    return [*reader.feed(wire(*events)), *reader.close()]


def fault(*events: dict[str, Any] | bytes) -> tuple[list[Event], Fault]:
    """What came before the fault, and the fault."""
    reader = stream()
    heard: list[Event] = []
    try:
        heard.extend(reader.feed(wire(*events)))
        reader.close()
    except Fault as caught:
        return heard, caught
    pytest.fail("no fault")


def test_a_turn_with_thinking_text_and_a_call() -> None:
    assert read(
        OPENING,
        PING,
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="hm"),
        delta(0, type="signature_delta", signature="sig"),
        stop(0),
        start(1, type="text", text=""),
        delta(1, type="text_delta", text="ok"),
        stop(1),
        use(2, "call_1"),
        pieces(2, '{"a":'),
        pieces(2, "1}"),
        stop(2),
        ending("tool_use"),
        CLOSING,
    ) == [
        ResponseStart("msg_9"),
        PartStart(PartKind.REASONING),
        PartDelta("hm"),
        PartEnd("sig"),
        PartStart(PartKind.TEXT),
        PartDelta("ok"),
        PartEnd(),
        PartStart(PartKind.TOOL_CALL, "call_1", "get_weather"),
        PartDelta('{"a":'),
        PartDelta("1}"),
        PartEnd(),
        Finish(FinishReason(Unified.TOOL_CALLS, "tool_use"), USAGE),
    ]


@pytest.mark.parametrize("name", ["plain_text", "one_call", "two_calls", "text_and_call", "thinking"])
def test_the_golden_transcripts_fold_to_the_golden_bodies(name: str) -> None:
    reader = stream()
    response = fold([*reader.feed((GOLDEN / f"{name}.sse").read_bytes()), *reader.close()])
    blocks = orjson.loads((GOLDEN / f"{name}.json").read_bytes())["content"]
    for part, block in zip(response.parts, blocks, strict=True):
        if part.kind is PartKind.TOOL_CALL:
            assert (part.call_id, part.name, orjson.loads(part.text)) == (block["id"], block["name"], block["input"])
        else:
            assert part.text == block[block["type"]]
            assert part.signature == block.get("signature", "")


def test_interleaved_calls_are_put_in_order() -> None:
    response = fold(
        read(
            OPENING,
            use(0, "call_1"),
            use(1, "call_2"),
            pieces(1, '{"city":'),
            pieces(0, '{"city":"上海"}'),
            pieces(1, '"Paris"}'),
            stop(1),
            stop(0),
            ending("tool_use"),
            CLOSING,
        )
    )
    assert [(part.call_id, part.text) for part in response.parts] == [
        ("call_1", '{"city":"上海"}'),
        ("call_2", '{"city":"Paris"}'),
    ]


def test_an_empty_text_block_opens_nothing() -> None:
    events = read(OPENING, start(0, type="text", text=""), delta(0, type="text_delta", text=""), stop(0), ending(),
                  CLOSING)  # fmt: skip
    assert events == [ResponseStart("msg_9"), Finish(FinishReason(Unified.STOP, "end_turn"), USAGE)]


def test_input_that_came_with_the_start_is_not_lost() -> None:
    response = fold(read(OPENING, use(0, "c", input={"a": 1}), stop(0), ending("tool_use"), CLOSING))
    assert response.parts[0].text == '{"a":1}'


def test_what_providers_leave_out_is_made_up_for() -> None:
    """No block start, no index, no block stop, no usage, comments and a [DONE] at the end."""
    bare = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ok"}}
    events = read({"type": "message_start", "message": {}}, b": hello", bare, ending(), CLOSING, b"data: [DONE]")
    assert events == [
        ResponseStart(),
        PartStart(PartKind.TEXT),
        PartDelta("ok"),
        PartEnd(),
        Finish(FinishReason(Unified.STOP, "end_turn"), Usage(None, 2)),
    ]


def test_unknown_events_blocks_and_deltas_are_passed_over() -> None:
    events = read(
        OPENING,
        {"type": "weather_report"},
        start(0, type="server_tool_use", id="s", name="web_search", input={}),
        pieces(0, "{broken"),
        stop(0),
        start(1, type="redacted_thinking", data="xyz"),
        stop(1),
        start(2, type="text", text="o"),
        delta(2, type="citations_delta", citation={}),
        delta(2, type="text_delta", text="k"),
        stop(2),
        ending(),
        CLOSING,
    )
    assert [type(event) for event in events] == [ResponseStart, PartStart, PartDelta, PartDelta, PartEnd, Finish]


@pytest.mark.parametrize("raw", [*UNIFIED, "brand_new", None])
def test_every_stop_reason(raw: str | None) -> None:
    finish = read(OPENING, ending(raw), CLOSING)[-1]
    assert isinstance(finish, Finish)
    expected = UNIFIED.get(raw or "", Unified.STOP)
    assert finish.reason.raw == (raw or "")
    assert finish.reason.unified is (Unified.STOP if expected is Unified.TOOL_CALLS else expected)


@pytest.mark.parametrize(
    ("raw", "unified"),
    [("end_turn", Unified.TOOL_CALLS), ("stop_sequence", Unified.TOOL_CALLS), ("max_tokens", Unified.LENGTH)],
)
def test_a_turn_with_a_call_waits_for_its_result_unless_it_was_cut(raw: str, unified: Unified) -> None:
    finish = read(OPENING, use(0, "c"), stop(0), ending(raw), CLOSING)[-1]
    assert isinstance(finish, Finish)
    assert finish.reason.unified is unified


def test_the_stop_sequence_that_matched_is_kept() -> None:
    finish = read(OPENING, ending("stop_sequence", stop_sequence="END"), CLOSING)[-1]
    assert finish == Finish(FinishReason(Unified.STOP_SEQUENCE, "stop_sequence", "END"), USAGE)


def test_usage_is_what_was_told_last_and_never_negative() -> None:
    counts = {
        "input_tokens": 50,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 30,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 60},
    }
    finish = read(OPENING, {**ending(), "usage": counts}, CLOSING)[-1]
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(50, 50, cache_read=20, cache_write=30, reasoning=50)
    finish = read(OPENING, {**ending(), "usage": {"output_tokens": -1, "input_tokens": "many"}}, CLOSING)[-1]
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(9, 0)


@pytest.mark.parametrize("arguments", ["{city:", "[]", "1", "null"])
def test_broken_arguments_are_a_fault_after_what_came_before(arguments: str) -> None:
    heard, caught = fault(OPENING, use(0, "c"), pieces(0, arguments), stop(0), ending("tool_use"), CLOSING)
    assert (caught.reason, caught.stage) == (Reason.BROKEN_TOOL_CALL, Stage.CONTENT)
    assert [type(event) for event in heard] == [ResponseStart, PartStart, PartDelta]


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, Reason.CAPACITY, "overloaded_error"),
        ({"type": "rate_limit_error", "message": "slow down"}, Reason.RATE_LIMIT, "rate_limit_error"),
        ({"type": "news", "message": "x"}, Reason.TRANSIENT, ""),
        ("a string", Reason.TRANSIENT, ""),
    ],
)
def test_an_error_in_the_stream_is_a_fault_after_what_came_before(error: object, reason: Reason, code: str) -> None:
    failure = {"type": "error", "error": error}
    heard, caught = fault(OPENING, start(0, type="text", text="ok"), failure)
    assert (caught.reason, caught.stage, caught.upstream_code) == (reason, Stage.CONTENT, code)
    assert [type(event) for event in heard] == [ResponseStart, PartStart, PartDelta]
    assert fault(failure)[1].stage is Stage.PREAMBLE


def test_a_fault_is_final() -> None:
    reader = stream()
    with pytest.raises(Fault):
        reader.feed(b"data: not json\n\n")
    with pytest.raises(Fault):
        reader.feed(wire(OPENING, ending(), CLOSING))


@pytest.mark.parametrize(
    "events",
    [
        (b"data: {broken",),
        (b"data: []",),
        (OPENING, OPENING),
        (CLOSING,),
        (start(0, type="text", text="too early"),),
        (OPENING, use(0, "a"), use(0, "b")),
        (OPENING, use(0, "")),
        (OPENING, pieces(0, "{}")),
        (OPENING, start(0, type="text", text="a"), pieces(0, "{}")),
        (OPENING, delta(0, type="text_delta", text=7)),
        (OPENING, {"type": "content_block_stop", "index": "0"}),
        (OPENING, use(0, "a"), use(1, "b"), stop(1), use(1, "c")),
    ],
)
def test_a_stream_that_breaks_the_protocol_is_our_fault_to_look_at(events: tuple[Any, ...]) -> None:
    assert fault(*events)[1].reason is Reason.PROTOCOL


def test_an_end_without_message_stop_is_a_cut() -> None:
    heard, caught = fault(OPENING, start(0, type="text", text="ok"), stop(0), ending())
    assert (caught.reason, caught.stage) == (Reason.CUT, Stage.CONTENT)
    assert not any(isinstance(event, Finish) for event in heard)
    assert fault()[1].stage is Stage.PREAMBLE


# Refusals


def refused(status: int, error: object = None, **headers: str) -> Fault:
    body = b"no" if error is None else orjson.dumps({"type": "error", "error": error})
    return classify(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.mark.parametrize(("name", "reason"), TYPES.items())
def test_the_type_decides_before_the_status_and_the_text(name: str, reason: Reason) -> None:
    found = refused(418, {"type": name, "message": "rate limit, overloaded, unauthorized"})
    assert (found.reason, found.stage, found.upstream_code) == (reason, Stage.HEADERS, name)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, Reason.BAD_REQUEST),
        (401, Reason.AUTH_EXPIRED),
        (402, Reason.PAYMENT),
        (403, Reason.FORBIDDEN),
        (404, Reason.MODEL_GATED),
        (405, Reason.PROTOCOL),
        (407, Reason.EGRESS),
        (408, Reason.TIMEOUT),
        (413, Reason.TOO_LARGE),
        (422, Reason.BAD_REQUEST),
        (429, Reason.RATE_LIMIT),
        (464, Reason.PROTOCOL),
        (500, Reason.TRANSIENT),
        (502, Reason.TRANSIENT),
        (503, Reason.CAPACITY),
        (504, Reason.TIMEOUT),
        (529, Reason.CAPACITY),
    ],
)
def test_without_a_known_type_the_status_decides(status: int, reason: Reason) -> None:
    assert refused(status).reason is reason
    unknown = refused(status, {"type": "secret text", "message": "m"})
    assert (unknown.reason, unknown.upstream_code) == (reason, str(status))


@pytest.mark.parametrize("status", [200, 403, 404, 502])
def test_a_page_blames_the_way_out(status: int) -> None:
    found = classify(status, {"content-type": "text/html"}, b" <!DOCTYPE html><html></html>")
    assert (found.reason, found.upstream_code) == (Reason.EGRESS, f"{status}_html")


@pytest.mark.parametrize(
    ("message", "reason", "hint"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", Reason.CONTEXT_TOO_LONG,
         {"tokens": 210000, "maximum": 200000}),
        ("Prompt is too long", Reason.CONTEXT_TOO_LONG, None),
        ("Your credit balance is too low to access the API.", Reason.PAYMENT, None),
        ("This organization has been disabled.", Reason.ACCOUNT_CLOSED, None),
        ("messages.0.content.0: Could not process image", Reason.IMAGE_UNSUPPORTED, None),
        ("messages: at least one message is required", Reason.BAD_REQUEST, None),
        (None, Reason.BAD_REQUEST, None),
    ],
)  # fmt: skip
def test_causes_that_only_the_text_tells_apart(message: str | None, reason: Reason, hint: object) -> None:
    found = refused(400, {"type": "invalid_request_error", "message": message})
    assert (found.reason, found.hint) == (reason, hint)


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), ("1.5", 1.5), ("", None), ("soon", None), ("-1", None), ("1e9", None)]
)
def test_the_wait_that_the_upstream_asks_for(value: str, seconds: float | None) -> None:
    assert refused(429, retry_after=value).retry_after == seconds
