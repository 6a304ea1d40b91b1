"""Token counts in every protocol: exact where the upstream tells, marked as estimated where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.caller import EVERY, Caller
from tests.plugins.house import House

pytestmark = [
    pytest.mark.usefixtures("calm"),
    pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"]),
]

# The simulator reports 120 input tokens, of which 30 were read from and 10 written to the cache, and 8 output tokens,
# 5 of them reasoning.
CACHE = {
    "chat": {
        "prompt_tokens": 120,
        "completion_tokens": 8,
        "total_tokens": 128,
        "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
    "messages": {
        "input_tokens": 80,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 10,
        "output_tokens": 8,
    },
    "responses": {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 128,
    },
}
INPUT = {"chat": "prompt_tokens", "messages": "input_tokens", "responses": "input_tokens"}
OUTPUT = {"chat": "completion_tokens", "messages": "output_tokens", "responses": "output_tokens"}
COUNTED = {  # "one two" in, eight words out
    "chat": {"prompt_tokens": 2, "completion_tokens": 8, "total_tokens": 10},
    "messages": {"input_tokens": 2, "output_tokens": 8},
    "responses": {
        "input_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 10,
    },
}


def usage_of(caller: Caller, protocol: str, model: str, stream: bool) -> Any:
    fields: dict[str, Any] = {"stream": stream}
    if stream and protocol == "chat":
        fields["stream_options"] = {"include_usage": True}
    return caller.ask(protocol, model, "one two", **fields).usage


@pytest.mark.parametrize("protocol", EVERY)
def test_cache_and_reasoning_counts_are_exact(caller: Caller, protocol: str, stream: bool) -> None:
    assert usage_of(caller, protocol, "sim-usage-cache", stream) == CACHE[protocol]


@pytest.mark.parametrize("protocol", EVERY)
@pytest.mark.parametrize("model", ["sim-usage-nested", "sim-lorem-8"])
def test_counts_without_a_cache_leave_it_out(caller: Caller, protocol: str, stream: bool, model: str) -> None:
    assert usage_of(caller, protocol, model, stream) == COUNTED[protocol]


@pytest.mark.parametrize("protocol", EVERY)
def test_counts_that_nobody_tells_are_estimated(caller: Caller, protocol: str, stream: bool) -> None:
    told = usage_of(caller, protocol, "sim-usage-none", stream)
    counted = caller.ask(protocol, "sim-lorem-8", "one two", stream=stream)
    assert told[OUTPUT[protocol]] == round(len(counted.text) / 4.5)
    assert told[INPUT[protocol]] > 0
    assert protocol == "responses" or not [name for name in told if "cache" in name or "details" in name]


@pytest.mark.parametrize("protocol", EVERY)
def test_a_whole_answer_is_marked_when_its_counts_are_estimated(caller: Caller, protocol: str, stream: bool) -> None:
    marks = [
        caller.post(protocol, model, stream=stream).headers.get("x-poolgate-usage")
        for model in ("sim-usage-none", "sim-echo")
    ]
    assert marks == [None if stream else "estimated", None]  # a stream's headers go out before its counts are known


def test_the_records_hold_what_the_callers_were_told(caller: Caller, calm: House, stream: bool) -> None:
    asked = [(protocol, model) for protocol in EVERY for model in ("sim-usage-cache", "sim-usage-none")]
    answers = [caller.post(protocol, model, "one two", stream=stream) for protocol, model in asked]
    for (_, model), answer in zip(asked, answers, strict=True):
        record = calm.record(answer.headers["x-request-id"])
        told = tuple(record[f"{name}_tokens"] for name in ("input", "cache_read", "cache_write", "output", "reasoning"))
        if model == "sim-usage-cache":
            assert (told, record["usage_source"]) == ((80, 30, 10, 8, 5), "reported")
        else:
            assert (told[1:3], told[4], record["usage_source"]) == ((None, None), None, "estimated")
            assert (told[0] > 0, told[3] > 0) == (True, True)


def test_chat_tells_usage_in_a_stream_only_when_asked(caller: Caller, stream: bool) -> None:
    wanted = {"stream_options": {"include_usage": True}} if stream else {}
    assert caller.ask("chat", "sim-echo", stream=stream, **wanted).usage is not None
    silent = {"stream_options": {"include_usage": False}} if stream else {}
    assert (caller.ask("chat", "sim-echo", stream=stream, **silent).usage is None) is stream
