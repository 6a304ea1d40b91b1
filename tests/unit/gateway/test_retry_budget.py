from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.retry_budget import RetryBudget


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def allowed(budget: RetryBudget, share: float, floor: int) -> int:
    count = 0
    while count < 1000 and budget.may_retry(share, floor):
        count += 1
    return count


def test_retries_are_a_share_of_the_requests() -> None:
    budget = RetryBudget(Clock())
    for _ in range(200):
        budget.request()
    assert allowed(budget, 0.2, 10) == 40


def test_a_quiet_process_may_always_make_a_few() -> None:
    assert allowed(RetryBudget(Clock()), 0.2, 10) == 10
    assert allowed(RetryBudget(Clock()), 0, 0) == 0


def test_what_was_counted_is_forgotten_after_ten_seconds_and_not_before() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    assert allowed(budget, 0, 3) == 3
    clock.now += 9
    assert allowed(budget, 0, 3) == 0
    clock.now += 1
    assert allowed(budget, 0, 3) == 3
    clock.now += 3600
    assert allowed(budget, 0, 3) == 3


@given(steps=st.lists(st.tuples(st.sampled_from(["request", "retry"]), st.floats(0, 3)), max_size=200))
def test_no_ten_seconds_see_more_retries_than_their_requests_pay_for(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    requests: list[int] = []
    retries: list[int] = []
    for what, pause in steps:
        clock.now += pause
        second = int(clock.now)
        if what == "request":
            budget.request()
            requests.append(second)
            continue
        paid = max(3, 0.2 * sum(at > second - 10 for at in requests))
        spent = sum(at > second - 10 for at in retries)
        assert budget.may_retry(0.2, 3) == (spent < paid)
        if spent < paid:
            retries.append(second)
