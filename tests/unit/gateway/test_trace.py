from __future__ import annotations

from accounts.compile import Transport
from accounts.leases import Refused, Shortage
from gateway.trace import Tracer
from ir.errors import Fault, Reason, Stage
from ops.record import Attempt, Record
from ops.trace import Ended, Look, Mark, Tried, decode

RECORD = Record(
    request_id="r", started_at=1.0, protocol="chat", endpoint="/", status=429, code="rate_limit_exceeded",
    duration_ms=70,
)  # fmt: skip
ATTEMPT = Attempt(account_id=5, transport="agent_rpc", at_ms=3, took_ms=40)


def test_a_request_that_took_no_step_leaves_no_trace() -> None:
    assert Tracer().encode(RECORD) == b""


def test_a_trace_ends_with_what_the_caller_got() -> None:
    tracer = Tracer()
    tracer.candidates, tracer.retry_after = 2, 5.0
    tracer.looked(1, 2, Refused(Shortage.COOLED, 4.5))
    trace = decode(tracer.encode(RECORD))
    assert trace.candidates == 2
    assert trace.steps == (
        Look(1, 2, why="cooled", soonest=4.5),
        Ended(70, 429, "rate_limit_exceeded", retry_after=5.0),
    )


def test_an_upstreams_text_in_place_of_its_code_is_left_out() -> None:
    tracer = Tracer()
    for code in ("ERROR_RATE_LIMITED", "you said: hello"):
        fault = Fault(Reason.RATE_LIMIT, Stage.HEADERS, upstream_code=code)
        tracer.tried(ATTEMPT, Transport.AGENT_RPC, fault, Mark.RESTED, 5.0)
    first, second, _ = decode(tracer.encode(RECORD)).steps
    assert isinstance(first, Tried)
    assert isinstance(second, Tried)
    assert (first.code, second.code) == ("ERROR_RATE_LIMITED", "")
    assert (second.reason, second.mark, second.rest) == (Reason.RATE_LIMIT, Mark.RESTED, 5.0)
