"""What is asked once more, how often, and in which words. The vectors of the assembler show the rest."""

from __future__ import annotations

import pytest

from gateway.contracts import Policy
from gateway.textbridge import wording
from gateway.textbridge.tries import Tries
from ir.errors import Fault, Reason, Stage
from ir.events import Finish, FinishReason, Unified
from ir.request import Message, Text, ToolChoice, ToolMode
from ir.usage import Usage, UsageSource
from tests.unit.gateway.textbridge.answers import T, ask, calls, history, play, stop

REQUIRED = ToolChoice(ToolMode.REQUIRED)


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_missing_call_is_asked_for_as_often_as_the_key_says(retries: int) -> None:
    answers = [f"No {index}." for index in range(retries + 1)]
    played = play(ask(choice=REQUIRED), *answers, policy=Policy(retries=retries))
    assert (played.text, played.unsatisfied) == (f"No {retries}.", True)


def test_a_miss_that_said_nothing_leaves_only_the_reminder() -> None:
    request = ask("hi", choice=ToolChoice(ToolMode.NAMED, ("write",)))
    tries = Tries(request)
    assert tries.missed(Reason.MISSING_TOOL_CALL, [stop()])
    (only,) = tries.request.messages
    assert only == Message("user", (Text("hi"), Text(wording.reminder(["write"]))))


def test_a_miss_behind_an_answer_that_the_caller_began_goes_on_with_it() -> None:
    played = play(ask("hi", "Well,", choice=REQUIRED), " no.", calls("lookup"))
    roles = [message.role for message in played.prompts[1].messages]
    assert roles == ["user", "assistant", "user"]
    assert played.prompts[1].messages[1].content == (Text("Well,"), Text(" no."))


def test_the_trigger_of_a_miss_means_nothing_in_the_next_attempt() -> None:
    played = play(ask(choice=REQUIRED), calls("lookup", "{]"), calls("lookup", "{]"))
    assert played.text == calls("lookup", "{]").replace("0a1b2c3d", "00000001")


def test_an_empty_answer_is_asked_for_once_more_in_the_same_words() -> None:
    played = play(ask(tools=()), "", "Hi")
    assert played.prompts[1] == played.prompts[0]
    with pytest.raises(Fault):
        play(ask(tools=()), "", "")


def test_after_an_empty_answer_the_text_of_an_earlier_attempt_counts() -> None:
    played = play(ask(choice=REQUIRED), "Sure.", "", "", policy=Policy(retries=2))
    assert (played.text, played.unsatisfied) == ("Sure.", True)


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.MISSING_TOOL_CALL, Reason.EMPTY}))
def test_other_faults_are_not_its_business(reason: Reason) -> None:
    tries = Tries(ask(choice=REQUIRED))
    assert not tries.missed(reason, [])
    assert tries.outcome() is None
    with pytest.raises(Fault) as caught:
        play(ask(), Fault(reason, Stage.PREAMBLE))
    assert caught.value.reason is reason


def test_a_call_that_does_not_have_to_come_is_not_missed() -> None:
    assert not play(ask(*history()), "Done.").unsatisfied


def test_costs_add_up_and_an_estimate_stays_one() -> None:
    tries = Tries(ask(choice=REQUIRED))
    events = [stop()]
    assert tries.charge(events) is events
    known = Finish(FinishReason(Unified.STOP), Usage(input_uncached=3, cache_read=1))
    tries.missed(Reason.MISSING_TOOL_CALL, [known])
    guessed = Finish(FinishReason(Unified.STOP), Usage(input_uncached=4, output=2, source=UsageSource.ESTIMATED))
    (charged,) = tries.charge([guessed])
    assert charged == Finish(
        guessed.reason, Usage(input_uncached=7, output=2, cache_read=1, source=UsageSource.ESTIMATED)
    )


def test_the_prompt_of_the_next_attempt_holds_the_miss() -> None:
    played = play(ask(choice=REQUIRED), f"I use {T} later", calls("write"))
    assert [part for part in played.prompts[1].messages[1].content if isinstance(part, Text)] == [
        Text("I use <<CALL_00000000>> later")
    ]
