from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.grammar import check
from ir.limits import Meter
from ir.response import Response, fold
from ir.tokens import estimate
from ir.usage import Usage, UsageSource
from tests import strategies


def text_stream(pieces: Sequence[str], usage: Usage | None = None, kind: PartKind = PartKind.TEXT) -> list[Event]:
    deltas = [PartDelta(piece) for piece in pieces]
    finish = Finish(FinishReason(Unified.STOP), usage or Usage())
    return [ResponseStart(), PartStart(kind, "call_1", "f"), *deltas, PartEnd(), finish]


def run(meter: Meter, events: Sequence[Event]) -> Response:
    out: list[Event] = []
    for event in events:
        out.extend(meter.see([event]))
    check(out)
    return fold(out)


@given(strategies.streams())
def test_without_limits_a_reported_stream_passes_unchanged(events: list[Event]) -> None:
    assert Meter().see(events) == events


@given(st.text("abSTOP", max_size=30), st.lists(st.integers(0, 30), max_size=6))
def test_a_stop_sequence_cuts_at_the_same_place_however_the_text_is_split(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges) if a < b]
    response = run(Meter(["STOP", "TOP"]), text_stream(pieces))
    first = min((at for at in (text.find("STOP"), text.find("TOP")) if at >= 0), default=None)
    assert "".join(part.text for part in response.parts) == text[:first]
    assert (response.finish.unified is Unified.STOP_SEQUENCE) == (first is not None)


def test_the_stop_sequence_that_matched_is_named() -> None:
    response = run(Meter(["###", "END"]), text_stream(["one E", "N", "D two"]))
    assert response.parts[0].text == "one "
    assert response.finish == FinishReason(Unified.STOP_SEQUENCE, stop_sequence="END")


def test_text_held_back_for_a_stop_sequence_that_never_came_is_not_lost() -> None:
    response = run(Meter(["END"]), text_stream(["the E", "N"]))
    assert response.parts[0].text == "the EN"
    assert response.finish.unified is Unified.STOP


def test_stop_sequences_leave_reasoning_and_tool_arguments_alone() -> None:
    for kind in (PartKind.REASONING, PartKind.TOOL_CALL):
        assert run(Meter(["x"]), text_stream(['{"x":1}'], kind=kind)).parts[0].text == '{"x":1}'


@given(st.lists(st.text("ab1é ", min_size=1, max_size=12), min_size=1, max_size=30), st.integers(1, 40))
def test_the_output_limit_keeps_the_longest_text_within_it(pieces: list[str], limit: int) -> None:
    whole = "".join(pieces)
    response = run(Meter(max_tokens=limit), text_stream(pieces))
    kept = "".join(part.text for part in response.parts)
    assert whole.startswith(kept)
    assert estimate(kept) <= limit + 0.01
    if kept == whole:
        assert response.finish.unified is Unified.STOP
    else:
        assert response.finish.unified is Unified.LENGTH
        assert estimate(whole[: len(kept) + 1]) > limit - 0.01


def test_a_tool_call_is_never_cut_by_the_output_limit() -> None:
    response = run(Meter(max_tokens=1), text_stream(['{"a":"', "b" * 500, '"}'], kind=PartKind.TOOL_CALL))
    assert response.parts[0].text == '{"a":"' + "b" * 500 + '"}'


def test_a_limit_reached_within_reasoning_ends_the_turn_there() -> None:
    response = run(Meter(max_tokens=2), text_stream(["think " * 20], kind=PartKind.REASONING))
    assert response.finish.unified is Unified.LENGTH
    assert [part.kind for part in response.parts] == [PartKind.REASONING]


def test_reported_usage_is_kept_and_missing_usage_is_estimated_and_marked() -> None:
    reported = Usage(input_uncached=9, output=2)
    assert run(Meter(input_tokens=50), text_stream(["hi"], reported)).usage == reported
    estimated = run(Meter(input_tokens=50), text_stream(["hello there"])).usage
    assert (estimated.input_uncached, estimated.output, estimated.source) == (50, 2, UsageSource.ESTIMATED)


@pytest.mark.parametrize("limit", [{"stop": ["b"]}, {"max_tokens": 1}])
def test_nothing_comes_after_the_cut(limit: dict[str, object]) -> None:
    meter = Meter(**limit)  # type: ignore[arg-type]
    meter.see(text_stream(["aaaaaaaab"])[:3])
    assert meter.done
    assert meter.see([PartDelta("more"), PartEnd()]) == []
