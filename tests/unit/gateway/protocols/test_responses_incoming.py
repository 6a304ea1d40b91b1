from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.responses import client
from gateway.protocols.responses.incoming import decode_usage
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.grammar import check
from ir.response import Response, fold
from ir.usage import Usage


def frame(kind: str, index: int | None = 0, **fields: Any) -> bytes:
    place = {} if index is None else {"output_index": index}
    return b"data: " + orjson.dumps({"type": f"response.{kind}", **place, **fields}) + b"\n\n"


def call(call_id: str = "c1", name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, **more}


def arguments(piece: str, index: int | None = 0) -> bytes:
    return frame("function_call_arguments.delta", index, delta=piece)


def end(kind: str = "completed", **response: Any) -> bytes:
    return frame(kind, None, response={"id": "resp_1", **response})


CREATED = frame("created", None, response={"id": "resp_1"})


def events(*wire: bytes) -> list[Event]:
    stream = client.stream()
    heard = [event for piece in wire for event in stream.feed(piece)]
    heard.extend(stream.close())
    check(heard)
    return heard


def answer(*wire: bytes) -> Response:
    return fold(events(*wire))


def texts(response: Response) -> list[tuple[PartKind, str]]:
    return [(part.kind, part.text) for part in response.parts]


def fault(*wire: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        events(*wire)
    return caught.value


def test_a_plain_answer_streams_as_it_comes() -> None:
    stream = client.stream()
    assert stream.feed(CREATED) == [ResponseStart("resp_1")]
    assert stream.feed(frame("output_item.added", item={"type": "message"})) == []
    assert stream.feed(frame("output_text.delta", delta="Hi")) == [PartStart(PartKind.TEXT), PartDelta("Hi")]
    done = frame("output_item.done", item={"type": "message", "content": [{"type": "output_text", "text": "Hi"}]})
    assert stream.feed(done) == [PartEnd()]


def test_a_call_opens_with_its_name_and_streams() -> None:
    stream = client.stream()
    stream.feed(CREATED)
    added = frame("output_item.added", item=call(arguments=""))
    assert stream.feed(added) == [PartStart(PartKind.TOOL_CALL, "c1", "f")]
    assert stream.feed(arguments('{"a"')) == [PartDelta('{"a"')]


def test_items_may_interleave() -> None:
    """Criterion 6."""
    response = answer(
        CREATED,
        frame("output_item.added", 0, item=call("call_1")),
        frame("output_item.added", 1, item=call("call_2")),
        arguments('{"city":', 1),
        arguments('{"city":"上海"}', 0),
        arguments('"Paris"}', 1),
        frame("output_item.done", 1, item=call("call_2")),
        frame("output_item.done", 0, item=call("call_1")),
        end(),
    )
    assert [(part.call_id, part.text) for part in response.parts] == [
        ("call_1", '{"city":"上海"}'),
        ("call_2", '{"city":"Paris"}'),
    ]


MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}


@pytest.mark.parametrize(
    "wire",
    [
        [frame("output_item.done", item=MESSAGE), end()],
        [frame("output_item.done", None, item=MESSAGE), end()],
        [frame("output_text.delta", None, delta="Hello"), end()],
        [frame("output_text.done", text="Hello"), end()],
        [frame("output_text.delta", delta="Hel"), frame("output_item.done", item=MESSAGE), end()],
        [frame("output_text.delta", delta="Hello"), frame("output_text.done", text="Hello"), end(output=[MESSAGE])],
        [end(output=[MESSAGE])],
        [end(output=[{"type": "web_search_call"}, MESSAGE])],
    ],
)
def test_pieces_that_a_vendor_leaves_out_are_made_good(wire: list[bytes]) -> None:
    assert texts(answer(*wire)) == [(PartKind.TEXT, "Hello")]


def test_a_call_that_only_the_end_tells_of_is_a_call() -> None:
    response = answer(end(output=[call(arguments='{"a":1}')]))
    assert (response.parts[0].name, response.parts[0].text) == ("f", '{"a":1}')
    assert response.finish.unified is Unified.TOOL_CALLS


def test_a_call_without_arguments_or_id_is_completed() -> None:
    (part,) = answer(CREATED, frame("output_item.done", item={"type": "function_call", "name": "f"}), end()).parts
    assert (part.call_id, part.text) == ("call_resp_1_0", "{}")


def test_thinking_is_the_summary_with_its_paragraphs_apart() -> None:
    response = answer(
        frame("reasoning_summary_text.delta", delta="a", summary_index=0),
        frame("reasoning_summary_text.delta", delta="b", summary_index=1),
        frame("reasoning_text.delta", delta="the same at length", content_index=0),
        frame("output_text.delta", 1, delta="x"),
        end(),
    )
    assert texts(response) == [(PartKind.REASONING, "a\n\nb"), (PartKind.TEXT, "x")]


def test_a_refusal_is_text() -> None:
    assert texts(answer(frame("refusal.delta", delta="No."), end())) == [(PartKind.TEXT, "No.")]


def test_other_events_items_and_a_terminator_are_nothing() -> None:
    response = answer(
        b": comment\n\n",
        frame("web_search_call.searching"),
        frame("output_item.added", 0, item={"type": "web_search_call"}),
        frame("output_item.done", 0, item={"type": "web_search_call"}),
        frame("output_text.delta", 1, delta="x"),
        end(),
        b"data: [DONE]\n\n",
        frame("output_text.delta", 2, delta="late"),
    )
    assert texts(response) == [(PartKind.TEXT, "x")]


def test_the_name_of_the_frame_stands_in_for_a_missing_type() -> None:
    wire = b'event: response.output_text.delta\ndata: {"output_index":0,"delta":"x"}\n\n' + end()
    assert texts(answer(wire)) == [(PartKind.TEXT, "x")]


@pytest.mark.parametrize(
    ("wire", "unified", "raw"),
    [
        (end(), Unified.STOP, "completed"),
        (end("incomplete", incomplete_details={"reason": "max_output_tokens"}), Unified.LENGTH, "max_output_tokens"),
        (end("incomplete", incomplete_details={"reason": "content_filter"}), Unified.CONTENT_FILTER, "content_filter"),
        (end("incomplete"), Unified.LENGTH, "incomplete"),
        (end("completed", status="incomplete"), Unified.LENGTH, "incomplete"),
    ],
)
def test_the_reason_of_the_end(wire: bytes, unified: Unified, raw: str) -> None:
    reason = answer(frame("output_text.delta", delta="x"), wire).finish
    assert (reason.unified, reason.raw) == (unified, raw)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (end("failed", error={"code": "rate_limit_exceeded", "message": "x"}), Reason.RATE_LIMIT),
        (end("failed", error={"code": "server_error", "message": "x"}), Reason.TRANSIENT),
        (end("failed", error={"code": "context_length_exceeded"}), Reason.CONTEXT_TOO_LONG),
        (end("failed"), Reason.TRANSIENT),
        (end("completed", status="failed", error={"code": "insufficient_quota"}), Reason.QUOTA),
        (b'data: {"type":"error","code":"invalid_prompt","message":"x"}\n\n', Reason.POLICY),
        (b'data: {"type":"error","error":{"type":"overloaded_error"}}\n\n', Reason.CAPACITY),
        (b'data: {"error":{"code":"server_error"}}\n\n', Reason.TRANSIENT),
    ],
)
def test_a_failure_is_a_fault_of_its_class(wire: bytes, reason: Reason) -> None:
    caught = fault(CREATED, frame("output_text.delta", delta="x"), wire)
    assert (caught.reason, caught.stage) == (reason, Stage.CONTENT)


@pytest.mark.parametrize("given", ["{city:", "[]", '{"a":1'])
def test_a_call_that_is_not_whole_is_a_fault(given: str) -> None:
    wire = [frame("output_item.added", item=call()), arguments(given)]
    assert fault(*wire, end()).reason is Reason.BROKEN_TOOL_CALL
    assert fault(arguments("{}"), end()).reason is Reason.BROKEN_TOOL_CALL, "it has no name"


@pytest.mark.parametrize(
    ("wire", "stage"), [(b"", Stage.PREAMBLE), (b"data: [DONE]\n\n", Stage.PREAMBLE), (CREATED, Stage.CONTENT)]
)
def test_an_end_of_the_connection_before_the_end_is_a_cut(wire: bytes, stage: Stage) -> None:
    caught = fault(wire)
    assert (caught.reason, caught.stage) == (Reason.CUT, stage)


@pytest.mark.parametrize("wire", [b"data: <html>\n\n", b"data: []\n\n"])
def test_what_is_no_event_is_a_fault(wire: bytes) -> None:
    assert fault(wire).reason is Reason.PROTOCOL


def test_an_item_that_changes_its_kind_is_a_fault() -> None:
    wire = [frame("output_text.delta", delta="x"), frame("output_item.done", item=call(arguments="{}"))]
    assert fault(*wire).reason is Reason.PROTOCOL


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        ({}, Usage()),
        (
            {
                "input_tokens": 100,
                "output_tokens": 50,
                "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 30},
                "output_tokens_details": {"reasoning_tokens": 10},
            },
            Usage(50, 50, cache_read=20, cache_write=30, reasoning=10),
        ),
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}, Usage(0, cache_read=5)),
        ({"input_tokens": "5", "output_tokens_details": []}, Usage()),
    ],
)
def test_counts_are_clamped_and_what_is_missing_stays_unknown(body: dict[str, Any], usage: Usage) -> None:
    assert decode_usage(body) == usage


def test_usage_comes_with_the_end() -> None:
    usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    assert answer(frame("output_text.delta", delta="x"), end(usage=usage)).usage == Usage(9, 2)
