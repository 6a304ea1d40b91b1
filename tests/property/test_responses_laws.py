"""Laws of Responses: what goes out through one role comes back through the other."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.contracts import ResponseMeta
from gateway.protocols.responses import client, server
from gateway.wire.sse import Reader
from ir.errors import ApiError, Fault, Kind, Reason
from ir.events import Event, Finish, FinishReason, PartKind, PartStart, ResponseStart
from ir.grammar import check
from ir.request import (
    Content,
    Message,
    Reasoning,
    Request,
    Text,
    Thinking,
    Tool,
    ToolChoice,
    ToolKind,
    ToolMode,
    ToolOrigin,
    ToolResult,
)
from ir.response import Part, Response, fold
from ir.usage import Usage
from tests import strategies

META = ResponseMeta(response_id="r1", created=1, model="m", expose_reasoning=True)
ASKED = Request(model="m", messages=(Message("user", (Text("Hi"),)),), stream=True)
EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

efforts = st.sampled_from([Thinking(), Thinking(enabled=False), Thinking(enabled=True, effort="high", visible=True)])


@st.composite
def responses_requests(draw: st.DrawFn) -> Request:
    """Requests in the form that Responses can say whole: see ``outgoing`` for what it cannot."""
    request = draw(strategies.requests(reasoning=False))
    choice = request.tool_choice
    if draw(st.booleans()) and request.tools:
        choice = ToolChoice(ToolMode.ALLOWED, (request.tools[0].name,), forced=draw(st.booleans()))
    messages = tuple(Message(item.role, tuple(map(_sayable, item.content))) for item in request.messages)
    tools = tuple(replace(tool, strict=bool(tool.strict)) for tool in request.tools)
    form = draw(st.none() | strategies.output_formats("text.format.type"))
    said = replace(request, messages=messages, tools=tools, tool_choice=choice, thinking=draw(efforts), stop=())
    return replace(said, output_format=form)


def _sayable(part: Content) -> Content:
    return ToolResult(part.call_id, part.content or "") if isinstance(part, ToolResult) else part


@given(responses_requests())
def test_a_request_survives_the_way_out_and_in(request: Request) -> None:
    body = orjson.loads(client.encode_request(request, request.model))
    assert replace(server.decode_request(body), echo={}) == replace(request, stream=True)


@given(responses_requests(), st.lists(st.builds(Reasoning, strategies.texts, strategies.texts), min_size=1))
def test_thinking_of_the_history_is_never_sent_on(request: Request, thoughts: list[Content]) -> None:
    first, *rest = request.messages
    thought = Message("assistant", tuple(thoughts))
    history = (first, *((replace(rest[0], content=(*thoughts, *rest[0].content)), *rest[1:]) if rest else (thought,)))
    with_thoughts = client.encode_request(replace(request, messages=history), "m")
    assert with_thoughts == client.encode_request(request, "m")


def _decode(wire: bytes) -> list[Event]:
    stream = client.stream()
    return [*stream.feed(wire), *stream.close()]


def _encode(events: list[Event], request: Request = ASKED, meta: ResponseMeta = META) -> bytes:
    stream = server.stream(request, meta)
    return b"".join(stream.send(event) for event in events)


def _payloads(wire: bytes) -> list[dict[str, Any]]:
    frames = Reader().feed(wire)
    payloads = [orjson.loads(frame.data) for frame in frames]
    assert [frame.event for frame in frames] == [payload["type"] for payload in payloads]
    return payloads


def _known(response: Response) -> Response:
    """Responses has no unknown counts, no signatures, and one word for every good end."""
    usage = response.usage
    counts = Usage(usage.input_uncached, usage.output, usage.cache_read or 0, usage.cache_write or 0, 0)
    parts = tuple(Part(part.kind, part.text, part.call_id, part.name) for part in response.parts)
    return Response(parts, FinishReason(response.finish.unified), counts)


@given(strategies.streams())
def test_events_survive_the_way_out_and_in(events: list[Event]) -> None:
    heard = _decode(_encode(events))
    check(heard)
    assert _known(fold(heard)) == _known(fold(events))


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


@given(strategies.streams(), st.data())
def test_a_stream_cut_before_its_end_is_a_fault_and_never_an_answer(events: list[Event], data: st.DataObject) -> None:
    whole = _encode(events)
    cut = data.draw(st.integers(0, len(whole) - 2))
    stream = client.stream()
    heard = list(stream.feed(whole[:cut]))
    with pytest.raises(Fault) as caught:
        stream.close()
    assert caught.value.reason is Reason.CUT
    assert not any(isinstance(event, Finish) for event in heard)


kinds = st.sampled_from(ToolKind)


@st.composite
def declared(draw: st.DrawFn) -> tuple[list[Event], Request, ResponseMeta]:
    """A stream whose calls are of tools declared in any form, and what the encoder is told."""
    events = draw(strategies.streams())
    names = {event.name for event in events if isinstance(event, PartStart) and event.kind is PartKind.TOOL_CALL}
    origins = st.none() | st.builds(ToolOrigin, kinds, strategies.names, strategies.names | st.just(""))
    offered = tuple(Tool(name, "", {"type": "object"}, origin=draw(origins)) for name in sorted(names))
    signed = Thinking(visible=True, signed=draw(st.booleans()))
    meta = replace(META, expose_reasoning=draw(st.booleans()), sign=lambda text: f"signed {len(text)}")
    return events, replace(ASKED, tools=offered, thinking=signed, echo={"store": False}), meta


@given(declared())
def test_the_stream_is_what_the_sdk_knows_and_ends_in_the_whole_answer(
    case: tuple[list[Event], Request, ResponseMeta],
) -> None:
    events, request, meta = case
    stream = server.stream(request, meta)
    payloads = _payloads(b"".join(stream.send(event) for event in events))
    for payload in payloads:
        EVENTS.validate_python(payload)
    assert [payload["sequence_number"] for payload in payloads] == list(range(len(payloads)))
    names = [payload["type"] for payload in payloads]
    assert names[:2] == ["response.created", "response.in_progress"]
    assert names[-1] in ("response.completed", "response.incomplete")
    assert sum(name in ("response.completed", "response.incomplete", "response.failed") for name in names) == 1
    final = payloads[-1]["response"]
    body = server.encode_response(fold(events), request, meta)
    assert body == orjson.dumps(final) == orjson.dumps(stream.final)
    SdkResponse.model_validate(final)
    assert {payload["response"]["id"] for payload in payloads if "response" in payload} == {"resp_r1"}


@given(declared())
def test_deltas_add_up_to_the_done_events_and_to_the_final_items(
    case: tuple[list[Event], Request, ResponseMeta],
) -> None:
    events, request, meta = case
    payloads = _payloads(_encode(events, request, meta))
    output = payloads[-1]["response"]["output"]
    added = [payload for payload in payloads if payload["type"] == "response.output_item.added"]
    finished = [payload for payload in payloads if payload["type"] == "response.output_item.done"]
    assert [payload["output_index"] for payload in added] == list(range(len(output)))
    assert [payload["item"] for payload in finished] == output
    for index, item in enumerate(output):
        assert added[index]["item"]["id"] == item["id"]
        mine = [payload for payload in payloads if payload.get("output_index") == index]
        assert {payload["item_id"] for payload in mine if "item_id" in payload} <= {item["id"]}
        pieces = "".join(payload["delta"] for payload in mine if payload["type"].endswith(".delta"))
        assert pieces == _text_of(item)
        for payload in mine:
            for field in ("text", "arguments", "input"):
                if payload["type"].endswith(".done"):
                    assert payload.get(field, pieces) == pieces


def _text_of(item: dict[str, Any]) -> str:
    match item["type"]:
        case "message":
            return str(item["content"][0]["text"])
        case "reasoning":
            return str(item["summary"][0]["text"])
        case "function_call":
            assert isinstance(orjson.loads(item["arguments"]), dict)
            return str(item["arguments"])
        case "custom_tool_call":
            return str(item["input"])
        case _:
            return ""


@given(strategies.streams())
def test_hidden_thinking_leaves_no_trace(events: list[Event]) -> None:
    meta = replace(META, expose_reasoning=False)
    assert b'"type":"reasoning"' not in _encode(events, meta=meta)
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


@given(strategies.streams(), st.data())
def test_a_failure_at_any_point_is_told_once_under_the_same_id(events: list[Event], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(Kind))
    stream = server.stream(ASKED, META)
    upto = data.draw(st.integers(0, len(events) - 1))
    wire = b"".join(stream.send(event) for event in events[:upto])
    payloads = _payloads(wire + stream.fail(ApiError(kind, "some_code", "what happened")))
    assert [payload["sequence_number"] for payload in payloads] == list(range(len(payloads)))
    failed = payloads[-1]["response"]
    assert (payloads[-1]["type"], failed["id"], failed["status"]) == ("response.failed", "resp_r1", "failed")
    assert failed["error"]["message"] == "what happened"
    assert [payload["type"] for payload in payloads].count("error") == (0 if upto else 1)
    assert stream.final is None
    if kind is not Kind.BILLING:  # its code is one that clients know from elsewhere
        EVENTS.validate_python(payloads[-1])


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Deltas of parallel calls in any order that keeps each call's own, and the calls they amount to."""
    calls = draw(st.lists(strategies.arguments, min_size=1, max_size=4))
    queues: list[list[dict[str, Any]]] = []
    for index, text in enumerate(calls):
        size = draw(st.integers(1, 6))
        item = {"type": "function_call", "call_id": f"call_{index}", "name": "f"}
        place = {"output_index": index}
        queue: list[dict[str, Any]] = [{"type": "response.output_item.added", "item": item, **place}]
        queue += [
            {"type": "response.function_call_arguments.delta", "delta": text[position : position + size], **place}
            for position in range(0, len(text), size)
        ]
        if draw(st.booleans()):  # an end that is left out comes with the response's
            queue.append({"type": "response.output_item.done", "item": {**item, "arguments": text}, **place})
        queues.append(queue)
    deltas = []
    while any(queues):
        deltas.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    return deltas, [(f"call_{index}", text) for index, text in enumerate(calls)]


@given(interleaved())
def test_interleaved_calls_come_out_whole_and_one_after_the_other(
    case: tuple[list[dict[str, Any]], list[tuple[str, str]]],
) -> None:
    deltas, calls = case
    frames = [*deltas, {"type": "response.completed", "response": {"id": "x"}}]
    heard = _decode(b"".join(b"data: " + orjson.dumps(frame) + b"\n\n" for frame in frames))
    check(heard)
    assert sorted((part.call_id, part.text) for part in fold(heard).parts) == calls


@given(strategies.streams(), st.sets(st.sampled_from(["delta", "added", "done", "part", "item"])))
def test_events_that_a_vendor_leaves_out_are_made_good(events: list[Event], missing: set[str]) -> None:
    """Whatever is left out, the final response still holds it; only a call that was named last comes last."""
    wire = b"".join(
        b"data: " + orjson.dumps(payload) + b"\n\n"
        for payload in _payloads(_encode(events))
        if not any(word in payload["type"] for word in missing)
    )
    heard, told = _known(fold(_decode(wire))), _known(fold(events))
    assert sorted(heard.parts, key=repr) == sorted(told.parts, key=repr)
    assert replace(heard, parts=()) == replace(told, parts=())


anything: st.SearchStrategy[Any] = strategies.json_values
values = anything | st.sampled_from(["auto", "none", "user", "function", "custom", "input_text", [], {}, 1, True])
TYPES = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
    "code_interpreter_call",
    "item_reference",
    "additional_tools",
    "compaction",
    "compaction_trigger",
]
FIELDS = [
    *("role", "content", "call_id", "id", "name", "namespace", "arguments", "input", "output", "action", "summary"),
    *("status", "tools", "outputs", "encrypted_content"),
]
entries = st.dictionaries(
    st.sampled_from(["type", "text", "image_url", "file_id", "name", "tools", "parameters", "execution", "format"]),
    values | st.sampled_from(["namespace", "tool_search", "local_shell", "web_search", "client", "input_image"]),
)
wild_items = st.lists(
    values
    | st.builds(
        lambda kind, rest: {**rest, **({} if kind is None else {"type": kind})},
        st.none() | st.sampled_from(TYPES),
        st.dictionaries(
            st.sampled_from(FIELDS),
            values | st.lists(entries, max_size=2) | st.sampled_from(["c1", "completed", "{}"]),
            max_size=6,
        ),
    ),
    max_size=4,
)
wild_bodies = st.fixed_dictionaries(
    {"model": st.just("m") | values, "input": wild_items | values},
    optional={
        "tools": st.lists(entries, max_size=2) | values,
        "tool_choice": values | st.dictionaries(st.sampled_from(["type", "name", "mode", "tools"]), values),
        "instructions": values,
        "include": values | st.just(["reasoning.encrypted_content"]),
        "reasoning": values | st.just({"effort": "low", "summary": "auto"}),
        "text": values,
        "metadata": values,
        "temperature": values,
        "max_output_tokens": values,
        "previous_response_id": values,
        "store": values,
        "user": values,
        "seed": values,
    },
)


@given(wild_bodies | anything, st.booleans())
def test_any_json_is_a_request_or_a_named_refusal(body: object, expanded: bool) -> None:
    try:
        server.references(body)
        if expanded and isinstance(body, dict):
            body = server.expand(body, [], {}, lambda data: data)
        request = server.decode_request(body)
    except ApiError as error:
        refusal = (error.kind, bool(error.code))
    else:
        roles = [message.role for message in request.messages]
        assert roles
        assert all(first != second for first, second in itertools.pairwise(roles))
        orjson.dumps({"response": request.echo})
        assert isinstance(body, dict)
        assert len({item["id"] for item in server.input_items(body, "r1")}) >= 1
        return
    assert refusal == (Kind.INVALID_REQUEST, True)


wild_events = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            [
                "response.created",
                "response.output_item.added",
                "response.output_text.delta",
                "response.reasoning_text.delta",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "response.output_text.done",
                "response.output_item.done",
                "response.completed",
                "response.incomplete",
                "response.failed",
                "error",
            ]
        )
        | values,
        "output_index": st.integers(0, 2) | values,
        "item": st.fixed_dictionaries(
            {"type": st.sampled_from(["message", "function_call", "reasoning"]) | values},
            optional=dict.fromkeys(("call_id", "name", "arguments", "content", "summary"), values),
        )
        | values,
        "delta": values,
        "text": values,
        "arguments": values | st.just("{}"),
        "response": st.fixed_dictionaries(
            {}, optional={"id": values, "usage": values, "output": wild_items, "error": values, "status": values}
        )
        | values,
    },
)


@given(st.lists(wild_events | anything, max_size=6))
def test_any_upstream_stream_is_legal_or_a_fault(frames: list[object]) -> None:
    wire = b"".join(b"data: " + orjson.dumps(frame) + b"\n\n" for frame in frames)
    try:
        heard = _decode(wire)
    except Fault:
        return
    check(heard)
    assert (fold(heard).usage.cache_read or 0) >= 0


@given(st.binary(max_size=200))
def test_any_bytes_are_a_fault(data: bytes) -> None:
    with pytest.raises(Fault):
        _decode(data)
