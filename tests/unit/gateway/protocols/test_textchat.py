from __future__ import annotations

import json

import pytest

from gateway.protocols.textchat.client import BY_STATUS, TextStream, classify, encode_request
from ir.errors import Fault, Reason, Stage
from ir.events import FinishReason, PartKind, Unified
from ir.usage import Usage


def event(kind: str, **more: object) -> bytes:
    return b"data: " + json.dumps({"type": kind, **more}).encode() + b"\n\n"


def delta(text: str) -> bytes:
    return event("text-delta", id="0", delta=text)


USAGE = {"messageMetadata": {"usage": {"inputTokens": 12, "outputTokens": 1, "totalTokens": 13}}}
DONE = b"data: [DONE]\n\n"


def test_a_turn_is_said_in_text_parts_with_the_system_first() -> None:
    body = json.loads(encode_request("m", "Be brief.", [("user", "Hi"), ("assistant", "Yes")], "a1b2c3d4e5f60718"))
    assert body == {
        "context": [],
        "model": "m",
        "id": "a1b2c3d4e5f60718",
        "trigger": "submit-message",
        "messages": [
            {"role": "system", "parts": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "parts": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "parts": [{"type": "text", "text": "Yes"}]},
        ],
    }
    assert json.loads(encode_request("m", "", [("user", "Hi")], "0" * 16))["messages"][0]["role"] == "user"


def test_text_and_reasoning_are_told_apart() -> None:
    stream = TextStream()
    pieces = stream.feed(
        event("start") + event("reasoning-delta", delta="Hm") + delta("Hi") + event("finish", **USAGE) + DONE
    )
    assert pieces == [(PartKind.REASONING, "Hm"), (PartKind.TEXT, "Hi")]
    assert stream.ended
    assert stream.close() == FinishReason(Unified.STOP)
    assert stream.usage == Usage(input_uncached=12, output=1)


@pytest.mark.parametrize("end", [event("finish"), DONE, event("finish") + DONE])
def test_a_finish_or_done_ends_the_answer_with_or_without_usage(end: bytes) -> None:
    stream = TextStream()
    stream.feed(delta("Hi") + end)
    assert stream.close().unified is Unified.STOP
    assert stream.usage == Usage()


@pytest.mark.parametrize(("start", "stage"), [(b"", Stage.PREAMBLE), (delta("Hi"), Stage.CONTENT)])
def test_an_end_without_either_is_a_cut(start: bytes, stage: Stage) -> None:
    stream = TextStream()
    stream.feed(start)
    with pytest.raises(Fault) as caught:
        stream.close()
    assert (caught.value.reason, caught.value.stage) == (Reason.CUT, stage)


@pytest.mark.parametrize(
    ("raw", "unified"),
    [("length", Unified.LENGTH), ("content-filter", Unified.CONTENT_FILTER), ("stop", Unified.STOP), (7, Unified.STOP)],
)
def test_a_reason_is_kept_where_the_server_tells_one(raw: object, unified: Unified) -> None:
    stream = TextStream()
    stream.feed(event("finish", finishReason=raw))
    assert stream.close().unified is unified


def test_nothing_counts_after_done() -> None:
    stream = TextStream()
    assert stream.feed(delta("Hi") + DONE + delta("more")) == [(PartKind.TEXT, "Hi")]
    assert stream.feed(delta("more")) == []


def test_an_error_in_the_stream_is_a_fault_without_its_text() -> None:
    with pytest.raises(Fault) as caught:
        TextStream().feed(event("error", errorText="secret"))
    assert (caught.value.reason, caught.value.stage) == (Reason.TRANSIENT, Stage.PREAMBLE)
    assert "secret" not in str(vars(caught.value))


def test_what_came_before_an_error_in_the_same_read_is_not_lost() -> None:
    stream = TextStream()
    assert stream.feed(delta("Hi") + event("error", errorText="secret")) == [(PartKind.TEXT, "Hi")]
    assert stream.fault is not None
    assert (stream.fault.reason, stream.fault.stage) == (Reason.TRANSIENT, Stage.CONTENT)


@pytest.mark.parametrize("raw", [b"data: {\n\n", b"data: []\n\n", event("text-delta", delta=5), event("text-delta")])
def test_what_cannot_be_read_is_a_fault(raw: bytes) -> None:
    with pytest.raises(Fault) as caught:
        TextStream().feed(raw)
    assert caught.value.reason is Reason.PROTOCOL


@pytest.mark.parametrize("cut", range(1, 60))
def test_the_answer_does_not_depend_on_how_it_is_cut(cut: int) -> None:
    wire = event("reasoning-delta", delta="é") + delta("häng") + event("finish", **USAGE) + DONE
    stream = TextStream()
    pieces = [piece for start in range(0, len(wire), cut) for piece in stream.feed(wire[start : start + cut])]
    assert pieces == [(PartKind.REASONING, "é"), (PartKind.TEXT, "häng")]


@pytest.mark.parametrize("status", [*BY_STATUS, 302, 500, 418])
def test_a_status_tells_who_is_to_blame_and_a_page_blames_the_way(status: int) -> None:
    expected = BY_STATUS.get(status, Reason.TRANSIENT if status >= 500 else Reason.PROTOCOL)
    assert classify(status, {"retry-after": "7"}, b"{}").reason is expected
    assert classify(status, {"retry-after": "7"}, b"{}").retry_after == 7
    for headers, body in (({"content-type": "text/html; charset=utf-8"}, b""), ({}, b"\n<!DOCTYPE html>")):
        assert classify(status, headers, body).reason is Reason.EGRESS
