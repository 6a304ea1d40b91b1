from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from gateway.contracts import ResponseMeta
from gateway.protocols.messages.encode import STOP_REASONS
from gateway.protocols.messages.server import encode_response, stream
from gateway.wire.sse import COMMENT, Reader
from ir.errors import ApiError, Kind
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Message, Request, Text
from ir.response import Part, Response, fold
from ir.usage import Usage

GOLDEN = Path(__file__).parents[3] / "golden" / "messages"
REQUEST = Request("m1", (Message("user", (Text("Hi"),)),))
META = ResponseMeta("1", 1, "m1", input_tokens=9, expose_reasoning=True, sign=lambda text: f"signed:{text}")
HIDING = ResponseMeta("1", 1, "m1", input_tokens=9)
EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def part(kind: PartKind, *pieces: str, call: str = "") -> list[Event]:
    start = PartStart(kind, call, "get_weather" if call else "")
    return [start, *(PartDelta(piece) for piece in pieces), PartEnd()]


def turn(*parts: list[Event], end: Unified = Unified.STOP, usage: Usage | None = None) -> list[Event]:
    middle = [event for events in parts for event in events]
    return [ResponseStart(), *middle, Finish(FinishReason(end), usage or Usage(input_uncached=9, output=2))]


def encode(events: list[Event], meta: ResponseMeta = META) -> bytes:
    encoder = stream(REQUEST, meta)
    return b"".join(encoder.send(event) for event in events)


CASES = {
    "plain_text": turn(part(PartKind.TEXT, "Hel", "lo!")),
    "one_call": turn(part(PartKind.TOOL_CALL, '{"ci', 'ty":"上', '海"}', call="call_1"), end=Unified.TOOL_CALLS),
    "two_calls": turn(
        part(PartKind.TOOL_CALL, '{"city":"上海"}', call="call_1"),
        part(PartKind.TOOL_CALL, '{"city":', '"Paris"}', call="call_2"),
        end=Unified.TOOL_CALLS,
    ),
    "text_and_call": turn(
        part(PartKind.TEXT, "Let me check."),
        part(PartKind.TOOL_CALL, '{"city":"上海"}', call="call_1"),
        end=Unified.TOOL_CALLS,
    ),
    "thinking": turn(part(PartKind.REASONING, "Hm", "m."), part(PartKind.TEXT, "Yes")),
    "call_without_arguments": turn(part(PartKind.TOOL_CALL, call="call_1"), end=Unified.TOOL_CALLS),
}


@pytest.mark.parametrize("name", CASES)
def test_a_streamed_turn_is_the_golden_transcript_byte_for_byte(name: str) -> None:
    assert encode(CASES[name]).decode() == (GOLDEN / f"{name}.sse").read_text()


@pytest.mark.parametrize("name", CASES)
def test_a_whole_turn_is_the_golden_body_byte_for_byte(name: str) -> None:
    assert encode_response(fold(CASES[name]), REQUEST, META).decode() == (GOLDEN / f"{name}.json").read_text()


@pytest.mark.parametrize("name", CASES)
def test_the_sdk_types_accept_every_event_and_body(name: str) -> None:
    AnthropicMessage.model_validate_json(encode_response(fold(CASES[name]), REQUEST, META), strict=True)
    for frame in Reader().feed(encode(CASES[name])):
        assert json.loads(frame.data)["type"] == frame.event
        if frame.event != "ping":
            EVENT.validate_json(frame.data, strict=True)


def test_an_error_after_text_ends_the_transcript() -> None:
    encoder = stream(REQUEST, META)
    sent = b"".join(encoder.send(event) for event in CASES["plain_text"][:3])
    sent += encoder.fail(ApiError(Kind.NO_CAPACITY, "no_capacity", "every account is busy"))
    assert sent.decode() == (GOLDEN / "error_after_text.sse").read_text()


def test_hidden_thinking_leaves_no_byte_and_takes_no_index() -> None:
    thinking = turn(part(PartKind.REASONING, "Hm", "m."), part(PartKind.TEXT, "Hel", "lo!"))
    assert encode(thinking, HIDING) == encode(CASES["plain_text"], HIDING)
    assert encode_response(fold(thinking), REQUEST, HIDING) == encode_response(
        fold(CASES["plain_text"]), REQUEST, HIDING
    )
    encoder = stream(REQUEST, HIDING)
    encoder.send(ResponseStart())
    assert [encoder.send(event) for event in part(PartKind.REASONING, "Hm")] == [b"", b"", b""]


@pytest.mark.parametrize("kind", [PartKind.TEXT, PartKind.REASONING])
def test_an_empty_part_shows_nothing_and_takes_no_index(kind: PartKind) -> None:
    events = turn(part(kind), part(PartKind.TEXT, "Hel", "lo!"))
    assert encode(events).decode() == (GOLDEN / "plain_text.sse").read_text()
    assert encode_response(fold(events), REQUEST, META).decode() == (GOLDEN / "plain_text.json").read_text()


def test_a_start_from_a_second_attempt_is_not_sent_again() -> None:
    encoder = stream(REQUEST, META)
    assert encoder.send(ResponseStart("first"))
    assert encoder.send(ResponseStart("second")) == b""


def test_a_keepalive_is_a_ping_only_when_the_upstream_lives_and_the_message_began() -> None:
    encoder = stream(REQUEST, META)
    assert encoder.idle(alive=True) == COMMENT
    encoder.send(ResponseStart())
    assert encoder.idle(alive=False) == COMMENT
    assert encoder.idle(alive=True) == b'event: ping\ndata: {"type":"ping"}\n\n'


def usage_of(usage: Usage) -> tuple[object, object]:
    whole = orjson.loads(encode_response(Response((), FinishReason(Unified.STOP), usage), REQUEST, META))
    frames = Reader().feed(encode(turn(usage=usage)))
    return whole["usage"], orjson.loads(frames[-2].data)["usage"]


def test_cache_counters_are_shown_when_known() -> None:
    expected = {
        "input_tokens": 50,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 20,
        "output_tokens": 50,
    }
    assert usage_of(Usage(50, 50, cache_read=20, cache_write=30)) == (expected, expected)


def test_counts_that_nobody_knows_are_the_estimate_or_left_out() -> None:
    expected = {"input_tokens": 9, "output_tokens": 0}
    assert usage_of(Usage()) == (expected, expected)


def test_zero_input_is_not_taken_for_unknown() -> None:
    assert usage_of(Usage(0, 1, cache_read=0))[0] == {
        "input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }


def test_every_finish_has_a_stop_reason_that_the_sdk_knows() -> None:
    assert set(STOP_REASONS) == set(Unified)
    for unified in Unified:
        body = encode_response(Response((), FinishReason(unified), Usage()), REQUEST, META)
        assert AnthropicMessage.model_validate_json(body, strict=True).stop_reason == STOP_REASONS[unified]


def test_the_stop_sequence_that_matched_is_named() -> None:
    reason = FinishReason(Unified.STOP_SEQUENCE, stop_sequence="END")
    whole = orjson.loads(encode_response(Response((), reason, Usage()), REQUEST, META))
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", "END")
    frames = Reader().feed(encode([ResponseStart(), Finish(reason)]))
    assert orjson.loads(frames[-2].data)["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


@pytest.mark.parametrize("arguments", ["{city:", "[]", "1", "null", '{"a":1}x'])
def test_a_call_with_broken_arguments_is_not_delivered(arguments: str) -> None:
    response = Response((Part(PartKind.TOOL_CALL, arguments, "c", "f"),), FinishReason(Unified.TOOL_CALLS), Usage())
    with pytest.raises(ApiError) as caught:
        encode_response(response, REQUEST, META)
    assert (caught.value.kind, caught.value.code) == (Kind.UPSTREAM, "upstream_invalid_tool_arguments")
    assert arguments not in caught.value.message


def test_numbers_in_arguments_reach_the_caller_digit_by_digit() -> None:
    arguments = '{"n":123456789012345678901234567890,"x":1.0}'
    response = Response((Part(PartKind.TOOL_CALL, arguments, "c", "f"),), FinishReason(Unified.TOOL_CALLS), Usage())
    assert arguments.encode() in encode_response(response, REQUEST, META)
