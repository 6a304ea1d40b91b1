from __future__ import annotations

import json

import pytest

from gateway.protocols.cloud.classify import BY_CODE, classify, read_code
from ir.errors import CULPRITS, Culprit, Reason, Stage


def body(code: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": "a secret text"}}).encode()


@pytest.mark.parametrize("code", BY_CODE)
def test_a_code_means_the_same_whatever_the_status(code: str) -> None:
    for status in (400, 403, 429, 503):
        fault = classify(status, {}, body(code))
        assert (fault.reason, fault.upstream_code, fault.stage) == (BY_CODE[code], code, Stage.HEADERS)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, Reason.BAD_REQUEST),
        (401, Reason.AUTH_REVOKED),
        (403, Reason.FORBIDDEN),
        (404, Reason.TRANSIENT),
        (418, Reason.PROTOCOL),
        (429, Reason.RATE_LIMIT),
        (500, Reason.TRANSIENT),
        (503, Reason.CAPACITY),
        (599, Reason.TRANSIENT),
    ],
)
def test_a_code_that_nobody_knows_leaves_the_status(status: int, reason: Reason) -> None:
    fault = classify(status, {}, body("invented_yesterday"))
    assert (fault.reason, fault.upstream_code) == (reason, f"http_{status}")


@pytest.mark.parametrize(
    "shape",
    [
        {"error": {"code": "plan_required", "message": "x"}},
        {"code": "plan_required", "message": "x"},
        {"error": "plan_required"},
    ],
)
def test_all_three_shapes_of_an_error_are_read(shape: object) -> None:
    assert read_code(json.dumps(shape).encode()) == "plan_required"


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'{"error": 7}', b'{"error": {"code": 7}}', b"<html>", b"\xff"])
def test_what_is_no_error_has_no_code(raw: bytes) -> None:
    assert read_code(raw) == ""


def test_a_page_is_the_ways_fault_and_no_accounts() -> None:
    fault = classify(403, {}, b"  <!DOCTYPE html>")
    assert (fault.reason, CULPRITS[fault.reason]) == (Reason.EGRESS, Culprit.EGRESS)


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("", None), ("soon", None), ("-1", None), ("9999999", None), ("1.5", None)]
)
def test_a_wait_is_kept_when_it_is_whole_seconds(text: str, seconds: float | None) -> None:
    assert classify(429, {"retry-after": text}, body("rate_limit_exceeded")).retry_after == seconds


def test_no_text_of_the_upstream_gets_into_a_fault() -> None:
    assert "secret" not in str(vars(classify(400, {}, body("validation_error"))))
