from __future__ import annotations

from ir.errors import CULPRITS, ApiError, Culprit, Fault, Kind, Reason, Stage


def test_every_reason_has_a_culprit() -> None:
    assert set(CULPRITS) == set(Reason)
    assert Fault(Reason.QUOTA, Stage.HEADERS).culprit is Culprit.ACCOUNT


def test_only_pace_conflict_slowness_and_our_own_faults_are_worth_a_retry() -> None:
    retryable = {kind for kind in Kind if ApiError(kind, "c", "m").retryable}
    assert retryable == {
        Kind.REQUEST_TIMEOUT, Kind.CONFLICT, Kind.RATE_LIMIT, Kind.INTERNAL, Kind.UPSTREAM, Kind.NO_CAPACITY,
        Kind.TIMEOUT,
    }  # fmt: skip
