"""Every way in which the upstream fails, as callers of both protocols see it: before any output as a status, after
output in band. The table says what each cause becomes; that it knows every cause is a test of its own.

A request that fails for an account's sake moves on to the next one; here every account fails alike, so the last word
is what counts. A stream that has begun is never begun again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from simulator.causes import CAUSES
from tests.conformance import wire
from tests.conformance.caller import PROTOCOLS, Caller
from tests.plugins.house import House, eventually


class Told(NamedTuple):
    """The error as a status: HTTP status and type for Chat and Messages, Chat's code, seconds of Retry-After."""

    chat: tuple[int, str]
    messages: tuple[int, str]
    code: str
    retry_after: int | None = None
    runs: tuple[int, ...] = (1,)


INVALID = ((400, "invalid_request_error"), (400, "invalid_request_error"))
UPSTREAM = ((502, "upstream_error"), (502, "api_error"))
BUSY = ((503, "server_error"), (529, "overloaded_error"))
PACE = ((429, "rate_limit_error"), (429, "rate_limit_error"))
LATE = ((504, "server_error"), (504, "timeout_error"))

# Before output each of the three accounts is asked, for some causes twice, unless that cannot help.
EACH, EACH_TWICE = (3,), (6,)
TABLE = {
    "token_expired": Told(*UPSTREAM, "upstream_auth_failed", runs=EACH + EACH_TWICE),  # a new token is not renewed
    "key_bad": Told(*UPSTREAM, "upstream_auth_failed", runs=EACH),
    "usage_exhausted": Told(*PACE, "rate_limit_exceeded", 30, runs=EACH),
    "unpaid_invoice": Told(*BUSY, "no_capacity", 60, runs=EACH),
    "too_many_computers": Told(*BUSY, "no_capacity", 86_400, runs=EACH),
    "rate_limited": Told(*PACE, "rate_limit_exceeded", 30, runs=EACH),
    "rate_limited_hint": Told(*PACE, "rate_limit_exceeded", 7, runs=EACH),
    "bare_resource_exhausted": Told(*PACE, "rate_limit_exceeded", 30, runs=EACH),
    "model_limit": Told(*PACE, "rate_limit_exceeded", 21_600, runs=EACH),
    "model_not_in_plan": Told(*BUSY, "no_capacity", 43_200, runs=EACH),
    "model_unknown": Told((404, "invalid_request_error"), (404, "not_found_error"), "model_not_found"),
    "bad_parameter": Told(*INVALID, "unsupported_parameter"),
    "context_too_large": Told(*INVALID, "context_length_exceeded"),
    "tools_too_large": Told(*INVALID, "tools_too_large"),
    "image_unsupported": Told(*INVALID, "image_unsupported"),
    "client_too_old": Told(*UPSTREAM, "upstream_protocol_error"),
    "update_required": Told(*UPSTREAM, "upstream_protocol_error"),
    "suspicious": Told(*BUSY, "no_capacity", 60),
    "account_closed": Told(*BUSY, "no_capacity", 60, runs=EACH),
    "aborted": Told(*UPSTREAM, "upstream_error", runs=EACH_TWICE),
    "deadline": Told(*LATE, "timeout", runs=EACH),
    "unavailable": Told(*UPSTREAM, "upstream_error", runs=EACH_TWICE),
    "internal": Told(*UPSTREAM, "upstream_error", runs=EACH_TWICE),
    "html_403": Told(*UPSTREAM, "upstream_unreachable", runs=EACH),
    "wrong_content_type": Told(*UPSTREAM, "upstream_protocol_error", runs=(2,)),
    "protocol_464": Told(*UPSTREAM, "upstream_protocol_error", runs=(2,)),
    "goaway": Told(*UPSTREAM, "upstream_incomplete", runs=EACH_TWICE),
}
# What a proxy in the middle leaves behind once a stream has begun.
IN_BAND = {
    "html_403": ("upstream_protocol_error", "upstream_error", "api_error"),
    "wrong_content_type": ("upstream_protocol_error", "upstream_error", "api_error"),
    "protocol_464": ("upstream_protocol_error", "upstream_error", "api_error"),
}
SECRETS = ("sim-alpha", "sim-beta", "sim-gamma", "crsr_", "Error", "127.0.0.1", "Rate limited", "<html")


def test_the_table_knows_every_cause() -> None:
    assert set(TABLE) == set(CAUSES)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("cause", TABLE)
def test_a_failure_before_output_is_a_status(caller: Caller, house: House, protocol: str, cause: str) -> None:
    told = TABLE[cause]
    answer = caller.post(protocol, f"sim-error-{cause}", stream=True)
    check_status(answer, protocol, told)
    assert len(house.simulator.runs()) in told.runs
    eventually(lambda: house.slots_in_use() == 0)


def check_status(answer: Any, protocol: str, told: Told) -> None:
    status, kind, code, _ = wire.read_error(answer)
    assert (status, kind) == (told.chat if protocol == "chat" else told.messages)
    assert code == (told.code if protocol == "chat" else None)
    wait = answer.headers.get("retry-after")
    assert (None if wait is None else int(wait)) in (told.retry_after, told.retry_after and told.retry_after + 1)
    assert answer.headers.get("x-should-retry") == ("false" if status in (400, 404) else None)
    assert not [word for word in SECRETS if word in answer.text]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("cause", TABLE)
def test_a_failure_after_output_ends_the_stream_with_the_error(
    caller: Caller, house: House, protocol: str, cause: str
) -> None:
    told = TABLE[cause]
    turn = caller.ask(protocol, f"sim-error-{cause}-after-2", stream=True)
    assert turn.text == "lorem ipsum "
    assert turn.error is not None
    code, *kinds = IN_BAND.get(cause, (told.code, told.chat[1], told.messages[1]))
    if protocol == "chat":
        assert (turn.error["code"], turn.error["type"]) == (code, kinds[0])
    else:
        assert turn.error["type"] == kinds[1]
    assert not [word for word in SECRETS if word in str(turn.error)]
    assert len(house.simulator.runs()) == 1
    eventually(lambda: house.slots_in_use() == 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("cause", ["usage_exhausted", "context_too_large", "internal", "html_403"])
def test_a_whole_answer_that_fails_half_way_is_a_status(
    caller: Caller, house: House, protocol: str, cause: str
) -> None:
    answer = caller.post(protocol, f"sim-error-{cause}-after-2")
    told = TABLE[cause]
    if cause in IN_BAND:
        assert (answer.status_code, answer.json()["error"]["type"]) == (
            told.chat if protocol == "chat" else told.messages
        )
    else:
        check_status(answer, protocol, told)
        assert len(house.simulator.runs()) in told.runs


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("script", "code"),
    [("cut", "upstream_incomplete"), ("reset", "upstream_incomplete"), ("garbage", "upstream_protocol_error")],
)
def test_a_stream_that_breaks_off_never_looks_whole(
    caller: Caller, house: House, protocol: str, script: str, code: str
) -> None:
    turn = caller.ask(protocol, f"sim-{script}-3", stream=True)
    assert turn.text == "lorem ipsum dolor "
    assert turn.error is not None
    assert turn.error["type"] == UPSTREAM[protocol == "messages"][1]
    if protocol == "chat":
        assert turn.error["code"] == code
    assert len(house.simulator.runs()) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_empty_answer_is_tried_once_more_and_then_a_502(
    caller: Caller, house: House, protocol: str, stream: bool
) -> None:
    answer = caller.post(protocol, "sim-lorem-0", stream=stream)
    check_status(answer, protocol, Told(*UPSTREAM, "upstream_empty_response"))
    runs = house.simulator.runs()
    assert len({run["account"] for run in runs}) == len(runs) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("cause", ["usage_exhausted", "key_bad", "rate_limited", "html_403", "too_many_computers"])
def test_an_accounts_trouble_costs_the_caller_nothing(
    caller: Caller, house: House, protocol: str, stream: bool, cause: str
) -> None:
    house.simulator.fault("alpha", cause)
    house.simulator.fault("beta", cause)
    assert caller.ask(protocol, "sim-echo", "one two three", stream=stream).text == "one two three"


def test_the_record_of_a_failed_request_tells_each_attempt(caller: Caller, house: House) -> None:
    answer = caller.chat("sim-error-usage_exhausted", stream=True)
    record = house.record(answer.headers["x-request-id"])
    assert (record["status"], record["code"], record["culprit"], record["outcome"]) == (
        429, "rate_limit_exceeded", "account", "upstream_error",
    )  # fmt: skip
    attempts = record["attempts"]
    assert [attempt["reason"] for attempt in attempts] == ["quota"] * 3
    assert len({attempt["account_id"] for attempt in attempts}) == 3
    assert not [attempt for attempt in attempts if "cooldown_s" in attempt]  # all refused it: none is to blame


def test_the_record_of_an_interrupted_stream_says_so(caller: Caller, house: House) -> None:
    answer = caller.messages("sim-error-unavailable-after-2", stream=True)
    record = house.record(answer.headers["x-request-id"])
    assert (record["status"], record["outcome"], record["stage"]) == (200, "interrupted", "content")
