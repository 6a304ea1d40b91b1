from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gateway.upstreams.fitting import Fitting
from ir.events import Event, PartDelta, PartEnd, PartKind, PartStart
from ir.request import Message, Request, Text, Tool, ToolCall, ToolResult

LONG = "tool" * 20
IDS = st.sampled_from(["call_0", "call_1", "c" * 60, "ü", "tc_0123456789ab_call_0"])


def ask(*calls: str, name: str = "f") -> Request:
    """A conversation in which every one of these calls was made and answered."""
    messages = [Message("user", (Text("Hi"),))]
    for call in calls:
        messages += [
            Message("assistant", (ToolCall(call, name, "{}"),)),
            Message("user", (ToolResult(call, "ok"),)),
        ]
    return Request("m", tuple(messages), tools=(Tool(name, "", {"type": "object"}),))


def start(call_id: str, name: str = "f") -> PartStart:
    return PartStart(PartKind.TOOL_CALL, call_id, name)


def ids(fitting: Fitting, *given: str) -> list[str]:
    out = fitting.callers([start(call_id) for call_id in given])
    return [event.call_id for event in out if isinstance(event, PartStart)]


def test_what_needs_no_change_is_passed_as_it_is() -> None:
    fitting = Fitting(ask("call_0"), 64)
    text: list[Event] = [PartStart(PartKind.TEXT), PartDelta("call_0"), PartEnd()]
    assert fitting.callers(text) is text
    call = start("call_1")
    assert fitting.callers([call])[0] is call


def test_a_call_comes_back_under_the_callers_name() -> None:
    fitting = Fitting(ask(name=LONG), 64)
    sent = fitting.request.tools[0].name
    assert len(sent) == 64
    assert fitting.callers([start("c", sent)]) == [start("c", LONG)]


def test_a_server_that_counts_its_calls_anew_in_every_answer_repeats_no_id() -> None:
    history: list[str] = []
    for _ in range(4):
        history += ids(Fitting(ask(*history), 64), "call_0", "call_1")
    assert len(set(history)) == 8
    assert history[:2] == ["call_0", "call_1"]
    assert all(re.fullmatch("tc_[0-9a-f]{12}_call_[01]", call_id) for call_id in history[2:])


def test_the_same_answer_gives_the_same_ids() -> None:
    assert ids(Fitting(ask("call_0"), 64), "call_0") == ids(Fitting(ask("call_0"), 64), "call_0")


@given(st.lists(IDS, max_size=4, unique=True), st.lists(IDS, max_size=5))
def test_no_id_is_used_twice_and_none_that_is_made_here_is_too_long(before: list[str], answer: list[str]) -> None:
    found = ids(Fitting(ask(*before), 64), *answer)
    assert len(set(before + found)) == len(before) + len(answer)
    assert all(len(call_id) <= 64 for call_id in found)
