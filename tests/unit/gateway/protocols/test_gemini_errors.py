from __future__ import annotations

from typing import Any

import orjson
import pytest
from google.genai.errors import APIError

from gateway.protocols.gemini.errors import STATUSES
from gateway.protocols.gemini.paths import parse
from gateway.protocols.gemini.server import encode_error
from ir.errors import ApiError, Kind, invalid
from ops.budgets import BudgetError

TYPE = "type.googleapis.com/google.rpc."


def encode(error: ApiError) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(encode_error(error, "req_1").body)["error"]
    return body


def details(error: ApiError) -> dict[str, dict[str, Any]]:
    return {entry["@type"].removeprefix(TYPE): entry for entry in encode(error)["details"]}


def test_every_kind_has_a_status() -> None:
    assert set(STATUSES) == set(Kind)


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        (Kind.INVALID_REQUEST, 400, "INVALID_ARGUMENT"),
        (Kind.AUTHENTICATION, 401, "UNAUTHENTICATED"),
        (Kind.BILLING, 429, "RESOURCE_EXHAUSTED"),
        (Kind.PERMISSION, 403, "PERMISSION_DENIED"),
        (Kind.NOT_FOUND, 404, "NOT_FOUND"),
        (Kind.METHOD_NOT_ALLOWED, 405, "INVALID_ARGUMENT"),
        (Kind.REQUEST_TIMEOUT, 408, "DEADLINE_EXCEEDED"),
        (Kind.CONFLICT, 409, "ABORTED"),
        (Kind.TOO_LARGE, 413, "INVALID_ARGUMENT"),
        (Kind.UNSUPPORTED_MEDIA, 415, "INVALID_ARGUMENT"),
        (Kind.RATE_LIMIT, 429, "RESOURCE_EXHAUSTED"),
        (Kind.INTERNAL, 500, "INTERNAL"),
        (Kind.UPSTREAM, 502, "UNAVAILABLE"),
        (Kind.NO_CAPACITY, 503, "UNAVAILABLE"),
        (Kind.TIMEOUT, 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_t11_the_error_table(kind: Kind, code: int, status: str) -> None:
    error = ApiError(kind, "some_code", "what happened")
    reply = encode_error(error, "req_1")
    body = encode(error)
    assert (reply.status, body["code"], body["status"], body["message"]) == (code, code, status, "what happened")
    assert details(error)["ErrorInfo"] == {"@type": TYPE + "ErrorInfo", "reason": "SOME_CODE", "domain": "gateway"}
    assert ("retry-after" in reply.headers) == (code == 429)
    assert reply.headers.get("allow") == ("POST" if code == 405 else None)
    assert (reply.headers.get("x-should-retry") == "false") is not error.retryable
    raised = APIError(reply.status, orjson.loads(reply.body))
    assert (raised.code, raised.status, raised.message) == (code, status, "what happened")


def test_a_wait_stands_in_the_header_and_in_retry_info() -> None:
    error = ApiError(Kind.RATE_LIMIT, "rate_limit_exceeded", "slow down", retry_after=29.2)
    assert encode_error(error, "r").headers["retry-after"] == "30"
    assert details(error)["RetryInfo"]["retryDelay"] == "30s"
    unknown = ApiError(Kind.RATE_LIMIT, "rate_limit_exceeded", "slow down")
    assert details(unknown)["RetryInfo"]["retryDelay"] == "1s"
    assert "RetryInfo" not in details(invalid("c", "m", "contents"))


def test_a_bad_key_has_googles_reason() -> None:
    error = ApiError(Kind.AUTHENTICATION, "invalid_api_key", "The API key is not valid.")
    assert details(error)["ErrorInfo"]["reason"] == "API_KEY_INVALID"


def test_the_refusal_of_a_method_is_the_seeds_sample() -> None:
    with pytest.raises(ApiError) as caught:
        parse("POST", "/v1beta/models/gemini-2.5-flash:countTokens", b"")
    assert encode_error(caught.value, "r").body.decode() == (
        '{"error":{"code":404,"message":"Method countTokens is not supported for models/gemini-2.5-flash.",'
        '"status":"NOT_FOUND","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",'
        '"reason":"UNSUPPORTED_METHOD","domain":"gateway","metadata":{"method":"countTokens"}}]}}'
    )


def test_a_field_of_the_vocabulary_gets_googles_name() -> None:
    violations = details(invalid("context_length_exceeded", "prompt is too long", "messages"))["BadRequest"]
    assert violations["fieldViolations"] == [{"field": "contents", "description": "prompt is too long"}]


def test_a_prompt_over_budget_is_a_413_with_its_numbers() -> None:
    error = BudgetError("prompt bytes", "prompt_too_large", "messages", 1025, 1024, "messages")
    body = encode(error)
    assert (body["code"], body["status"]) == (413, "INVALID_ARGUMENT")
    assert "1025" in body["message"]
    assert "1024" in body["message"]
    assert details(error).keys() == {"ErrorInfo"}
