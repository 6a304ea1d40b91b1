from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.cloud.bodies import Outcome
from gateway.protocols.cloud.stream import RunStream
from ir.errors import Fault, Reason, Stage
from ir.events import PartKind
from ir.usage import Usage

TEXT, THOUGHT = PartKind.TEXT, PartKind.REASONING


def frame(event: str, data: Any, identifier: str = "") -> bytes:
    head = f"id: {identifier}\n" if identifier else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


def said(text: str, identifier: str = "") -> bytes:
    return frame("assistant", {"text": text}, identifier)


def result(status: str = "FINISHED", **more: str) -> bytes:
    return frame("result", {"runId": "r", "status": status, **more}, "end")


def test_text_and_thinking_come_as_they_are_streamed() -> None:
    stream = RunStream()
    pieces = stream.feed(
        frame("status", {"status": "RUNNING"})
        + frame("thinking", {"text": "Hm"}, "1")
        + said("Hel", "2")
        + said("lo", "3")
        + result(text="Hello")
        + frame("done", {})
    )
    assert pieces == [(THOUGHT, "Hm"), (TEXT, "Hel"), (TEXT, "lo")]
    assert stream.outcome == Outcome("FINISHED", "Hello")


@pytest.mark.parametrize("twin_first", [True, False])
def test_the_twin_of_an_event_says_nothing_new(twin_first: bool) -> None:
    pair = [said("Hi", "1"), frame("interaction_update", {"type": "text-delta", "text": "Hi"}, "1")]
    stream = RunStream()
    assert stream.feed(b"".join(reversed(pair) if twin_first else pair)) == [(TEXT, "Hi")]
    assert stream.signs == 1


def test_a_twin_that_comes_alone_counts_and_one_without_an_id_does_not() -> None:
    alone = frame("interaction_update", {"type": "thinking-delta", "text": "Hm"}, "1")
    assert RunStream().feed(alone) == [(THOUGHT, "Hm")]
    assert RunStream().feed(frame("interaction_update", {"type": "text-delta", "text": "Hi"})) == []


def test_events_without_an_id_all_count() -> None:
    assert RunStream().feed(said("Hi") + said("Hi")) == [(TEXT, "Hi"), (TEXT, "Hi")]


def test_a_new_connection_drops_what_was_half_read_and_repeats_nothing() -> None:
    stream = RunStream()
    assert stream.feed(said("one ", "1") + said("two ", "2") + said("three", "3")[:20]) == [
        (TEXT, "one "),
        (TEXT, "two "),
    ]
    assert stream.last_id == "2"
    stream.reconnect()
    assert stream.feed(said("two ", "2") + said("three", "3")) == [(TEXT, "three")]


@pytest.mark.parametrize(
    ("streamed", "whole", "rest"),
    [("", "Hello", "Hello"), ("Hel", "Hello", "lo"), ("Hello", "Hello", ""), ("Other", "Hello", ""), ("Hello", "", "")],
)
def test_what_the_result_holds_beyond_the_stream_is_appended(streamed: str, whole: str, rest: str) -> None:
    stream = RunStream()
    if streamed:
        stream.feed(said(streamed, "1"))
    assert stream.conclude(Outcome("FINISHED", whole)) == ([(TEXT, rest)] if rest else [])
    assert stream.over


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("ERROR", Reason.TRANSIENT),
        ("CANCELLED", Reason.TRANSIENT),
        ("EXPIRED", Reason.TIMEOUT),
        ("RUNNING", Reason.PROTOCOL),
    ],
)
def test_a_run_that_did_not_finish_is_a_fault(status: str, reason: Reason) -> None:
    stream = RunStream()
    stream.feed(said("Hi", "1"))
    with pytest.raises(Fault) as caught:
        stream.feed(result(status))
    assert (caught.value.reason, caught.value.stage) == (reason, Stage.CONTENT)
    assert not stream.over


def test_what_came_before_an_error_in_the_same_read_is_not_lost() -> None:
    stream = RunStream()
    assert stream.feed(said("Hi", "1") + result("ERROR")) == [(TEXT, "Hi")]
    assert stream.fault is not None
    assert stream.fault.upstream_code == "run_error"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("unauthorized", Reason.AUTH_REVOKED),
        ("forbidden", Reason.FORBIDDEN),
        ("not_found", Reason.TRANSIENT),
        ("usage_limit_exceeded", Reason.QUOTA),
        ("validation_error", Reason.BAD_REQUEST),
    ],
)
def test_an_error_of_somebodys_doing_is_final(code: str, reason: Reason) -> None:
    with pytest.raises(Fault) as caught:
        RunStream().feed(frame("error", {"code": code, "message": "secret"}))
    assert (caught.value.reason, caught.value.upstream_code) == (reason, code)


@pytest.mark.parametrize(
    ("code", "name"), [("internal_error", "internal_error"), ("brand_new", "stream_error"), (None, "stream_error")]
)
def test_an_error_that_may_pass_is_trouble_until_the_next_connection(code: str | None, name: str) -> None:
    stream = RunStream()
    assert stream.feed(frame("error", {"code": code})) == []
    assert stream.trouble is not None
    assert stream.trouble.upstream_code == name
    stream.reconnect()
    assert stream.trouble is None


def test_heartbeats_and_what_nobody_knows_are_no_sign_of_work_but_tool_calls_are() -> None:
    stream = RunStream()
    stream.feed(frame("heartbeat", {}) + frame("status", {}) + b"event: novelty\ndata: not json\n\n")
    assert stream.signs == 0
    stream.feed(frame("tool_call", {"callId": "c", "name": "shell", "status": "running"}, "1"))
    assert (stream.signs, stream.stage) == (1, Stage.CONTENT)


def test_usage_that_the_stream_tells_is_kept() -> None:
    stream = RunStream()
    usage = {"inputTokens": 4, "outputTokens": 2, "cacheReadTokens": 1, "cacheWriteTokens": 0}
    stream.feed(frame("interaction_update", {"type": "turn-ended", "usage": usage}, "9"))
    assert stream.usage == Usage(input_uncached=4, output=2, cache_read=1, cache_write=0)


@pytest.mark.parametrize("data", [b"{", b"[]", b"null", b"\xff\xfe"])
def test_an_event_that_cannot_be_read_is_a_fault(data: bytes) -> None:
    for event in (b"assistant", b"result", b"error"):
        with pytest.raises(Fault) as caught:
            RunStream().feed(b"event: " + event + b"\ndata: " + data + b"\n\n")
        assert caught.value.reason is Reason.PROTOCOL
