from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.compile import Transport
from accounts.failures import Next
from ir.errors import Culprit, Reason, Stage
from ops.trace import (
    MOST,
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
    decode,
    encode,
    read,
)

AT = st.integers(0, 10**7)
ACCOUNT = st.integers(0, 2**63 - 1)
WORD = st.from_regex(r"\A[a-z][a-z0-9_]{0,31}\Z")
SECONDS = st.floats(0, 10**6, allow_nan=False)
LOOKS = st.builds(
    Look, AT, waited=AT, account=ACCOUNT, why=st.none() | WORD, canary=st.booleans(),
    terms=st.dictionaries(WORD, SECONDS, max_size=5),
    passed=st.lists(st.builds(Passed, ACCOUNT, WORD, SECONDS), max_size=64).map(tuple), soonest=st.none() | SECONDS,
)  # fmt: skip
TRIES = st.builds(
    Tried, AT, ACCOUNT, st.sampled_from(Transport), took=AT, reason=st.sampled_from(Reason),
    stage=st.sampled_from(Stage), culprit=st.sampled_from(Culprit), code=st.from_regex(r"\A[A-Za-z0-9_.:-]{0,64}\Z"),
    mark=st.sampled_from(Mark), rest=SECONDS,
)  # fmt: skip
STEPS = st.one_of(
    LOOKS,
    TRIES,
    st.builds(Moved, AT, st.sampled_from(Next), paused=AT),
    st.builds(Fallback, AT, ACCOUNT, st.sampled_from(Transport)),
    st.builds(Judged, AT, st.sampled_from(Verdict), st.lists(ACCOUNT, max_size=5).map(tuple)),
    st.builds(Troubled, AT, st.sampled_from(Trouble), SECONDS),
    st.builds(Committed, AT),
    st.builds(Ended, AT, status=st.integers(100, 599), code=st.just("no_capacity"), retry_after=st.none() | SECONDS),
)
TRACES = st.builds(Trace, st.lists(STEPS, max_size=60).map(tuple), candidates=st.integers(0, 10**6))


@given(TRACES)
def test_no_trace_is_larger_than_it_may_be_and_what_is_missing_is_counted(trace: Trace) -> None:
    data = encode(trace)
    kept = decode(data)
    assert len(data) <= MOST
    assert len(kept.steps) + kept.steps_left_out == len(trace.steps)
    if not kept.steps_left_out:
        assert passed(kept) + kept.passed_left_out == passed(trace)
        assert [without_passed(step) for step in kept.steps] == [without_passed(step) for step in trace.steps]


@given(TRACES)
def test_a_trace_comes_back_from_its_row_as_it_was_sent(trace: Trace) -> None:
    kept = decode(encode(trace))
    assert read(builtins(kept)) == kept


def test_candidates_go_before_any_step_does() -> None:
    look = Look(0, passed=tuple(Passed(number, "resting", 12.5) for number in range(1000)))
    tries = tuple(Tried(at, 1, Transport.AGENT_RPC, reason=Reason.RATE_LIMIT) for at in range(10))
    kept = decode(encode(Trace((look, *tries, Ended(9, 429)))))
    assert (len(kept.steps), kept.steps_left_out) == (12, 0)
    assert 0 < passed(kept) == 1000 - kept.passed_left_out


def test_where_steps_must_go_the_beginning_and_the_end_stay() -> None:
    tries = tuple(Tried(at, 1, Transport.AGENT_RPC, reason=Reason.RATE_LIMIT) for at in range(200))
    kept = decode(encode(Trace((Look(0, account=1), *tries, Ended(9, 429)))))
    assert kept.steps_left_out
    assert isinstance(kept.steps[0], Look)
    assert isinstance(kept.steps[-1], Ended)


@pytest.mark.parametrize(
    "step",
    [
        b'{"step":"look","at":1,"why":"Tell me about the weather"}',
        b'{"step":"tried","at":1,"account":1,"transport":"agent_rpc","code":"it said: hello"}',
        b'{"step":"tried","at":1,"account":1,"transport":"agent_rpc","reason":"prompt"}',
        b'{"step":"look","at":1,"terms":{"A name":1}}',
        b'{"step":"prompt","at":1}',
    ],
)
def test_text_has_no_way_into_a_row(step: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"steps":[' + step + b"]}")


def passed(trace: Trace) -> int:
    return sum(len(step.passed) for step in trace.steps if isinstance(step, Look))


def without_passed(step: AnyStep) -> AnyStep:
    return msgspec.structs.replace(step, passed=()) if isinstance(step, Look) else step
