from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.compile import AccountState
from accounts.failures import CONSEQUENCES, Consequence, Grain, Next, hint_of, is_tentative
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
def test_faults_of_the_caller_never_move_on(reason: Reason) -> None:
    if CULPRITS[reason] is Culprit.CALLER:
        assert CONSEQUENCES[reason] == Consequence(Next.STOP)


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


@given(st.sampled_from(Reason), st.floats(0.001, 1e7))
def test_a_hint_is_believed_up_to_the_longest_that_the_table_allows(reason: Reason, hint: float) -> None:
    rest = CONSEQUENCES[reason].rest
    believed = rest is not None and hint <= rest.longest_hint
    assert hint_of(Fault(reason, Stage.HEADERS, retry_after=hint)) == (hint if believed else None)


@pytest.mark.parametrize("hint", [None, 0.0, -5.0, 40 * 86400.0, float("nan"), float("inf")])
def test_a_hint_that_cannot_be_is_none(hint: float | None) -> None:
    assert hint_of(Fault(Reason.QUOTA, Stage.HEADERS, retry_after=hint)) is None


@pytest.mark.parametrize("reason", [Reason.RATE_LIMIT, Reason.EXHAUSTED, Reason.QUOTA, Reason.TRANSIENT])
def test_without_a_hint_it_may_be_the_request_that_is_to_blame(reason: Reason) -> None:
    assert is_tentative(Fault(reason, Stage.HEADERS))
    if reason is not Reason.TRANSIENT:
        assert not is_tentative(Fault(reason, Stage.HEADERS, retry_after=30))


@REASONS
def test_what_speaks_of_the_account_itself_is_final_at_once(reason: Reason) -> None:
    if reason not in (Reason.RATE_LIMIT, Reason.EXHAUSTED, Reason.QUOTA, Reason.TRANSIENT):
        assert not is_tentative(Fault(reason, Stage.HEADERS))


@pytest.mark.parametrize("reason", [Reason.MISSING_TOOL_CALL, Reason.INVALID_OUTPUT])
def test_what_a_model_did_not_give_is_asked_for_once_more_on_the_same_account(reason: Reason) -> None:
    consequence = CONSEQUENCES[reason]
    assert (consequence.next, consequence.then) == (Next.SAME, Next.STOP)


def test_an_empty_answer_is_worth_one_more_account() -> None:
    assert (CONSEQUENCES[Reason.EMPTY].next, CONSEQUENCES[Reason.EMPTY].switches) == (Next.SWITCH, 1)


STOP, SWITCH, SAME = Next.STOP, Next.SWITCH, Next.SAME
NOTHING, ACCOUNT, MODEL = Grain.NONE, Grain.ACCOUNT, Grain.ACCOUNT_MODEL
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("reason", "culprit", "moves", "switches", "grain", "seconds", "state"),
    [
        ("bad_request", "caller", [STOP], None, NOTHING, None, None),
        ("context_too_long", "caller", [STOP], None, NOTHING, None, None),
        ("tools_too_large", "caller", [STOP], None, NOTHING, None, None),
        ("too_large", "caller", [STOP], None, NOTHING, None, None),
        ("image_unsupported", "caller", [STOP], None, NOTHING, None, None),
        ("unsupported_param", "caller", [STOP], None, NOTHING, None, None),
        ("model_unknown", "caller", [STOP], None, NOTHING, None, None),
        ("policy", "caller", [STOP], None, NOTHING, None, None),
        ("client_gone", "caller", [STOP], None, NOTHING, None, None),
        ("auth_expired", "account", [SAME, SWITCH], None, NOTHING, None, None),
        ("auth_revoked", "account", [SWITCH], None, ACCOUNT, 10 * MINUTE, "needs_sign_in"),
        ("forbidden", "account", [SWITCH], None, ACCOUNT, 10 * MINUTE, None),
        ("payment", "account", [SWITCH], None, ACCOUNT, 10 * MINUTE, "disabled"),
        ("quota", "account", [SWITCH], None, ACCOUNT, 15 * MINUTE, None),
        ("device_limit", "account", [SWITCH], None, ACCOUNT, DAY, None),
        ("blocked", "account", [STOP], None, ACCOUNT, 10 * MINUTE, "blocked"),
        ("account_closed", "account", [SWITCH], None, ACCOUNT, 10 * MINUTE, "disabled"),
        ("model_gated", "account_model", [SWITCH], None, MODEL, 12 * HOUR, None),
        ("model_limit", "account_model", [SWITCH], None, MODEL, 6 * HOUR, None),
        ("rate_limit", "account_model", [SWITCH], None, MODEL, 5, None),
        ("exhausted", "account_model", [SWITCH], None, MODEL, MINUTE, None),
        ("transient", "account_model", [SAME, SWITCH], None, MODEL, 10, None),
        ("capacity", "upstream", [SAME, SWITCH], 2, NOTHING, None, None),
        ("timeout", "upstream", [SWITCH], None, NOTHING, None, None),
        ("cut", "upstream", [SAME, SWITCH], None, NOTHING, None, None),
        ("empty", "upstream", [SWITCH], 1, NOTHING, None, None),
        ("egress", "egress", [SWITCH], None, Grain.EGRESS, None, None),
        ("protocol", "gateway", [SWITCH], 1, NOTHING, None, None),
        ("client_outdated", "gateway", [STOP], None, NOTHING, None, None),
        ("broken_tool_call", "upstream", [STOP], None, NOTHING, None, None),
        ("missing_tool_call", "upstream", [SAME, STOP], None, NOTHING, None, None),
        ("invalid_output", "upstream", [SAME, STOP], None, NOTHING, None, None),
        ("internal", "gateway", [SWITCH], None, NOTHING, None, None),
    ],
)
def test_each_row_of_the_table(
    reason: str, culprit: str, moves: list[Next], switches: int | None, grain: Grain, seconds: float | None,
    state: str | None,
) -> None:  # fmt: skip
    row = CONSEQUENCES[Reason(reason)]
    assert CULPRITS[Reason(reason)] == culprit
    assert [row.next, row.then][: len(moves)] == moves
    assert row.switches == switches
    assert row.grain is grain
    assert (row.rest.seconds if row.rest else None) == seconds
    assert row.state == state


def test_the_third_refusal_in_three_hours_needs_an_admin() -> None:
    escalation = CONSEQUENCES[Reason.FORBIDDEN].escalation
    assert escalation is not None
    assert (escalation.times, escalation.window, escalation.state) == (3, 3 * HOUR, AccountState.BLOCKED)


def test_a_passing_fault_rests_an_account_at_the_second_and_longer_at_the_third_in_a_minute() -> None:
    rest = CONSEQUENCES[Reason.TRANSIENT].rest
    assert rest is not None
    assert (rest.strikes, rest.window, rest.seconds, rest.then, rest.hold) == (2, MINUTE, 10, 45, 0)


def test_a_pace_limit_grows_from_five_seconds_to_five_minutes() -> None:
    rest = CONSEQUENCES[Reason.RATE_LIMIT].rest
    assert rest is not None
    assert (rest.seconds, rest.growing_to, rest.longest_hint, rest.hold) == (5, 5 * MINUTE, DAY, 5)


def test_a_refusal_without_a_word_of_why_rests_about_a_minute_and_never_long() -> None:
    rest = CONSEQUENCES[Reason.EXHAUSTED].rest
    assert rest is not None
    assert (rest.seconds, rest.spread, rest.growing_to, rest.hold) == (60, 0.25, 5 * MINUTE, 5)


def test_a_quota_whose_end_nobody_told_is_tried_after_fifteen_minutes_and_then_ever_more_rarely() -> None:
    rest = CONSEQUENCES[Reason.QUOTA].rest
    assert rest is not None
    assert (rest.seconds, rest.growing_to, rest.longest_hint, rest.hold) == (15 * MINUTE, 6 * HOUR, 32 * DAY, 5)
