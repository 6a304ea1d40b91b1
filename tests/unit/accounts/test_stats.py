from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts import stats as stats_module
from accounts.stats import HALF_LIFE, UNSEEN, Stats
from ir.errors import CULPRITS, Culprit, Reason


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stats(clock: Clock) -> Stats:
    return Stats(clock)


def test_an_account_that_was_never_asked_is_a_good_one(stats: Stats) -> None:
    assert stats.seen(1, "m") is UNSEEN
    assert (UNSEEN.errors, UNSEEN.first_token, UNSEEN.trust) == (0.0, None, 0.0)


def test_one_failure_says_little_and_ten_say_much(stats: Stats) -> None:
    stats.failed(1, "m", Reason.RATE_LIMIT)
    assert stats.seen(1, "m").errors == pytest.approx(1 / 3)
    for _ in range(9):
        stats.failed(1, "m", Reason.RATE_LIMIT)
    assert stats.seen(1, "m").errors == pytest.approx(10 / 12)


def test_success_beside_failure_lowers_the_share(stats: Stats) -> None:
    for _ in range(4):
        stats.failed(1, "m", Reason.TRANSIENT)
        stats.served(1, "m", 1.0)
    assert stats.seen(1, "m").errors == pytest.approx(4 / 10)


def test_what_was_seen_loses_half_of_its_weight_each_half_life(stats: Stats, clock: Clock) -> None:
    for _ in range(8):
        stats.failed(1, "m", Reason.CAPACITY)
    clock.now += HALF_LIFE
    assert stats.seen(1, "m").errors == pytest.approx(4 / 6)
    clock.now += 2 * HALF_LIFE
    assert stats.seen(1, "m").errors == pytest.approx(1 / 3)
    clock.now += 10 * HALF_LIFE
    assert stats.seen(1, "m").errors < 0.001


def test_noting_more_later_weighs_the_earlier_down(stats: Stats, clock: Clock) -> None:
    for _ in range(2):
        stats.failed(1, "m", Reason.CAPACITY)
    clock.now += HALF_LIFE
    stats.served(1, "m")
    assert stats.seen(1, "m").errors == pytest.approx(1 / (1 + 1 + 2))


def test_the_first_token_is_a_mean_of_which_the_later_ones_weigh_more(stats: Stats, clock: Clock) -> None:
    stats.served(1, "m", 4.0)
    clock.now += HALF_LIFE
    stats.served(1, "m", 1.0)
    seen = stats.seen(1, "m")
    assert seen.first_token == pytest.approx((0.5 * 4.0 + 1.0) / 1.5)
    assert seen.trust == pytest.approx(1.5 / 3.5)


def test_trust_in_a_mean_fades_though_the_mean_stands(stats: Stats, clock: Clock) -> None:
    stats.served(1, "m", 4.0)
    clock.now += 20 * HALF_LIFE
    seen = stats.seen(1, "m")
    assert seen.first_token == pytest.approx(4.0)
    assert seen.trust < 0.001


def test_an_answer_in_one_piece_says_nothing_about_the_first_token(stats: Stats) -> None:
    stats.served(1, "m")
    assert (stats.seen(1, "m").first_token, stats.seen(1, "m").trust) == (None, 0.0)


def test_models_and_accounts_are_told_apart(stats: Stats) -> None:
    stats.failed(1, "m", Reason.CAPACITY)
    assert stats.seen(1, "other") is UNSEEN
    assert stats.seen(2, "m") is UNSEEN


@pytest.mark.parametrize("reason", Reason)
def test_only_faults_of_accounts_upstreams_and_ways_out_count(stats: Stats, reason: Reason) -> None:
    stats.failed(1, "m", reason)
    counts = CULPRITS[reason] not in (Culprit.CALLER, Culprit.GATEWAY)
    assert (stats.seen(1, "m").errors > 0) is counts
    assert len(stats) == counts


def test_memory_is_bounded_and_who_was_asked_longest_ago_goes_first(
    stats: Stats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats_module, "MOST", 3)
    for number in (1, 2, 3):
        stats.failed(number, "m", Reason.CAPACITY)
    stats.served(1, "m")
    stats.served(4, "m")
    assert len(stats) == 3
    assert stats.seen(2, "m") is UNSEEN
    assert stats.seen(1, "m").errors > 0


@given(st.lists(st.tuples(st.sampled_from(["ok", "bad"]), st.floats(0, 1e6), st.floats(0, 100)), max_size=50))
def test_shares_and_trust_stay_within_their_bounds(notes: list[tuple[str, float, float]]) -> None:
    clock = Clock()
    stats = Stats(clock)
    for kind, pause, seconds in notes:
        clock.now += pause
        if kind == "ok":
            stats.served(1, "m", seconds)
        else:
            stats.failed(1, "m", Reason.CUT)
        seen = stats.seen(1, "m")
        assert 0 <= seen.errors < 1
        assert 0 <= seen.trust < 1
        assert seen.first_token is None or seen.trust < 1e-9 or 0 <= seen.first_token <= 100 * (1 + 1e-9)
