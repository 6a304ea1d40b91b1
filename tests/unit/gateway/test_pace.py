from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.settings import Settings
from gateway.pace import ENOUGH, KEPT, MODELS, Pace

KNOBS = Settings(first_token_timeout=120, first_token_floor=30, last_attempt_extra=60)


def paced(*seconds: float) -> Pace:
    pace = Pace()
    for value in seconds:
        pace.note("m", value)
    return pace


def test_a_model_that_nothing_is_known_of_gets_the_longest_time() -> None:
    assert Pace().limit("m", KNOBS, last=False) == 120
    assert paced(*[1.0] * (ENOUGH - 1)).limit("m", KNOBS, last=False) == 120


def test_a_model_gets_three_times_what_it_usually_needs() -> None:
    assert paced(*[15.0] * ENOUGH).limit("m", KNOBS, last=False) == 45
    assert paced(*[15.0] * ENOUGH).limit("other", KNOBS, last=False) == 120


def test_a_quick_model_gets_the_floor_and_a_slow_one_no_more_than_the_longest_time() -> None:
    assert paced(*[0.5] * ENOUGH).limit("m", KNOBS, last=False) == 30
    assert paced(*[100.0] * ENOUGH).limit("m", KNOBS, last=False) == 120


def test_the_last_attempt_gets_more() -> None:
    assert paced(*[0.5] * ENOUGH).limit("m", KNOBS, last=True) == 90


def test_one_slow_answer_in_twenty_five_changes_nothing_and_two_do() -> None:
    quick = [12.0] * 24
    assert paced(*quick, 90.0).limit("m", KNOBS, last=False) == 36
    assert paced(*quick, 90.0, 90.0).limit("m", KNOBS, last=False) == 120


def test_what_is_long_ago_is_forgotten() -> None:
    assert paced(*[100.0] * KEPT, *[12.0] * KEPT).limit("m", KNOBS, last=False) == 36


def test_models_are_bounded() -> None:
    pace = Pace()
    for number in range(MODELS + 5):
        pace.note(f"m{number}", 1.0)
    assert len(pace._recent) == MODELS


def test_a_small_longest_time_wins_over_the_floor() -> None:
    knobs = Settings(first_token_timeout=2, first_token_floor=30, last_attempt_extra=1)
    assert paced(*[0.5] * ENOUGH).limit("m", knobs, last=False) == 2
    assert paced(*[0.5] * ENOUGH).limit("m", knobs, last=True) == 3


SECONDS = st.floats(1, 600)


@given(
    seen=st.lists(st.floats(0, 1000), max_size=2 * KEPT),
    longest=SECONDS,
    floor=SECONDS,
    extra=st.floats(0, 600),
    last=st.booleans(),
)
def test_no_attempt_gets_less_than_the_floor_or_more_than_the_longest_time(
    seen: list[float], longest: float, floor: float, extra: float, last: bool
) -> None:
    knobs = Settings(first_token_timeout=longest, first_token_floor=floor, last_attempt_extra=extra)
    limit = paced(*seen).limit("m", knobs, last=last)
    assert min(longest, floor) <= limit - (extra if last else 0) + 1e-6
    assert limit <= longest + (extra if last else 0)
    if len(seen) < ENOUGH:
        assert limit == longest + (extra if last else 0)
