from __future__ import annotations

import base64
from typing import Any

import pytest

from accounts.failures import is_tentative
from gateway.protocols.agent import classify
from gateway.protocols.agent.classify import Size, classify_error, classify_http
from ir.errors import Culprit, Reason, Stage
from protobufs import agent_v1_pb2 as pb


def details(number: int, title: str = "", detail: str = "") -> list[dict[str, Any]]:
    message = pb.ErrorDetails(
        error=pb.ErrorCode.Name(number), details=pb.CustomErrorDetails(title=title, detail=detail)
    )
    value = base64.b64encode(message.SerializeToString()).decode().rstrip("=")
    return [{"type": "aiserver.v1.ErrorDetails", "value": value}]


def error(code: str, number: int | None = None, title: str = "", detail: str = "") -> dict[str, Any]:
    listed = [] if number is None else details(number, title, detail)
    return {"code": code, "message": "Error", "details": listed}


def reason(
    code: str, number: int | None = None, title: str = "", detail: str = "", size: Size = classify.NO_SIZE
) -> Reason:
    return classify_error(error(code, number, title, detail), Stage.PREAMBLE, size=size).reason


def test_every_number_of_the_descriptor_has_a_reason_or_is_known_to_mean_nothing() -> None:
    numbers = set(pb.ErrorCode.values())
    assert set(classify.BY_ENUM) | classify.MEANINGLESS == numbers
    assert not set(classify.BY_ENUM) & classify.MEANINGLESS
    assert set(classify.BY_ENUM) >= classify.MANY_MEANINGS


def test_every_connect_code_has_a_reason() -> None:
    codes = (
        "canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied "
        "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss "
        "unauthenticated"
    )
    assert set(classify.BY_CODE) == set(codes.split())


@pytest.mark.parametrize("number", sorted(pb.ErrorCode.values()))
def test_no_number_without_a_title_blames_an_account_by_accident(number: int) -> None:
    fault = classify_error(error("internal", number), Stage.PREAMBLE)
    expected = classify.BY_ENUM.get(number, Reason.TRANSIENT)
    assert fault.reason is expected
    assert fault.upstream_code == (pb.ErrorCode.Name(number) if number else "internal")


@pytest.mark.parametrize(
    ("code", "number", "title", "expected"),
    [
        ("unauthenticated", 2, "", Reason.AUTH_EXPIRED),
        ("unauthenticated", 12, "", Reason.AUTH_EXPIRED),
        ("unauthenticated", 38, "", Reason.AUTH_EXPIRED),
        ("unauthenticated", 38, "Suspicious activity from your account/ip", Reason.BLOCKED),
        ("unauthenticated", 1, "", Reason.AUTH_REVOKED),
        ("unauthenticated", 42, "", Reason.AUTH_REVOKED),
        ("resource_exhausted", 9, "", Reason.QUOTA),
        ("resource_exhausted", 41, "", Reason.QUOTA),
        ("resource_exhausted", 44, "", Reason.QUOTA),
        ("resource_exhausted", 50, "You have an unpaid invoice", Reason.PAYMENT),
        ("resource_exhausted", 50, "Slow down", Reason.RATE_LIMIT),
        ("resource_exhausted", 29, "Too many computers.", Reason.DEVICE_LIMIT),
        ("resource_exhausted", 29, "Something new", Reason.EXHAUSTED),
        ("internal", 29, "Something new", Reason.TRANSIENT),
        ("resource_exhausted", 28, "Update Required", Reason.CLIENT_OUTDATED),
        ("resource_exhausted", 28, "", Reason.RATE_LIMIT),
        ("resource_exhausted", None, "", Reason.EXHAUSTED),
        ("resource_exhausted", 41, "You have an unpaid invoice", Reason.PAYMENT),
        ("unauthenticated", 2, "Suspicious activity from your account/ip", Reason.BLOCKED),
        ("unavailable", 63, "You have used the slow pool excessively", Reason.BLOCKED),
        ("unavailable", 63, "", Reason.TRANSIENT),
        ("not_found", 5, "Suspicious model name", Reason.MODEL_UNKNOWN),
        ("failed_precondition", 29, "This client version is not supported", Reason.CLIENT_OUTDATED),
        ("failed_precondition", None, "", Reason.BAD_REQUEST),
        ("resource_exhausted", 51, "Named models unavailable. Free plans can only use Auto", Reason.MODEL_LIMIT),
        ("permission_denied", 23, "", Reason.MODEL_GATED),
        ("permission_denied", None, "", Reason.MODEL_GATED),
        ("not_found", 5, "", Reason.MODEL_UNKNOWN),
        ("invalid_argument", 36, "Unknown model parameter", Reason.UNSUPPORTED_PARAM),
        ("invalid_argument", 36, "", Reason.BAD_REQUEST),
        ("invalid_argument", 43, "", Reason.CONTEXT_TOO_LONG),
        ("invalid_argument", 20, "Tool definitions are too large", Reason.TOOLS_TOO_LARGE),
        ("invalid_argument", 31, "", Reason.TOO_LARGE),
        ("invalid_argument", 27, "", Reason.IMAGE_UNSUPPORTED),
        ("failed_precondition", 30, "", Reason.CLIENT_OUTDATED),
        ("permission_denied", 54, "", Reason.BLOCKED),
        ("permission_denied", 65, "", Reason.ACCOUNT_CLOSED),
        ("canceled", 21, "", Reason.TRANSIENT),
        ("canceled", None, "", Reason.TRANSIENT),
        ("aborted", None, "", Reason.TRANSIENT),
        ("deadline_exceeded", None, "", Reason.TIMEOUT),
        ("unavailable", None, "", Reason.CAPACITY),
        ("internal", 62, "", Reason.TRANSIENT),
        ("never_heard_of", None, "", Reason.TRANSIENT),
        ("", None, "", Reason.TRANSIENT),
    ],
)
def test_causes(code: str, number: int | None, title: str, expected: Reason) -> None:
    assert reason(code, number, title) is expected


def test_the_captured_invoice_detail_is_read() -> None:
    value = "CDISHgoaWW91IGhhdmUgYW4gdW5wYWlkIGludm9pY2UgABgB"
    fault = classify_error(
        {"code": "resource_exhausted", "message": "Error", "details": [{"value": value}]}, Stage.PREAMBLE
    )
    assert (fault.reason, fault.upstream_code) == (Reason.PAYMENT, "ERROR_RATE_LIMITED")


def test_the_debug_form_is_read_before_the_encoded_one() -> None:
    debug = {"error": "ERROR_RATE_LIMITED_CHANGEABLE", "details": {"title": "Limit", "isRetryable": False}}
    fault = classify_error(
        {"code": "resource_exhausted", "details": [{**details(9)[0], "debug": debug}]}, Stage.PREAMBLE
    )
    assert fault.reason is Reason.MODEL_LIMIT


@pytest.mark.parametrize(
    ("request_tokens", "expected"), [(99_999, Reason.EXHAUSTED), (100_000, Reason.CONTEXT_TOO_LONG)]
)
def test_a_bare_refusal_is_an_overflow_only_when_half_the_window_is_used(request_tokens: int, expected: Reason) -> None:
    size = Size(request_tokens, 200_000)
    fault = classify_error(error("resource_exhausted"), Stage.PREAMBLE, size=size)
    assert fault.reason is expected
    assert fault.hint == {"request_tokens": request_tokens, "context_tokens": 200_000}


def test_words_about_quota_win_over_size() -> None:
    size = Size(190_000, 200_000)
    assert reason("resource_exhausted", 29, "Usage limit", "context window too long", size=size) is Reason.QUOTA
    assert reason("resource_exhausted", 29, "Something", size=size) is Reason.EXHAUSTED


@pytest.mark.parametrize(
    "mess",
    [
        {"code": 7, "details": "x"},
        {"code": "internal", "details": [1, None, {"value": "%%%"}, {"value": "AAAA"}, {"debug": {"error": 5}}]},
        {"details": [{"debug": {"error": "ERROR_NOBODY_KNOWS", "details": []}}]},
        {"message": ["x"]},
    ],
)
def test_a_malformed_error_is_transient(mess: dict[str, Any]) -> None:
    assert classify_error(mess, Stage.CONTENT).reason is Reason.TRANSIENT


@pytest.mark.parametrize(
    ("status", "content_type", "body", "expected"),
    [
        (403, "text/html; charset=utf-8", b"<html>", Reason.EGRESS),
        (502, "", b"  <!doctype html>", Reason.EGRESS),
        (200, "text/html", b"", Reason.EGRESS),
        (464, "", b"", Reason.PROTOCOL),
        (415, "application/json", b'{"code":"unknown"}', Reason.PROTOCOL),
        (401, "application/json", b'{"code":"unauthenticated","message":"Error"}', Reason.AUTH_EXPIRED),
        (429, "application/json", b'{"error":{"code":"resource_exhausted"}}', Reason.EXHAUSTED),
        (401, "text/plain", b"no", Reason.AUTH_EXPIRED),
        (402, "", b"", Reason.PAYMENT),
        (403, "application/json", b"{}", Reason.FORBIDDEN),
        (404, "", b"not found", Reason.PROTOCOL),
        (407, "", b"", Reason.EGRESS),
        (413, "", b"", Reason.TOO_LARGE),
        (429, "", b"", Reason.RATE_LIMIT),
        (503, "", b"", Reason.CAPACITY),
        (504, "", b"", Reason.TIMEOUT),
        (500, "", b"[1]", Reason.TRANSIENT),
        (599, "", b"", Reason.TRANSIENT),
        (302, "", b"", Reason.PROTOCOL),
        (200, "text/plain", b"hello", Reason.PROTOCOL),
        (418, "", b"", Reason.PROTOCOL),
    ],
)
def test_answers_that_are_no_stream(status: int, content_type: str, body: bytes, expected: Reason) -> None:
    assert classify_http(status, {"content-type": content_type}, body).reason is expected


@pytest.mark.parametrize("status", range(100, 600))
def test_no_bare_status_outside_the_table_rests_an_account_by_itself(status: int) -> None:
    fault = classify_http(status, {}, b"")
    if status not in classify.BY_STATUS:
        assert fault.culprit in (Culprit.UPSTREAM, Culprit.GATEWAY) or is_tentative(fault)
    assert fault.upstream_code == f"http_{status}"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("-1", None),
        ("nan", None),
        ("1e9", None),
    ],
)
def test_retry_after_is_seconds_or_nothing(value: str, seconds: float | None) -> None:
    assert classify.parse_retry_after(value) == seconds
    assert classify_http(429, {"retry-after": value}, b"").retry_after == seconds


def test_no_upstream_text_is_kept() -> None:
    secret = "canary-7f3a"
    fault = classify_error(error("resource_exhausted", 50, secret, secret), Stage.PREAMBLE)
    html = classify_http(500, {"x": secret}, secret.encode())
    odd = classify_error({"code": secret, "message": secret}, Stage.PREAMBLE)
    for one in (fault, html, odd):
        assert secret not in repr((one, vars(one), one.args))
