from __future__ import annotations

from typing import get_args

import pytest
from django.contrib.auth.models import User

from accounts.compile import Transport
from accounts.failures import Next
from accounts.models import Account
from gateway.affinity import Origin
from ir.errors import Culprit, Reason, Stage
from ops.models import RequestRecord, RequestTrace
from ops.trace import (
    Affinity,
    AnyStep,
    Committed,
    Ended,
    Fallback,
    Judged,
    Look,
    Mark,
    Moved,
    Passed,
    Trace,
    Tried,
    Trouble,
    Troubled,
    Verdict,
    builtins,
)
from panel.timeline import AFFINITIES, KNOWN_BY, MOVES, TROUBLES, accounts_of, tell
from tenants.models import Team
from tests.unit.panel.conftest import make_record, make_user, signed_in


def trace_of(first: int, second: int) -> Trace:
    steps: tuple[AnyStep, ...] = (
        Look(1, account=first, passed=(Passed(9, "resting", 4.25),), terms={"load": 0.5}),
        Tried(
            2, first, Transport.AGENT_RPC, 30, Reason.RATE_LIMIT, Stage.PREAMBLE, Culprit.ACCOUNT_MODEL,
            "ERROR_RATE_LIMITED", Mark.HELD, 5.0,
        ),
        Moved(33, Next.SWITCH),
        Look(33, account=second, load=2, canary=True),
        Fallback(34, second, Transport.CLOUD_AGENTS),
        Troubled(35, Trouble.CANARY_GRANTED),
        Tried(36, second, Transport.CLOUD_AGENTS, 400),
        Committed(50),
        Judged(50, Verdict.CONFIRMED, (first,)),
        Ended(440, 200),
    )  # fmt: skip
    return Trace(steps, candidates=3)


@pytest.fixture
def traced(red: Team) -> tuple[RequestRecord, Account]:
    rows = [
        Account.objects.create(name=name, kind="cursor", transport="agent_rpc", base_url="https://api2.cursor.sh")
        for name in ("Purple Heron", "Grey Seal")
    ]
    record = make_record("req-1", red.pk)
    trace = builtins(trace_of(rows[0].pk, rows[1].pk))
    RequestTrace.objects.create(request_id=record.pk, started_at=record.started_at, trace=trace)
    return record, rows[0]


def test_there_are_words_for_everything_that_a_trace_can_hold() -> None:
    assert set(MOVES) == set(Next)
    assert set(TROUBLES) == set(Trouble)
    assert len(AFFINITIES) == 3
    assert set(KNOWN_BY) == set(Origin)
    assert {type(step) for step in trace_of(1, 2).steps} == set(get_args(AnyStep))
    assert all(moment.text for moment in tell(trace_of(1, 2), None).moments)


def test_moments_are_in_the_order_of_time() -> None:
    moments = tell(trace_of(1, 2), None).moments
    assert moments[-1].text == "The caller got 200."
    assert [moment.at for moment in moments][:3] == ["1 ms", "2 ms", "33 ms"]


def test_every_account_of_a_trace_is_named() -> None:
    assert accounts_of(trace_of(1, 2)) == {1, 2, 9}


def test_what_was_left_out_is_said() -> None:
    trace = Trace((Ended(1, 503),), passed_left_out=40, steps_left_out=2)
    assert "40 accounts that were looked at and 2 steps" in tell(trace, None).left_out


def test_the_owner_reads_which_account_did_what(owner: User, traced: tuple[RequestRecord, Account]) -> None:
    page = signed_in(owner).get("/requests/req-1").text
    assert "Purple Heron was asked by agent rpc and failed at preamble: rate limit (ERROR_RATE_LIMITED)" in page
    assert "Another account answered, so the earlier fault was the account&#x27;s own: Purple Heron." in page
    assert "a deleted account was not taken: resting, for 4.2 s more" in page


def test_a_member_reads_the_same_without_names(red: Team, traced: tuple[RequestRecord, Account]) -> None:
    page = signed_in(make_user("mia", red)).get("/requests/req-1").text
    assert "Account 1 was asked and failed at preamble: rate limit" in page
    assert not [word for word in ("Heron", "Seal", "agent rpc", "cloud agents", "ERROR_", "To blame") if word in page]


def test_a_request_without_a_trace_says_so(owner: User, red: Team) -> None:
    make_record("req-2", red.pk)
    assert "No trace kept" in signed_in(owner).get("/requests/req-2").text


def test_an_attempt_on_a_kept_stream_says_so() -> None:
    steps = (
        Tried(1, 1, Transport.AGENT_RPC, 5, Reason.CUT, Stage.PREAMBLE, Culprit.UPSTREAM, resumed=True),
        Tried(6, 1, Transport.AGENT_RPC, 20),
        Tried(30, 1, Transport.AGENT_RPC, 20, resumed=True),
    )
    told = [moment.text for moment in tell(Trace(steps), {1: "Seal"}).moments]
    kept = "Seal was given the results on the stream that it had kept by agent rpc"
    assert told[0].startswith(f"{kept} and failed at preamble")
    assert told[1].startswith("Seal was asked by agent rpc and answered")
    assert told[2].startswith(f"{kept} and answered")


def test_a_conversation_is_named_with_what_it_is_known_by() -> None:
    trace = Trace((Ended(1, 200),), 2, Affinity.STICKY, "7-0123", "header")
    assert tell(trace, None).summary == (
        "The model is served by 2 accounts that this team may use."
        " Conversation 7-0123, known by a header of its client. The conversation has an account it prefers."
    )
