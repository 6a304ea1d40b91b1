from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstreams.tags import TagSplitter
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.grammar import Checker

END = Finish(FinishReason(Unified.STOP))
PIECES = st.sampled_from(
    ["<think>", "</think>", "<thinking>", "</thinking>", "<thi", "</", ">", " ", "\n", "a", "é", "<"]
)


def split(*pieces: str) -> list[tuple[PartKind, str]]:
    """The parts of an answer whose one text part comes in ``pieces``."""
    splitter = TagSplitter()
    said: list[Event] = [ResponseStart(), PartStart(PartKind.TEXT), *map(PartDelta, pieces), PartEnd(), END]
    return parts([event for one in said for event in splitter.feed([one])])


def parts(events: list[Event]) -> list[tuple[PartKind, str]]:
    grammar = Checker()
    found: list[tuple[PartKind, str]] = []
    for event in events:
        grammar.see(event)
        match event:
            case PartStart(kind):
                found.append((kind, ""))
            case PartDelta(text):
                found[-1] = (found[-1][0], found[-1][1] + text)
            case _:
                pass
    assert isinstance(events[-1], Finish)
    return found


def think(text: str) -> tuple[PartKind, str]:
    return PartKind.REASONING, text


def say(text: str) -> tuple[PartKind, str]:
    return PartKind.TEXT, text


CASES = {
    "<think>hm</think>\n\nyes": [think("hm"), say("yes")],
    " \n<thinking>hm</thinking>yes ": [think("hm"), say("yes ")],
    "<think>a</think> <think>b</think>c": [think("a"), think("b"), say("c")],
    "<think></think>yes": [say("yes")],
    "<think>\n\n</think>\n\nyes": [think("\n\n"), say("yes")],
    "<think>a</thinking>b</think>c": [think("a</thinking>b"), say("c")],
    "<think>never ends </thin": [think("never ends </thin")],
    "<think>all of it</think>\n": [think("all of it")],
    "Use <think>x</think> for that": [say("Use <think>x</think> for that")],
    "<thinker>x</think>": [say("<thinker>x</think>")],
    "<think>a</think>b <think>c</think>": [think("a"), say("b <think>c</think>")],
    "<thin": [say("<thin")],
    "  plain": [say("  plain")],
    "</think>x": [say("</think>x")],
}


@pytest.mark.parametrize("text", CASES)
def test_tags_before_the_answer_are_thinking_at_every_split(text: str) -> None:
    assert split(text) == CASES[text]
    assert split(*text) == CASES[text]
    for cut in range(1, len(text)):
        assert split(text[:cut], text[cut:]) == CASES[text]


@given(st.lists(PIECES, min_size=1, max_size=30), st.data())
def test_how_an_answer_is_cut_changes_nothing(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=5)) - {len(text)})
    assert split(*(text[start:end] for start, end in pairwise([0, *cuts, len(text)]))) == split(text)


@given(st.text(min_size=1).filter(lambda text: not text.lstrip().startswith("<think")))
def test_an_answer_that_does_not_begin_with_a_tag_goes_through_whole(text: str) -> None:
    assert split(*text) == [say(text)]


def test_thinking_is_given_out_as_it_comes_and_text_at_its_first_word() -> None:
    splitter = TagSplitter()
    assert list(splitter.feed([PartStart(PartKind.TEXT), PartDelta("<think>one ")])) == [
        PartStart(PartKind.REASONING), PartDelta("one "),
    ]  # fmt: skip
    assert list(splitter.feed([PartDelta("two </thi")])) == [PartDelta("two ")]
    assert list(splitter.feed([PartDelta("nk>"), PartDelta("three")])) == [
        PartEnd(), PartStart(PartKind.TEXT), PartDelta("three"),
    ]  # fmt: skip
    later = [PartDelta("<think>")]
    assert splitter.feed(later) is later


def test_an_answer_whose_provider_tells_its_thinking_apart_is_left_as_it_is() -> None:
    said: list[Event] = [
        PartStart(PartKind.REASONING), PartDelta("hm"), PartEnd(), PartStart(PartKind.TEXT), PartDelta("<think>"),
    ]  # fmt: skip
    assert list(TagSplitter().feed(said)) == said


def test_white_space_without_end_is_not_held_for_a_tag() -> None:
    splitter = TagSplitter()
    held = list(splitter.feed([PartStart(PartKind.TEXT), PartDelta(" " * 200), PartDelta(" " * 200)]))
    assert held == [PartStart(PartKind.TEXT), PartDelta(" " * 400)]
