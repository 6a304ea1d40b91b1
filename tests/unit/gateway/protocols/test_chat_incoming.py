from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.chat import client
from gateway.protocols.chat.incoming import decode_usage
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.grammar import check
from ir.response import Response, fold
from ir.usage import Usage

DONE = b"data: [DONE]\n\n"


def frame(payload: object) -> bytes:
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    return frame({"id": "x1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def tool(index: int | None, arguments: str = "", **start: str) -> bytes:
    entry: dict[str, Any] = {} if index is None else {"index": index}
    if "id" in start:
        entry["id"] = start["id"]
    function = {"arguments": arguments} | ({"name": start["name"]} if "name" in start else {})
    return chunk({"tool_calls": [entry | {"function": function}]})


def finish(reason: str = "tool_calls") -> bytes:
    return chunk({}, reason) + DONE


def events(*wire: bytes) -> list[Event]:
    stream = client.stream()
    heard = [event for piece in wire for event in stream.feed(piece)]
    heard.extend(stream.close())
    check(heard)
    return heard


def answer(*wire: bytes) -> Response:
    return fold(events(*wire))


def fault(*wire: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        events(*wire)
    return caught.value


def calls(response: Response) -> list[tuple[str, str, str]]:
    return [(part.call_id, part.name, part.text) for part in response.parts]


def test_a_plain_answer_is_one_text_part() -> None:
    heard = events(chunk({"role": "assistant", "content": ""}), chunk({"content": "Hi"}), finish("stop"))
    assert heard[:-1] == [ResponseStart("x1"), PartStart(PartKind.TEXT), PartDelta("Hi"), PartEnd()]


def test_an_empty_delta_opens_no_text_before_the_thinking() -> None:
    response = answer(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "", "reasoning_content": "Hm"}),
        chunk({"content": "Hello"}),
        finish("stop"),
    )
    assert [(part.kind, part.text) for part in response.parts] == [
        (PartKind.REASONING, "Hm"),
        (PartKind.TEXT, "Hello"),
    ]


def test_both_names_of_thinking_are_read_once() -> None:
    response = answer(chunk({"reasoning": "a"}), chunk({"reasoning": "b", "reasoning_content": "b"}), finish("stop"))
    assert [part.text for part in response.parts] == ["ab"]


def test_a_call_streams_as_it_comes() -> None:
    stream = client.stream()
    assert list(stream.feed(tool(0, "", id="c1", name="f")))[1:] == [PartStart(PartKind.TOOL_CALL, "c1", "f")]
    assert stream.feed(tool(0, '{"ci')) == [PartDelta('{"ci')]
    assert stream.feed(tool(0, 'ty":1}')) == [PartDelta('ty":1}')]


def test_interleaved_calls_come_one_after_the_other() -> None:
    response = answer(
        tool(0, id="call_1", name="get_weather"),
        tool(1, id="call_2", name="get_weather"),
        tool(1, '{"city":'),
        tool(0, '{"city":"上海"}'),
        tool(1, '"Paris"}'),
        finish(),
    )
    assert calls(response) == [
        ("call_1", "get_weather", '{"city":"上海"}'),
        ("call_2", "get_weather", '{"city":"Paris"}'),
    ]


def test_a_whole_call_is_over_when_the_next_one_begins() -> None:
    stream = client.stream()
    stream.feed(tool(0, "{}", id="c1", name="f"))
    assert stream.feed(tool(1, '{"a', id="c2", name="g")) == [
        PartEnd(),
        PartStart(PartKind.TOOL_CALL, "c2", "g"),
        PartDelta('{"a'),
    ]


def test_blanks_behind_a_whole_call_are_nothing_and_more_is_a_fault() -> None:
    begun = (tool(0, "{}", id="c1", name="f"), tool(1, "{}", id="c2", name="g"))
    assert len(calls(answer(*begun, tool(0, " \n"), finish()))) == 2
    assert fault(*begun, tool(0, "{}"), finish()).reason is Reason.BROKEN_TOOL_CALL


@pytest.mark.parametrize("repeat", [{"id": "c1"}, {"name": "f"}, {"id": "c1", "name": "f"}])
def test_an_id_or_name_in_every_delta_is_one_call(repeat: dict[str, str]) -> None:
    response = answer(tool(0, '{"a"', id="c1", name="f"), tool(0, ":1}", **repeat), finish())
    assert calls(response) == [("c1", "f", '{"a":1}')]


def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    response = answer(tool(0, "{}", id="c1", name="f"), tool(0, '{"a":1}', id="c2", name="f"), finish())
    assert calls(response) == [("c1", "f", "{}"), ("c2", "f", '{"a":1}')]


def test_deltas_without_an_index_belong_to_the_call_before() -> None:
    response = answer(
        tool(None, '{"a"', id="c1", name="f"), tool(None, ":1}"), tool(None, "{}", id="c2", name="g"), finish()
    )
    assert calls(response) == [("c1", "f", '{"a":1}'), ("c2", "g", "{}")]


def test_a_call_without_an_id_gets_one_that_no_other_turn_has() -> None:
    assert calls(answer(tool(0, "{}", name="f"), finish())) == [("call_x1_0", "f", "{}")]


def test_a_call_waits_for_its_name() -> None:
    response = answer(tool(0, '{"a"', id="c1"), tool(0, ":1}", name="f"), finish())
    assert calls(response) == [("c1", "f", '{"a":1}')]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert calls(answer(tool(0, id="c1", name="f"), finish())) == [("c1", "f", "{}")]


def test_text_between_calls_keeps_its_place() -> None:
    response = answer(
        tool(0, "{}", id="c1", name="f"), chunk({"content": "and"}), tool(1, "{}", id="c2", name="f"), finish()
    )
    assert [part.kind for part in response.parts] == [PartKind.TOOL_CALL, PartKind.TEXT, PartKind.TOOL_CALL]


@pytest.mark.parametrize(
    "wire",
    [
        tool(0, "{city:", id="c1", name="f"),
        tool(0, "[]", id="c1", name="f"),
        tool(0, '{"a":1', id="c1", name="f"),
        tool(0, "{}", id="c1"),
    ],
)
def test_a_call_that_is_not_whole_at_the_end_is_a_fault(wire: bytes) -> None:
    assert fault(wire, finish()).reason is Reason.BROKEN_TOOL_CALL


@pytest.mark.parametrize(
    ("raw", "unified"),
    [
        ("stop", Unified.STOP),
        ("length", Unified.LENGTH),
        ("content_filter", Unified.CONTENT_FILTER),
        ("eos", Unified.STOP),
    ],
)
def test_the_reason_of_the_end_is_one_word_for_all_vendors(raw: str, unified: Unified) -> None:
    reason = answer(chunk({"content": "x"}), finish(raw)).finish
    assert (reason.unified, reason.raw) == (unified, raw)


def test_a_turn_with_a_call_ends_with_it_whatever_the_vendor_says() -> None:
    assert answer(tool(0, "{}", id="c1", name="f"), finish("stop")).finish.unified is Unified.TOOL_CALLS
    assert answer(tool(0, "{}", id="c1", name="f"), finish("length")).finish.unified is Unified.LENGTH


def test_an_end_for_a_call_that_never_came_is_a_fault() -> None:
    assert fault(chunk({"content": "x"}), finish("tool_calls")).reason is Reason.MISSING_TOOL_CALL


def test_an_empty_reason_is_no_end() -> None:
    assert fault(chunk({"content": "x"}, ""), DONE).reason is Reason.CUT


def test_the_end_of_the_connection_after_a_reason_is_an_end() -> None:
    assert answer(chunk({"content": "x"}, "stop")).finish.unified is Unified.STOP


@pytest.mark.parametrize(
    ("wire", "stage"), [(b"", Stage.PREAMBLE), (DONE, Stage.PREAMBLE), (chunk({"content": "x"}), Stage.CONTENT)]
)
def test_an_end_without_a_reason_is_a_cut(wire: bytes, stage: Stage) -> None:
    caught = fault(wire)
    assert (caught.reason, caught.stage) == (Reason.CUT, stage)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"message": "x", "code": "rate_limit_exceeded"}, Reason.RATE_LIMIT),
        ({"message": "x", "code": 502}, Reason.TRANSIENT),
        ({"message": "x", "type": "overloaded_error"}, Reason.CAPACITY),
        ("plain text", Reason.TRANSIENT),
    ],
)
def test_an_error_frame_is_a_fault_of_its_class(error: object, reason: Reason) -> None:
    caught = fault(chunk({"content": "x"}), frame({"error": error}))
    assert (caught.reason, caught.stage) == (reason, Stage.CONTENT)


def test_an_error_told_as_a_reason_is_a_fault() -> None:
    assert fault(chunk({"content": "x"}, "error"), DONE).reason is Reason.TRANSIENT


@pytest.mark.parametrize(
    "wire",
    [
        b"data: <html>\n\n",
        b"data: []\n\n",
        frame({"hello": 1}),
        chunk({"content": ["x"]}),
        chunk({"tool_calls": 1}),
        frame({"choices": 1, "usage": {}}),
    ],
)
def test_what_is_no_chunk_is_a_fault(wire: bytes) -> None:
    assert fault(wire).reason is Reason.PROTOCOL


def test_other_choices_and_what_follows_the_end_are_nothing() -> None:
    other = frame({"id": "x1", "choices": [{"index": 1, "delta": {"content": "no"}}]})
    response = answer(chunk({"content": "yes"}), other, finish("stop"), chunk({"content": "late"}))
    assert [part.text for part in response.parts] == ["yes"]


def test_a_refusal_is_text() -> None:
    assert answer(chunk({"refusal": "No."}), finish("stop")).parts[0].text == "No."


def test_usage_is_taken_from_the_finish_or_from_after_it() -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 2}
    expected = Usage(input_uncached=5, output=2)
    assert answer(chunk({"content": "x"}), chunk({}, "stop", usage=counts), DONE).usage == expected
    late = frame({"id": "x1", "choices": [], "usage": counts})
    assert answer(chunk({"content": "x"}, usage=None), chunk({}, "stop"), late, DONE).usage == expected
    assert isinstance(events(chunk({"content": "x"}, "stop"), late)[-1], Finish)


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        ({}, Usage()),
        ({"prompt_tokens": -1, "completion_tokens": True}, Usage()),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 10},
            },
            Usage(input_uncached=50, output=50, cache_read=20, cache_write=30, reasoning=10),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 99}},
            Usage(input_uncached=0, output=1, cache_read=10),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 5}},
            Usage(input_uncached=10, output=1, reasoning=1),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 4},
            Usage(input_uncached=6, output=1, cache_read=4),
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Usage(input_uncached=10)),
    ],
)
def test_counts_are_clamped_and_what_is_missing_stays_unknown(body: dict[str, Any], usage: Usage) -> None:
    assert decode_usage(body) == usage
