from __future__ import annotations

import pytest

from accounts.leases import Refused, Shortage
from gateway.exhausted import ROWS, explain, refuse
from ir.errors import CULPRITS, Culprit, Fault, Kind, Reason, Stage


def test_every_reason_has_an_answer() -> None:
    assert set(ROWS) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_an_accounts_trouble_is_never_the_callers_error(reason: Reason) -> None:
    error = explain(Fault(reason, Stage.HEADERS, upstream_code="ERROR_SECRET"))
    if CULPRITS[reason] is not Culprit.CALLER:
        assert error.kind.value >= 500 or error.kind is Kind.RATE_LIMIT
    else:
        assert error.kind.value < 500
    assert "SECRET" not in error.message
    assert error.culprit is CULPRITS[reason]


def test_every_pace_and_capacity_answer_says_when_to_come_back() -> None:
    for reason, row in ROWS.items():
        if row.kind in (Kind.RATE_LIMIT, Kind.NO_CAPACITY):
            assert explain(Fault(reason, Stage.HEADERS)).retry_after
    assert explain(Fault(Reason.RATE_LIMIT, Stage.HEADERS, retry_after=42.0)).retry_after == 42.0
    assert explain(Fault(Reason.BAD_REQUEST, Stage.HEADERS, retry_after=42.0)).retry_after is None


def test_what_is_known_of_the_pool_goes_before_hints_and_guesses() -> None:
    assert explain(Fault(Reason.QUOTA, Stage.HEADERS, retry_after=42.0), 900.0).retry_after == 900.0
    assert explain(Fault(Reason.TRANSIENT, Stage.HEADERS), 900.0).retry_after is None


def test_a_pool_that_was_asked_too_much_is_a_matter_of_pace_and_one_that_is_down_is_not() -> None:
    resting = Refused(Shortage.COOLED, 12.0)
    assert (refuse(resting, pace=True).kind, refuse(resting, pace=True).retry_after) == (Kind.RATE_LIMIT, 12.0)
    assert (refuse(resting).kind, refuse(resting).retry_after) == (Kind.NO_CAPACITY, 12.0)
    assert refuse(Refused(Shortage.FULL), pace=True).kind is Kind.NO_CAPACITY
    assert refuse(Refused(Shortage.KEY_BUSY), pace=True).code == "concurrency_exceeded"
