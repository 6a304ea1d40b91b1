from __future__ import annotations

import pytest

from gateway.gate import Gate
from ir.errors import Fault, Reason
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Request, ToolChoice, ToolMode

STOP = Finish(FinishReason(Unified.STOP))
START = ResponseStart()


def request(*, stream: bool = True, choice: ToolChoice | None = None) -> Request:
    return Request("m", (), stream=stream, tool_choice=choice or ToolChoice())


def part(kind: PartKind, text: str = "x") -> list[Event]:
    return [PartStart(kind, "c", "f"), PartDelta(text), PartEnd()]


def test_a_stream_is_held_until_its_first_text() -> None:
    gate = Gate(request(), False)
    assert gate.see([START, PartStart(PartKind.TEXT)]) == ()
    assert list(gate.see([PartDelta("x")])) == [START, PartStart(PartKind.TEXT), PartDelta("x")]
    assert gate.opened
    assert list(gate.see([PartEnd()])) == [PartEnd()]


def test_hidden_thinking_commits_to_nothing_and_shown_thinking_does() -> None:
    for exposed in (False, True):
        gate = Gate(request(), exposed)
        gate.see([START, *part(PartKind.REASONING)])
        assert gate.opened is exposed


def test_a_stream_whose_answer_is_to_be_checked_is_held_to_its_end() -> None:
    gate = Gate(request(), False, hold=True)
    assert gate.see([START, *part(PartKind.TEXT)]) == ()
    assert list(gate.see([STOP])) == [START, *part(PartKind.TEXT), STOP]


def test_an_answer_that_is_not_streamed_is_held_to_its_end() -> None:
    gate = Gate(request(stream=False), False)
    assert gate.see([START, *part(PartKind.TEXT)]) == ()
    assert list(gate.see([STOP])) == [START, *part(PartKind.TEXT), STOP]


@pytest.mark.parametrize("choice", [ToolChoice(ToolMode.REQUIRED), ToolChoice(ToolMode.NAMED, ("f",))])
def test_text_waits_for_the_call_that_is_demanded(choice: ToolChoice) -> None:
    gate = Gate(request(choice=choice), False)
    assert gate.see([START, *part(PartKind.TEXT)]) == ()
    assert len(gate.see([PartStart(PartKind.TOOL_CALL, "c", "f")])) == 5


def test_a_demanded_call_that_never_came_is_a_fault() -> None:
    gate = Gate(request(choice=ToolChoice(ToolMode.REQUIRED)), False)
    with pytest.raises(Fault) as caught:
        gate.see([START, *part(PartKind.TEXT), STOP])
    assert caught.value.reason is Reason.MISSING_TOOL_CALL


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("events", [[], part(PartKind.REASONING), [PartStart(PartKind.TEXT), PartEnd()]])
def test_a_turn_with_nothing_to_show_is_a_fault_not_an_answer(events: list[Event], stream: bool) -> None:
    with pytest.raises(Fault) as caught:
        Gate(request(stream=stream), False).see([START, *events, STOP])
    assert caught.value.reason is Reason.EMPTY


def test_an_empty_turn_that_was_cut_short_on_purpose_is_an_answer() -> None:
    gate = Gate(request(), False)
    assert gate.see([START, Finish(FinishReason(Unified.LENGTH))])
