"""Laws of Messages: what goes out through one role comes back through the other, whatever happens on the way."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.contracts import ResponseMeta
from gateway.protocols.messages import client, server
from ir.errors import ApiError, Fault, Kind, Reason
from ir.events import Event, Finish, FinishReason, PartKind
from ir.grammar import Checker, check
from ir.history import check_pairs, merge
from ir.request import Message, OutputFormat, Reasoning, Request, Text, Thinking, ToolCall
from ir.response import Response, fold
from tests import strategies

META = ResponseMeta("r1", 1, "m", expose_reasoning=True, input_tokens=7, sign=lambda text: f"signed {len(text)}")
ASKED = Request("m", (Message("user", (Text("Hi"),)),), stream=True)

efforts = st.none() | st.sampled_from(["low", "medium", "high", "xhigh"])
thinkings = (
    st.builds(Thinking, st.none() | st.just(value=False), efforts)
    | st.builds(Thinking, st.just(value=True), efforts, st.none() | st.integers(1024, 4095), st.booleans())
)  # fmt: skip


@st.composite
def messages_requests(draw: st.DrawFn) -> Request:
    request = draw(strategies.requests())
    limit = draw(st.integers(4096, 10**6))
    top_k = draw(st.none() | st.integers(0, 100))
    forms = st.builds(OutputFormat, st.just("output_config.format"), strategies.schemas)
    form = draw(st.none() | forms)
    return replace(request, thinking=draw(thinkings), max_output_tokens=limit, top_k=top_k, output_format=form)


def sayable(request: Request) -> Request:
    """What of a request Messages can say: see ``outgoing`` for what it cannot."""
    kept = [Message(item.role, tuple(_rewritten(part) for part in item.content if not isinstance(part, Reasoning)))
            for item in request.messages]  # fmt: skip
    spoken = [message for message in kept if message.content]
    messages, _ = merge(spoken, [""] * len(spoken))
    said = replace(request, messages=messages, stream=True)
    thinking = request.thinking
    if thinking.enabled and not request.tool_choice.demands_call:
        visible = replace(thinking, visible=True)
        return replace(said, thinking=visible, temperature=None, top_p=None, top_k=None)
    return replace(said, thinking=Thinking(None if thinking.enabled else thinking.enabled, thinking.effort))


def _rewritten(part: Any) -> Any:
    """Arguments keep their value; numbers may be written another way."""
    if isinstance(part, ToolCall):
        return ToolCall(part.id, part.name, orjson.dumps(orjson.loads(part.arguments)).decode())
    return part


@given(messages_requests())
def test_a_request_survives_the_way_out_and_in(request: Request) -> None:
    body = orjson.loads(client.encode_request(request, request.model))
    assert server.decode_request(body) == sayable(request)


def _encode(events: list[Event]) -> bytes:
    stream = server.stream(ASKED, META)
    return b"".join(stream.send(event) for event in events)


def _decode(wire: bytes) -> list[Event]:
    stream = client.stream()
    return [*stream.feed(wire), *stream.close()]


def _spoken(response: Response) -> Response:
    """The answer as Messages shows it: thinking bears our signature, the finish has no vendor's word yet."""
    parts = tuple(
        replace(part, signature=META.sign(part.text) if part.kind is PartKind.REASONING else "")
        for part in response.parts
    )
    return replace(response, parts=parts, finish=FinishReason(response.finish.unified))


def _heard(response: Response) -> Response:
    return replace(response, finish=FinishReason(response.finish.unified))


@given(strategies.streams())
def test_events_survive_the_way_out_and_in(events: list[Event]) -> None:
    heard = _decode(_encode(events))
    check(heard)
    assert _heard(fold(heard)) == _spoken(fold(events))


@given(strategies.streams(), st.lists(st.integers(1, 40), min_size=1))
def test_slicing_anywhere_changes_nothing(events: list[Event], steps: list[int]) -> None:
    wire = _encode(events)
    stream = client.stream()
    heard: list[Event] = []
    position, turn = 0, 0
    while position < len(wire):
        step = steps[turn % len(steps)]
        heard.extend(stream.feed(wire[position : position + step]))
        position, turn = position + step, turn + 1
    assert [*heard, *stream.close()] == _decode(wire)


@given(strategies.streams())
def test_slicing_by_the_byte_changes_nothing(events: list[Event]) -> None:
    wire = _encode(events)
    stream = client.stream()
    heard = [event for index in range(len(wire)) for event in stream.feed(wire[index : index + 1])]
    assert [*heard, *stream.close()] == _decode(wire)


@given(strategies.streams(), st.data())
def test_a_stream_cut_anywhere_is_a_fault_and_never_an_answer(events: list[Event], data: st.DataObject) -> None:
    wire = _encode(events)
    stream = client.stream()
    heard = list(stream.feed(wire[: data.draw(st.integers(0, len(wire) - 1))]))
    with pytest.raises(Fault) as caught:
        stream.close()
    assert caught.value.reason is Reason.CUT
    assert not any(isinstance(event, Finish) for event in heard)


def _put_together(wire: bytes) -> dict[str, Any]:
    """What a plain client makes of a stream; the indexes must count up from 0 without a gap."""
    message: dict[str, Any] = {}
    pieces: list[str] = []
    for frame in wire.decode().split("\n\n"):
        if not frame:
            continue
        name, _, data = frame.partition("\n")
        event = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
                pieces = []
            case "content_block_delta":
                assert event["index"] == len(message["content"]) - 1
                block, delta = message["content"][-1], event["delta"]
                if delta["type"] == "input_json_delta":
                    pieces.append(delta["partial_json"])
                else:
                    field = delta["type"].removesuffix("_delta")
                    block[field] += delta[field]
            case "content_block_stop":
                if message["content"][-1]["type"] == "tool_use":
                    message["content"][-1]["input"] = orjson.loads("".join(pieces))
            case "message_delta":
                message.update(event["delta"])
                message["usage"].update(event["usage"])
            case "message_stop":
                return message
    raise AssertionError("no message_stop")


@given(strategies.streams())
def test_a_stream_put_together_is_the_whole_body(events: list[Event]) -> None:
    assert _put_together(_encode(events)) == orjson.loads(server.encode_response(fold(events), ASKED, META))


@given(strategies.streams())
def test_a_stream_has_one_start_and_one_end_and_nothing_after_it(events: list[Event]) -> None:
    wire = _encode(events)
    assert wire.startswith(b"event: message_start\n")
    assert wire.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert wire.count(b"event: message_start\n") == wire.count(b"event: message_stop\n") == 1


@st.composite
def damaged_bodies(draw: st.DrawFn) -> object:
    """A good body with one value, anywhere in it, replaced by another."""
    request = draw(messages_requests())
    return _damage(draw, orjson.loads(client.encode_request(request, request.model)))


def _damage(draw: st.DrawFn, value: Any) -> Any:
    if draw(st.integers(0, 3)) == 0 or not isinstance(value, dict | list) or not value:
        return draw(strategies.json_values | st.sampled_from(["user", "assistant", "system", "text", "tool_result"]))
    key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    value[key] = _damage(draw, value[key])
    return value


def _decoded(body: object) -> Request | ApiError:
    try:
        return server.decode_request(body)
    except ApiError as error:
        return error


@given(strategies.json_values | damaged_bodies())
def test_any_body_is_a_sound_request_or_a_plain_refusal(body: object) -> None:
    request = _decoded(body)
    if isinstance(request, ApiError):
        reply = server.encode_error(request, "req_1")
        assert (reply.status, request.kind) == (400, Kind.INVALID_REQUEST)
        return
    check_pairs(request.messages, ["messages"] * len(request.messages))
    assert merge(request.messages, [""] * len(request.messages))[0] == request.messages
    assert all(message.content for message in request.messages)


@st.composite
def damaged_streams(draw: st.DrawFn) -> bytes:
    frames = _encode(draw(strategies.streams())).split(b"\n\n")
    index = draw(st.integers(0, len(frames) - 1))
    name, _, data = frames[index].partition(b"\ndata: ")
    if data:
        frames[index] = name + b"\ndata: " + orjson.dumps(_damage(draw, orjson.loads(data)))
    if draw(st.booleans()):
        frames[index:index] = [frames[draw(st.integers(0, len(frames) - 1))]]
    return b"\n\n".join(frames)


@given(damaged_streams() | st.binary(max_size=200))
def test_a_damaged_stream_gives_legal_events_and_then_an_end_or_a_fault(wire: bytes) -> None:
    stream, checker = client.stream(), Checker()
    try:
        for event in stream.feed(wire):
            checker.see(event)
        stream.close()
    except Fault:
        assert not checker.done
        return
    assert checker.done


@given(st.integers(100, 599), st.binary(max_size=100) | strategies.json_values.map(orjson.dumps))
def test_any_refusal_of_an_upstream_is_classified(status: int, body: bytes) -> None:
    assert client.classify(status, {}, body).reason in Reason
