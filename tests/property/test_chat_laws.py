"""Laws of Chat: what goes out through one role comes back through the other."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.contracts import ResponseMeta
from gateway.protocols.chat import client, server
from ir.errors import ApiError, Fault, Kind, Reason
from ir.events import Event, Finish, FinishReason, PartKind, PartStart, ResponseStart
from ir.grammar import check
from ir.request import (
    Content,
    Image,
    Message,
    Reasoning,
    Request,
    Text,
    Thinking,
    ToolChoice,
    ToolMode,
    ToolResult,
)
from ir.response import Part, Response, fold
from ir.usage import Usage
from tests import strategies

META = ResponseMeta(response_id="r1", created=1, model="m", expose_reasoning=True)
ASKED = Request(model="m", messages=(Message("user", (Text("Hi"),)),), stream=True, include_usage=True)

efforts = st.sampled_from([Thinking(), Thinking(enabled=False), Thinking(enabled=True, effort="high")])


@st.composite
def chat_requests(draw: st.DrawFn) -> Request:
    """Requests in the form that Chat can say whole: see ``outgoing`` for what it cannot."""
    request = draw(strategies.requests())
    choice = request.tool_choice
    if draw(st.booleans()) and request.tools:
        choice = ToolChoice(ToolMode.ALLOWED, (request.tools[0].name,), forced=draw(st.booleans()))
    messages = tuple(Message(item.role, tuple(map(_sayable, item.content))) for item in request.messages)
    form = draw(st.none() | strategies.output_formats("response_format.type"))
    return replace(request, messages=messages, tool_choice=choice, thinking=draw(efforts), output_format=form)


def _sayable(part: Content) -> Content:
    match part:
        case Reasoning():
            return Reasoning(part.text)
        case ToolResult() if not isinstance(part.content, str):
            texts = tuple(item for item in part.content if not isinstance(item, Image))
            return ToolResult(part.call_id, texts or "")
        case ToolResult():
            return ToolResult(part.call_id, part.content)
        case _:
            return part


@given(chat_requests())
def test_a_request_survives_the_way_out_and_in(request: Request) -> None:
    body = orjson.loads(client.encode_request(request, request.model))
    assert server.decode_request(body) == replace(request, stream=True, include_usage=True)


def _decode(wire: bytes) -> list[Event]:
    stream = client.stream()
    return [*stream.feed(wire), *stream.close()]


def _encode(events: list[Event], request: Request = ASKED, meta: ResponseMeta = META) -> bytes:
    stream = server.stream(request, meta)
    return b"".join(stream.send(event) for event in events)


def _spoken(response: Response) -> Response:
    """What of an answer Chat can say: neighbouring texts are one, signatures are nothing."""
    parts: list[Part] = []
    for part in response.parts:
        if parts and parts[-1].kind is part.kind and part.kind is not PartKind.TOOL_CALL:
            parts[-1] = Part(part.kind, parts[-1].text + part.text)
        else:
            parts.append(Part(part.kind, part.text, part.call_id, part.name))
    return replace(response, parts=tuple(parts), finish=FinishReason(response.finish.unified))


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
def test_a_stream_cut_before_its_finish_is_a_fault_and_never_an_answer(
    events: list[Event], data: st.DataObject
) -> None:
    whole = _encode(events)
    finish_line = whole.rindex(b'{"index":0,"delta":{},')
    cut = data.draw(st.integers(0, whole.index(b"\n", finish_line)))
    stream = client.stream()
    heard = list(stream.feed(whole[:cut]))
    with pytest.raises(Fault) as caught:
        stream.close()
    assert caught.value.reason is Reason.CUT
    assert not any(isinstance(event, Finish) for event in heard)


def _put_together(wire: bytes) -> dict[str, Any]:
    """What a plain client makes of a stream."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "calls": {}}
    for line in wire.decode().split("\n\n"):
        if not line or line == "data: [DONE]":
            continue
        chunk = orjson.loads(line.removeprefix("data: "))
        message["usage"] = chunk["usage"]
        for choice in chunk["choices"]:
            delta = choice["delta"]
            message["finish"] = choice["finish_reason"]
            message["content"] += delta.get("content", "")
            message["reasoning_content"] += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", ()):
                known = message["calls"].setdefault(call["index"], {"arguments": ""})
                known["id"] = call.get("id", known.get("id"))
                known["name"] = call["function"].get("name", known.get("name"))
                known["arguments"] += call["function"]["arguments"]
    return message


@given(strategies.streams())
def test_the_stream_adds_up_to_the_whole_answer(events: list[Event]) -> None:
    streamed = _put_together(_encode(events))
    body = orjson.loads(server.encode_response(fold(events), ASKED, META))
    (choice,) = body["choices"]
    message = choice["message"]
    assert streamed["content"] == (message["content"] or "")
    assert streamed["reasoning_content"] == message.get("reasoning_content", "")
    assert streamed["finish"] == choice["finish_reason"]
    assert streamed["usage"] == body["usage"]
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        for call in message.get("tool_calls", ())
    ]
    assert [streamed["calls"][index] for index in range(len(streamed["calls"]))] == calls
    assert all(isinstance(orjson.loads(call["arguments"]), dict) for call in calls)


@given(strategies.streams())
def test_hidden_thinking_leaves_no_trace(events: list[Event]) -> None:
    meta = replace(META, expose_reasoning=False)
    assert b"reasoning_content" not in _encode(events, meta=meta)
    assert b"reasoning_content" not in server.encode_response(fold(events), ASKED, meta)
    assert _encode(events, meta=meta) == _encode(_without_thinking(events), meta=meta)


def _without_thinking(events: list[Event]) -> list[Event]:
    kept: list[Event] = []
    hidden = False
    for event in events:
        if isinstance(event, PartStart):
            hidden = event.kind is PartKind.REASONING
        if not hidden or isinstance(event, ResponseStart | Finish):
            kept.append(event)
    return kept


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Deltas of parallel calls in any order that keeps each call's own, and the calls they amount to."""
    calls = draw(st.lists(strategies.arguments, min_size=1, max_size=4))
    queues: list[list[dict[str, Any]]] = []
    for index, text in enumerate(calls):
        size = draw(st.integers(1, 6))
        start = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": "f", "arguments": ""}}
        cut = [text[position : position + size] for position in range(0, len(text), size)]
        queues.append([start, *({"index": index, "function": {"arguments": piece}} for piece in cut)])
    deltas = []
    while any(queues):
        deltas.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    return deltas, [(f"call_{index}", text) for index, text in enumerate(calls)]


@given(interleaved())
def test_interleaved_calls_come_out_whole_and_one_after_the_other(
    case: tuple[list[dict[str, Any]], list[tuple[str, str]]],
) -> None:
    deltas, calls = case
    frames = [{"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]} for delta in deltas]
    frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    heard = _decode(b"".join(b"data: " + orjson.dumps(frame) + b"\n\n" for frame in frames))
    check(heard)
    assert sorted((part.call_id, part.text) for part in fold(heard).parts) == calls


anything: st.SearchStrategy[Any] = strategies.json_values
values = anything | st.sampled_from(["auto", "none", "user", "function", "text", "image_url", [], {}, 1, True])
contents = values | st.lists(
    st.dictionaries(st.sampled_from(["type", "text", "image_url", "url"]), values, max_size=3), max_size=2
)
functions = values | st.dictionaries(st.sampled_from(["name", "arguments", "parameters", "strict"]), values, max_size=4)
wild_calls = values | st.lists(st.dictionaries(st.sampled_from(["id", "type", "function"]), functions), max_size=2)
wild_messages = st.lists(
    values
    | st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["system", "user", "assistant", "tool", "function", "x"]) | values,
            "content": contents,
            "tool_calls": wild_calls,
            "tool_call_id": values,
            "function_call": functions,
            "reasoning_content": values,
            "refusal": values,
            "name": values,
        },
    ),
    max_size=3,
)
wild_bodies = st.fixed_dictionaries(
    {"model": st.just("m") | values, "messages": wild_messages | values},
    optional={
        "tools": wild_calls,
        "tool_choice": values | st.dictionaries(st.sampled_from(["type", "function", "allowed_tools"]), functions),
        "functions": st.lists(functions, max_size=2) | values,
        "function_call": functions,
        "n": values,
        "stop": values,
        "temperature": values,
        "max_tokens": values,
        "modalities": values,
        "response_format": values,
        "stream_options": values,
        "reasoning_effort": values,
        "user": values,
        "seed": values,
    },
)


@given(wild_bodies | anything)
def test_any_json_is_a_request_or_a_named_refusal(body: object) -> None:
    try:
        request = server.decode_request(body)
    except ApiError as error:
        refusal = (error.kind, bool(error.code))
    else:
        roles = [message.role for message in request.messages]
        assert roles
        assert all(first != second for first, second in itertools.pairwise(roles))
        return
    assert refusal == (Kind.INVALID_REQUEST, True)


wild_chunks = st.fixed_dictionaries(
    {},
    optional={
        "id": values,
        "usage": values | st.fixed_dictionaries({"prompt_tokens": values, "prompt_tokens_details": values}),
        "error": st.none() | functions,
        "choices": values
        | st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.just(0) | values,
                    "finish_reason": st.sampled_from(["stop", "", "error", None]) | values,
                    "delta": values
                    | st.fixed_dictionaries(
                        {},
                        optional={"content": values, "reasoning": values, "tool_calls": wild_calls, "refusal": values},
                    ),
                },
            ),
            max_size=2,
        ),
    },
)


@given(st.lists(wild_chunks | anything, max_size=5))
def test_any_upstream_stream_is_legal_or_a_fault(chunks: list[object]) -> None:
    wire = b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks)
    try:
        heard = _decode(wire)
    except Fault:
        return
    check(heard)
    usage = fold(heard).usage
    assert (usage.cache_read or 0) >= 0
    assert isinstance(usage, Usage)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_fault(data: bytes) -> None:
    with pytest.raises(Fault):
        _decode(data)


@given(
    st.integers(100, 599), st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()), st.binary()
)
def test_every_refusal_has_a_class(status: int, headers: dict[str, str], body: bytes) -> None:
    fault = client.classify(status, headers, body)
    assert fault.retry_after is None or fault.retry_after >= 0


@given(st.integers(400, 599), functions)
def test_every_error_object_has_a_class_and_no_text_of_it_is_kept(status: int, error: object) -> None:
    fault = client.classify(status, {}, orjson.dumps({"error": error}))
    assert fault.upstream_code.replace("_", "").isalnum()
