from __future__ import annotations

import orjson
import pytest

from gateway.protocols.openai.errors import TABLE, encode_error
from ir.errors import ApiError, Kind, invalid


def test_every_kind_has_a_row() -> None:
    assert set(TABLE) == set(Kind)


@pytest.mark.parametrize(
    ("kind", "status", "type_"),
    [
        (Kind.INVALID_REQUEST, 400, "invalid_request_error"),
        (Kind.AUTHENTICATION, 401, "authentication_error"),
        (Kind.BILLING, 429, "insufficient_quota"),
        (Kind.PERMISSION, 403, "permission_error"),
        (Kind.NOT_FOUND, 404, "invalid_request_error"),
        (Kind.CONFLICT, 409, "invalid_request_error"),
        (Kind.TOO_LARGE, 413, "invalid_request_error"),
        (Kind.RATE_LIMIT, 429, "rate_limit_error"),
        (Kind.INTERNAL, 500, "server_error"),
        (Kind.UPSTREAM, 502, "upstream_error"),
        (Kind.NO_CAPACITY, 503, "server_error"),
        (Kind.TIMEOUT, 504, "server_error"),
    ],
)
def test_status_and_type_are_those_of_the_table(kind: Kind, status: int, type_: str) -> None:
    reply = encode_error(ApiError(kind, "some_code", "m"), "req_1")
    assert reply.status == status
    assert orjson.loads(reply.body)["error"]["type"] == type_


def test_the_body_has_the_four_fields_and_no_others() -> None:
    reply = encode_error(invalid("invalid_role", "wrong", "messages[0].role"), "req_1")
    assert reply.body == (
        b'{"error":{"message":"wrong","type":"invalid_request_error","param":"messages[0].role","code":"invalid_role"}}'
    )


def test_an_exhausted_balance_is_told_in_the_words_clients_know_and_not_retried() -> None:
    reply = encode_error(ApiError(Kind.BILLING, "team_balance", "m"), "req_1")
    assert orjson.loads(reply.body)["error"]["code"] == "insufficient_quota"
    assert reply.headers == {"x-should-retry": "false"}


@pytest.mark.parametrize(("wait", "header"), [(0.0, "0"), (0.2, "1"), (2, "2"), (2.1, "3"), (-1, "0")])
def test_a_wait_is_rounded_up_to_whole_seconds(wait: float, header: str) -> None:
    reply = encode_error(ApiError(Kind.NO_CAPACITY, "no_capacity", "m", retry_after=wait), "req_1")
    assert reply.headers == {"retry-after": header}


def test_a_pace_limit_always_names_a_wait() -> None:
    assert encode_error(ApiError(Kind.RATE_LIMIT, "c", "m"), "req_1").headers == {"retry-after": "1"}


@pytest.mark.parametrize("kind", Kind)
def test_only_what_may_succeed_later_is_worth_a_retry(kind: Kind) -> None:
    error = ApiError(kind, "c", "m")
    headers = encode_error(error, "req_1").headers
    assert (headers.get("x-should-retry") == "false") is not error.retryable
