from __future__ import annotations

import pytest

from accounts.compile import AccountKind, AccountView, Transport
from gateway.rests import Rests
from ir.errors import Reason


def account(number: int) -> AccountView:
    return AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://up", frozenset({1}), number
    )


ONE, TWO = account(1), account(2)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_accounts_that_all_rest_for_pace_are_a_matter_of_pace() -> None:
    rests = Rests(Clock())
    rests.note(ONE, "m", Reason.RATE_LIMIT, 20)
    assert not rests.are_pace([ONE, TWO], "m")
    rests.note(TWO, "other", Reason.QUOTA, 900)  # of the whole account
    assert rests.are_pace([ONE, TWO], "m")
    assert not rests.are_pace([ONE, TWO], "third")


def test_the_latest_reason_counts_because_an_earlier_rest_may_have_been_ended_by_hand() -> None:
    clock = Clock()
    rests = Rests(clock)
    rests.note(ONE, "m", Reason.DEVICE_LIMIT, 86_400)
    assert not rests.are_pace([ONE], "m")
    clock.now += 1
    rests.note(ONE, "m", Reason.RATE_LIMIT, 5)
    assert rests.are_pace([ONE], "m")
    clock.now += 5
    assert not rests.are_pace([ONE], "m")


def test_nobody_at_all_is_no_matter_of_pace() -> None:
    assert not Rests(Clock()).are_pace([], "m")


def test_rests_that_ended_are_thrown_out_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.rests.MANY", 3)
    clock = Clock()
    rests = Rests(clock)
    for model in "abc":
        rests.note(ONE, model, Reason.RATE_LIMIT, 5)
    clock.now += 6
    rests.note(ONE, "d", Reason.RATE_LIMIT, 5)
    assert len(rests._rests) == 1
