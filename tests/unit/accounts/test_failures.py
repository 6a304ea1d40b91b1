from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.failures import CONSEQUENCES, HINT_SPREAD, Grain, Next, sentence
from ir.errors import CULPRITS, Culprit, Fault, Reason, Stage

GRAINS = {
    Culprit.ACCOUNT: Grain.ACCOUNT,
    Culprit.ACCOUNT_MODEL: Grain.ACCOUNT_MODEL,
    Culprit.EGRESS: Grain.EGRESS,
}
REASONS = pytest.mark.parametrize("reason", Reason)


def test_the_table_knows_every_reason() -> None:
    assert set(CONSEQUENCES) == set(Reason)


@REASONS
def test_what_rests_is_what_is_to_blame(reason: Reason) -> None:
    expected = GRAINS.get(CULPRITS[reason], Grain.NONE)
    if CONSEQUENCES[reason].refresh_first:
        expected = Grain.NONE  # an expired token is mended, not punished
    assert CONSEQUENCES[reason].grain is expected


@REASONS
def test_only_the_accounts_own_faults_rest_it_or_change_its_state(reason: Reason) -> None:
    consequence = CONSEQUENCES[reason]
    if CULPRITS[reason] not in (Culprit.ACCOUNT, Culprit.ACCOUNT_MODEL):
        assert consequence.rest is None
        assert consequence.state is None
    if consequence.state is not None:
        assert consequence.grain is Grain.ACCOUNT
        assert consequence.rest is not None


@REASONS
def test_faults_of_the_caller_and_of_our_protocol_never_move_on(reason: Reason) -> None:
    if CULPRITS[reason] in (Culprit.CALLER, Culprit.GATEWAY) and reason is not Reason.INTERNAL:
        assert CONSEQUENCES[reason].next is Next.STOP


def test_what_keeps_us_from_using_an_account_moves_on_and_is_not_held_against_it() -> None:
    consequence = CONSEQUENCES[Reason.INTERNAL]
    assert (consequence.next, consequence.grain, consequence.rest, consequence.state) == (
        Next.SWITCH, Grain.NONE, None, None
    )  # fmt: skip


@REASONS
def test_the_same_account_is_never_asked_for_ever(reason: Reason) -> None:
    assert CONSEQUENCES[reason].then is not Next.SAME


def test_a_block_is_not_evaded() -> None:
    assert CONSEQUENCES[Reason.BLOCKED].next is Next.STOP


@given(st.sampled_from(Reason), st.floats(0.001, 1e6), st.floats(0, 1, exclude_max=True))
def test_a_believable_hint_is_kept_and_stretched_a_little(reason: Reason, hint: float, draw: float) -> None:
    rest = CONSEQUENCES[reason].rest
    measured = sentence(Fault(reason, Stage.HEADERS, retry_after=hint), draw)
    if rest is None:
        assert measured is None
    elif hint <= rest.longest_hint:
        assert measured is not None
        assert hint <= measured.seconds <= hint * (1 + HINT_SPREAD)
        assert not measured.growing_to
    else:
        assert measured is not None
        assert measured.seconds == rest.seconds


@pytest.mark.parametrize("hint", [None, 0.0, -5.0, 40 * 86400.0, float("nan"), float("inf")])
def test_without_a_believable_hint_the_tables_own_time_counts(hint: float | None) -> None:
    measured = sentence(Fault(Reason.QUOTA, Stage.HEADERS, retry_after=hint), 0.5)
    assert measured is not None
    assert measured.seconds == 15 * 60


@pytest.mark.parametrize("reason", [Reason.MISSING_TOOL_CALL, Reason.INVALID_OUTPUT])
def test_what_a_model_did_not_give_is_asked_for_once_more_on_the_same_account(reason: Reason) -> None:
    consequence = CONSEQUENCES[reason]
    assert (consequence.next, consequence.then) == (Next.SAME, Next.STOP)


def test_an_empty_answer_is_worth_one_more_account() -> None:
    assert (CONSEQUENCES[Reason.EMPTY].next, CONSEQUENCES[Reason.EMPTY].switches) == (Next.SWITCH, 1)
