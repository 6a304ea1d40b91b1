from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.lanes import Lanes
from ir.response import fold


def _call(name: str) -> PartStart:
    return PartStart(PartKind.TOOL_CALL, f"id_{name}", name)


def test_one_open_part_passes_straight_through() -> None:
    lanes, out = Lanes(), list[Event]()
    lanes.start(0, _call("a"), out)
    lanes.delta(0, "x", out)
    lanes.end(0, "sig", out)
    assert out == [_call("a"), PartDelta("x"), PartEnd("sig")]


def test_a_second_part_waits_until_the_first_has_ended() -> None:
    lanes, out = Lanes(), list[Event]()
    lanes.start(0, _call("a"), out)
    lanes.start(1, _call("b"), out)
    lanes.delta(1, "1", out)
    lanes.delta(0, "0", out)
    assert out == [_call("a"), PartDelta("0")]
    lanes.end(0, "", out)
    assert out[2:] == [PartEnd(), _call("b"), PartDelta("1")]
    assert lanes.open_keys() == [1]


def test_parts_that_ended_while_waiting_follow_whole() -> None:
    lanes, out = Lanes(), list[Event]()
    for key in range(3):
        lanes.start(key, _call(str(key)), out)
    lanes.end(1, "", out)
    lanes.end(2, "", out)
    lanes.end(0, "", out)
    assert [event.name for event in out if isinstance(event, PartStart)] == ["0", "1", "2"]
    assert lanes.open_keys() == []


@pytest.mark.parametrize("key", [1, 7], ids=["ended", "never started"])
def test_a_lane_that_is_not_open_takes_nothing(key: int) -> None:
    lanes, out = Lanes(), list[Event]()
    lanes.start(0, _call("a"), out)
    lanes.start(1, _call("b"), out)
    lanes.end(1, "", out)
    with pytest.raises(KeyError):
        lanes.delta(key, "x", out)
    with pytest.raises(KeyError):
        lanes.end(key, "", out)


def test_a_lane_in_use_cannot_be_started_again() -> None:
    lanes, out = Lanes(), list[Event]()
    lanes.start(0, _call("a"), out)
    with pytest.raises(KeyError):
        lanes.start(0, _call("b"), out)


@given(st.lists(st.tuples(st.integers(0, 3), st.text("ab", min_size=1)), max_size=30), st.permutations(range(4)))
def test_any_interleaving_folds_to_the_parts_in_order_of_their_start(
    pieces: list[tuple[int, str]], ends: list[int]
) -> None:
    lanes, out = Lanes(), [ResponseStart()]
    events: list[Event] = list(out)
    for key in range(4):
        lanes.start(key, _call(str(key)), events)
    for key, text in pieces:
        lanes.delta(key, text, events)
    for key in ends:
        lanes.end(key, "", events)
    response = fold([*events, Finish(FinishReason(Unified.TOOL_CALLS))])
    expected = ["".join(text for key, text in pieces if key == wanted) for wanted in range(4)]
    assert [part.text for part in response.parts] == expected
