from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.openai.classify import BY_CODE, BY_STATUS, BY_TYPE, classify
from ir.errors import Reason, Stage

LONG = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. "
    "Please reduce the length of the messages."
)


def refused(status: int, error: Any = None, **headers: str) -> Reason:
    body = b"" if error is None else orjson.dumps({"error": error})
    return classify(status, {name.replace("_", "-"): value for name, value in headers.items()}, body).reason


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (429, {"code": "insufficient_quota", "type": "rate_limit_error"}, Reason.QUOTA),
        (429, {"type": "tokens", "code": None}, Reason.RATE_LIMIT),
        (400, {"code": "invalid_api_key", "type": "invalid_request_error"}, Reason.AUTH_REVOKED),
        (404, {"code": "model_not_found", "type": "invalid_request_error"}, Reason.MODEL_GATED),
        (500, {"type": "overloaded_error"}, Reason.CAPACITY),
        (400, {"message": LONG, "type": "api_error"}, Reason.CONTEXT_TOO_LONG),
        (429, {"message": LONG}, Reason.RATE_LIMIT),
        (400, {"message": "x", "type": "invalid_request_error"}, Reason.BAD_REQUEST),
        (401, {"message": "x"}, Reason.AUTH_EXPIRED),
        (402, "no credit", Reason.PAYMENT),
        (403, None, Reason.FORBIDDEN),
        (404, None, Reason.PROTOCOL),
        (418, None, Reason.PROTOCOL),
        (500, None, Reason.TRANSIENT),
        (503, None, Reason.CAPACITY),
        (504, None, Reason.TIMEOUT),
        (529, None, Reason.CAPACITY),
        (599, None, Reason.TRANSIENT),
    ],
)
def test_code_comes_before_type_and_type_before_status(status: int, error: Any, reason: Reason) -> None:
    assert refused(status, error) is reason


@pytest.mark.parametrize("code", BY_CODE)
def test_a_known_code_decides_whatever_the_status_and_type(code: str) -> None:
    fault = classify(418, {}, orjson.dumps({"error": {"code": code, "type": "server_error"}}))
    assert (fault.reason, fault.upstream_code, fault.stage) == (BY_CODE[code], code, Stage.HEADERS)


@pytest.mark.parametrize("kind", BY_TYPE)
def test_a_known_type_decides_whatever_the_status(kind: str) -> None:
    assert refused(418, {"type": kind}) is BY_TYPE[kind]


@pytest.mark.parametrize("status", BY_STATUS)
def test_a_bare_status_has_its_own_meaning(status: int) -> None:
    assert refused(status) is BY_STATUS[status]


def test_an_error_object_without_an_envelope_is_read_too() -> None:
    assert classify(400, {}, b'{"code":"context_length_exceeded"}').reason is Reason.CONTEXT_TOO_LONG


def test_a_page_blames_the_way_out() -> None:
    fault = classify(403, {}, b"\n<!DOCTYPE html><p>secret</p>")
    assert (fault.reason, fault.upstream_code) == (Reason.EGRESS, "http_403_html")


def test_the_sizes_of_an_overflow_are_kept_as_numbers() -> None:
    fault = classify(400, {}, orjson.dumps({"error": {"message": LONG}}))
    assert fault.hint == {"request_tokens": 9000, "context_tokens": 8192}
    assert classify(400, {}, b'{"error":{"code":"context_length_exceeded"}}').hint is None


def test_no_text_of_the_vendor_is_kept() -> None:
    fault = classify(400, {}, b'{"error":{"message":"secret","type":"secret","code":"secret"}}')
    assert "secret" not in repr(fault.__dict__)
    assert fault.upstream_code == "http_400"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "1e12"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert classify(429, headers, b"").retry_after == seconds
