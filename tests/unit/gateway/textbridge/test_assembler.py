"""One attempt: what goes out of text, thinking and calls, when, and in which order."""

from __future__ import annotations

import pytest

from gateway.contracts import Policy, UnclosedThinking
from gateway.textbridge.assembler import Bridge
from gateway.textbridge.sink import Note
from ir.events import Event, Finish, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Message, Text, ToolCall, ToolChoice, ToolMode, ToolResult
from ir.response import fold
from tests.unit.gateway.textbridge.answers import T, ask, calls, history, play, stop

LOOKUP = calls("lookup")
CALLED = ("lookup", '{"q":"a"}')
STOPPING = Policy(stop_after_calls=True)


def test_text_passes_as_it_comes() -> None:
    bridge = Bridge(ask(), T)
    assert bridge.feed("Hel") == [ResponseStart(), PartStart(PartKind.TEXT), PartDelta("Hel")]
    assert bridge.feed("lo ") == [PartDelta("lo")]
    assert bridge.feed("you") == [PartDelta(" you")]
    assert bridge.feed("") == []
    assert bridge.feed("!\n") == [PartDelta("!")]
    assert bridge.close(stop()) == [PartDelta("\n"), PartEnd(), stop()]
    assert bridge.done


def test_a_call_goes_out_whole_with_an_id_of_its_own() -> None:
    bridge = Bridge(ask(), T, salt="req_1-0")
    events = bridge.feed(LOOKUP + LOOKUP) + bridge.close(stop())
    starts = [event for event in events if isinstance(event, PartStart)]
    assert [start.name for start in starts] == ["lookup", "lookup"]
    assert len({start.call_id for start in starts}) == 2
    assert all(start.call_id.startswith("call_") and len(start.call_id) == 29 for start in starts)
    other = Bridge(ask(), T, salt="req_1-1").feed(LOOKUP)
    assert other[1] not in events


def test_a_new_call_never_has_the_id_of_an_old_one() -> None:
    (first,) = [event for event in Bridge(ask(), T).feed(LOOKUP) if isinstance(event, PartStart)]
    past = (
        Message("user", (Text("go"),)),
        Message("assistant", (ToolCall(first.call_id, "lookup", "{}"),)),
        Message("user", (ToolResult(first.call_id, "ok"),)),
    )
    (second,) = [event for event in Bridge(ask(*past), T).feed(LOOKUP) if isinstance(event, PartStart)]
    assert second.call_id != first.call_id


def test_text_after_a_call_is_kept() -> None:
    played = play(ask(), LOOKUP + "\n\nDone.")
    assert (played.text, played.calls, played.finish) == ("\n\nDone.", [CALLED], Unified.TOOL_CALLS)


def test_white_space_before_a_call_does_not_turn_up_after_it() -> None:
    played = play(ask(), "Wait. \n" + LOOKUP + "Done.")
    assert [part.text for part in played.response.of(PartKind.TEXT)] == ["Wait.", "Done."]


def test_text_after_a_call_ends_the_turn_where_the_key_says_so() -> None:
    played = play(ask(), LOOKUP + "\n" + LOOKUP + "\n\nDone.", policy=STOPPING)
    assert (played.text, played.calls, played.finish) == ("", [CALLED, CALLED], Unified.TOOL_CALLS)
    assert played.cancelled


def test_text_after_a_demanded_call_ends_the_turn_unless_the_key_says_otherwise() -> None:
    required = ask(choice=ToolChoice(ToolMode.REQUIRED))
    assert play(required, LOOKUP + " Done.").cancelled
    kept = play(required, LOOKUP + " Done.", policy=Policy(stop_after_calls=False))
    assert (kept.text, kept.cancelled) == (" Done.", False)


@pytest.mark.parametrize("text", ["<tool_resul", "<b>", "<tool result>"])
def test_what_only_begins_like_a_result_is_text(text: str) -> None:
    assert play(ask(), LOOKUP + text).text == text
    assert play(ask(), LOOKUP + text, policy=STOPPING).text == ""
    again = play(ask(), LOOKUP + text + LOOKUP)
    assert (again.text, again.calls) == (text, [CALLED, CALLED])


def test_an_invented_result_after_thinking_is_seen_too() -> None:
    played = play(ask(), LOOKUP + "<thinking>so</thinking>\n<tool_result>1", thinking=True, exposed=True)
    assert (played.text, played.calls, played.cancelled) == ("", [CALLED], True)


def test_a_suppressed_call_leaves_the_text_around_it() -> None:
    played = play(ask(*history(), choice=ToolChoice(ToolMode.NONE)), "It was \n" + LOOKUP + " in.")
    assert (played.text, played.calls) == ("It was \n in.", [])
    assert played.notes == (Note.CALL_SUPPRESSED,)


def test_without_tools_calls_of_the_history_are_not_surfaced() -> None:
    played = play(ask(*history(), tools=()), "Yes." + LOOKUP)
    assert (played.text, played.calls, played.finish) == ("Yes.", [], Unified.STOP)


def test_without_tools_and_history_nothing_is_read_into_a_text() -> None:
    played = play(ask(tools=()), f"<thinking>{LOOKUP}")
    assert played.text == f"<thinking>{LOOKUP.replace('0a1b2c3d', '00000000')}"


def test_only_allowed_tools_can_be_called() -> None:
    allowed = ToolChoice(ToolMode.ALLOWED, ("write",))
    played = play(ask(choice=allowed), LOOKUP + calls("write"))
    assert played.calls == [("write", '{"q":"a"}')]
    assert played.notes == (Note.UNKNOWN_TOOL,)
    forced = ToolChoice(ToolMode.ALLOWED, ("write",), forced=True)
    assert play(ask(choice=forced), "Hm.", calls("write")).calls == played.calls


def test_thinking_and_text_are_parts_in_turn() -> None:
    played = play(ask(), "A <thinking>b</thinking>c<thinking>d</thinking>" + LOOKUP, thinking=True, exposed=True)
    parts = [(part.kind.value, part.text) for part in played.response.parts]
    assert parts == [("text", "A "), ("reasoning", "b"), ("text", "c"), ("reasoning", "d"), ("tool_call", '{"q":"a"}')]


def test_white_space_is_never_a_part_of_its_own() -> None:
    answer = " \n<thinking>b</thinking>\n" + LOOKUP + "\n"
    played = play(ask(), answer, thinking=True, exposed=True)
    assert [part.kind for part in played.response.parts] == [PartKind.REASONING, PartKind.TOOL_CALL]
    with pytest.raises(Exception, match="empty"):
        play(ask(), " \n", " \n")


def test_thinking_told_apart_by_the_upstream_is_thinking_and_never_text() -> None:
    bridge = Bridge(ask(), T)
    events: list[Event] = [*bridge.think("hm"), *bridge.think(""), *bridge.close(stop())]
    assert [(part.kind.value, part.text) for part in fold(events).parts] == [("reasoning", "hm")]


@pytest.mark.parametrize(
    ("unclosed", "said", "exposed", "text"),
    [
        (UnclosedThinking.TEXT_IF_EMPTY, "", False, "b\n"),
        (UnclosedThinking.TEXT_IF_EMPTY, "A ", False, "A "),
        (UnclosedThinking.TEXT_IF_EMPTY, "", True, ""),
        (UnclosedThinking.TEXT, "A ", False, "A b\n"),
        (UnclosedThinking.TEXT, "A ", True, "A "),
        (UnclosedThinking.THINKING, "A ", False, "A "),
    ],
)
def test_thinking_that_never_ends(unclosed: UnclosedThinking, said: str, exposed: bool, text: str) -> None:
    policy = Policy(unclosed_thinking=unclosed)
    answer = f"{said}<thinking>a</thinking><thinking>b\n"
    played = play(ask(), answer, policy=policy, thinking=True, exposed=exposed)
    assert played.text == text
    assert played.notes == (Note.UNCLOSED_THINKING,)
    assert "".join(part.text for part in played.response.of(PartKind.REASONING)) == "ab\n"


def test_thinking_that_never_ends_is_no_text_beside_a_call() -> None:
    played = play(ask(), LOOKUP + "<thinking>b", thinking=True)
    assert (played.text, played.calls) == ("", [CALLED])


def test_nothing_comes_after_the_end() -> None:
    bridge = Bridge(ask(parallel_tool_calls=False), T)
    events = bridge.feed(LOOKUP + " more <thinking>x</thinking>" + LOOKUP)
    assert isinstance(events[-1], Finish)
    assert bridge.feed("more") == bridge.think("more") == bridge.close(stop()) == []
    assert bridge.calls == 1


def test_a_turn_ends_with_calls_only_when_it_has_some() -> None:
    assert play(ask(), "Hi", end=stop(Unified.TOOL_CALLS)).finish is Unified.STOP
    assert play(ask(), LOOKUP, end=stop(Unified.LENGTH)).finish is Unified.TOOL_CALLS
    assert play(ask(), "Hi", end=stop(Unified.CONTENT_FILTER)).response.finish.raw == "end"
