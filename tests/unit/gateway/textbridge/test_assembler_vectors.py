"""The eighteen vectors of the assembler: what upstreams say in each attempt, and what the caller gets."""

from __future__ import annotations

import pytest

from gateway.contracts import Policy
from gateway.exhausted import explain
from gateway.gate import Gate
from gateway.textbridge.assembler import Bridge
from gateway.textbridge.sink import Note
from ir.errors import Fault, Reason, Stage
from ir.events import Finish, FinishReason, Unified
from ir.request import Message, Text, ToolChoice, ToolMode
from ir.usage import Usage
from tests.unit.gateway.textbridge.answers import T, ask, calls, history, play, stop

LOOKUP, WRITE = calls("lookup"), calls("write")
CALLED_LOOKUP, CALLED_WRITE = ("lookup", '{"q":"a"}'), ("write", '{"q":"a"}')
REQUIRED = ToolChoice(ToolMode.REQUIRED)
NAMED_WRITE = ToolChoice(ToolMode.NAMED, ("write",))
NONE = ToolChoice(ToolMode.NONE)
KILO = Policy(kilo_tool_strict=True)


def test_a1_a_text_is_a_text() -> None:
    played = play(ask(), "Hi")
    assert (played.text, played.calls, played.finish) == ("Hi", [], Unified.STOP)


def test_a2_text_before_a_call_loses_the_white_space_between() -> None:
    played = play(ask(), "Let me check.\n" + LOOKUP)
    assert (played.text, played.calls, played.finish) == ("Let me check.", [CALLED_LOOKUP], Unified.TOOL_CALLS)


def test_a3_a_call_alone_has_no_text_part() -> None:
    played = play(ask(), LOOKUP + "\n")
    assert [part.kind for part in played.response.parts] == ["tool_call"]
    assert played.calls == [CALLED_LOOKUP]


def test_a4_a_demanded_call_that_is_missing_is_asked_for_once_more() -> None:
    played = play(ask(choice=REQUIRED), "Sure, I will.", LOOKUP)
    assert (played.text, played.calls, played.finish) == ("", [CALLED_LOOKUP], Unified.TOOL_CALLS)
    *_, miss, reminder = played.prompts[1].messages
    assert miss == Message("assistant", (Text("Sure, I will."),))
    assert isinstance(reminder.content[0], Text)
    assert "lookup, write" in reminder.content[0].text


def test_a5_a_call_that_never_comes_is_a_text_to_the_lenient() -> None:
    played = play(ask(choice=REQUIRED), "Sure.", "Still no.")
    assert (played.text, played.finish, played.unsatisfied) == ("Still no.", Unified.STOP, True)


def test_a5_and_an_error_to_the_strict() -> None:
    with pytest.raises(Fault) as caught:
        play(ask(choice=REQUIRED), "Sure.", "Still no.", policy=Policy(strict_outcome=True))
    assert caught.value.reason is Reason.MISSING_TOOL_CALL
    assert explain(caught.value).kind.value == 502


def test_a6_when_the_second_attempt_fails_the_first_one_counts() -> None:
    played = play(ask(choice=REQUIRED), "Sure.", Fault(Reason.TRANSIENT, Stage.CONTENT))
    assert (played.text, played.finish, played.unsatisfied) == ("Sure.", Unified.STOP, True)


def test_a7_on_a_stream_the_text_of_the_first_attempt_never_goes_out() -> None:
    played = play(ask(choice=REQUIRED, stream=True), "Sure.", LOOKUP)
    assert (played.text, played.calls) == ("", [CALLED_LOOKUP])
    assert played.sent_before_end


def test_a8_a_call_to_another_than_the_named_tool_is_no_call() -> None:
    played = play(ask(choice=NAMED_WRITE), LOOKUP, WRITE)
    assert (played.text, played.calls) == ("", [CALLED_WRITE])


def test_a9_beside_the_named_call_another_one_is_only_noted() -> None:
    played = play(ask(choice=NAMED_WRITE), LOOKUP + WRITE)
    assert (played.text, played.calls, played.notes) == ("", [CALLED_WRITE], (Note.CALL_SUPPRESSED,))


def test_a10_where_no_call_is_wanted_a_call_is_nothing_and_text_is_asked_for() -> None:
    played = play(ask(*history(), choice=NONE), LOOKUP, "It is in.")
    assert (played.text, played.calls, played.finish) == ("It is in.", [], Unified.STOP)
    assert isinstance(played.prompts[1].messages[-1].content[-1], Text)
    with pytest.raises(Fault) as caught:
        play(ask(*history(), choice=NONE), LOOKUP, LOOKUP)
    assert caught.value.reason is Reason.EMPTY


def test_a11_without_parallel_calls_the_first_one_ends_the_turn() -> None:
    played = play(ask(parallel_tool_calls=False), LOOKUP + "\n" + WRITE)
    assert (played.calls, played.finish, played.cancelled) == ([CALLED_LOOKUP], Unified.TOOL_CALLS, True)


@pytest.mark.parametrize("stops", [True, False])
def test_a12_an_invented_result_ends_the_turn(stops: bool) -> None:
    answer = LOOKUP + '\n<tool_result id="x">42</tool_result>'
    played = play(ask(), answer, policy=Policy(stop_after_calls=stops))
    assert (played.text, played.calls, played.finish) == ("", [CALLED_LOOKUP], Unified.TOOL_CALLS)
    assert played.cancelled


def test_a13_a_broken_call_is_no_call() -> None:
    played = play(ask(choice=REQUIRED), calls("lookup", '{"q":}'), LOOKUP)
    assert (played.text, played.calls) == ("", [CALLED_LOOKUP])


def test_a14_until_the_call_comes_a_stream_gives_nothing_that_would_have_to_be_taken_back() -> None:
    request = ask(choice=REQUIRED, stream=True)
    bridge, gate = Bridge(request, T), Gate(request, expose_reasoning=True)
    assert gate.see(bridge.feed("Sure, I will <b>now</b> ")) == ()
    assert gate.see(bridge.feed(LOOKUP[:-1])) == ()
    assert gate.see(bridge.feed(">"))


def test_a15_half_a_call_at_the_length_limit_is_text() -> None:
    half = LOOKUP[:-20]
    played = play(ask(), half, end=stop(Unified.LENGTH))
    assert played.text == half.replace("0a1b2c3d", "00000000")
    assert (played.calls, played.finish, played.notes) == ([], Unified.LENGTH, (Note.TRUNCATED_CALL,))


def test_a16_a_strict_orchestrator_does_not_trap_a_finished_agent() -> None:
    played = play(ask(*history()), "Done.", policy=KILO)
    assert (played.text, played.finish, played.unsatisfied) == ("Done.", Unified.STOP, False)


def test_a17_a_strict_orchestrator_wants_a_call_for_what_its_user_says() -> None:
    played = play(ask("do it"), "I think…", LOOKUP, policy=KILO)
    assert (played.text, played.calls) == ("", [CALLED_LOOKUP])


def test_a18_thinking_alone_is_no_answer_where_thinking_is_hidden() -> None:
    thought = "<thinking>x</thinking>\n"
    played = play(ask(tools=()), thought, thought + "Hi", thinking=True)
    assert played.text == "\nHi"
    with pytest.raises(Fault) as caught:
        play(ask(tools=()), thought, thought, thinking=True)
    assert (caught.value.reason, explain(caught.value).code) == (Reason.EMPTY, "upstream_empty_response")
    shown = play(ask(tools=()), thought, thinking=True, exposed=True)
    assert shown.finish is Unified.STOP


def test_the_caller_pays_for_all_attempts_once() -> None:
    end = Finish(FinishReason(Unified.STOP, "end"), Usage(input_uncached=10, output=5))
    served = play(ask(choice=REQUIRED), "Sure.", LOOKUP, end=end)
    assert (served.response.usage.input_uncached, served.response.usage.output) == (20, 10)
    missed = play(ask(choice=REQUIRED), "Sure.", "No.", end=end)
    assert (missed.response.usage.input_uncached, missed.response.usage.output) == (20, 10)
    assert missed.response.usage.cache_read is None
    first = play(ask(choice=REQUIRED), "Sure.", Fault(Reason.CUT, Stage.CONTENT), end=end)
    assert first.response.usage.output == 5
