from __future__ import annotations

import orjson
import pytest
from anthropic.types import ErrorResponse, ModelInfo
from msgspec import Struct

from gateway.protocols.messages.errors import TYPES
from gateway.protocols.messages.server import encode_error, encode_model, encode_models
from ir.errors import ApiError, Kind, invalid

SDK_LACKS = {"request_too_large"}  # the API's word for 413; the SDK goes by the status


def test_every_kind_has_a_type() -> None:
    assert set(TYPES) == set(Kind)


@pytest.mark.parametrize(
    ("kind", "status", "name"),
    [
        (Kind.INVALID_REQUEST, 400, "invalid_request_error"),
        (Kind.AUTHENTICATION, 401, "authentication_error"),
        (Kind.BILLING, 402, "billing_error"),
        (Kind.PERMISSION, 403, "permission_error"),
        (Kind.NOT_FOUND, 404, "not_found_error"),
        (Kind.METHOD_NOT_ALLOWED, 405, "invalid_request_error"),
        (Kind.REQUEST_TIMEOUT, 408, "timeout_error"),
        (Kind.CONFLICT, 409, "invalid_request_error"),
        (Kind.TOO_LARGE, 413, "request_too_large"),
        (Kind.UNSUPPORTED_MEDIA, 415, "invalid_request_error"),
        (Kind.RATE_LIMIT, 429, "rate_limit_error"),
        (Kind.INTERNAL, 500, "api_error"),
        (Kind.UPSTREAM, 502, "api_error"),
        (Kind.NO_CAPACITY, 529, "overloaded_error"),
        (Kind.TIMEOUT, 504, "timeout_error"),
    ],
)
def test_the_error_table(kind: Kind, status: int, name: str) -> None:
    reply = encode_error(ApiError(kind, "some_code", "what happened"), "req_1")
    assert reply.status == status
    assert orjson.loads(reply.body) == {
        "type": "error",
        "error": {"type": name, "message": "what happened"},
        "request_id": "req_1",
    }
    if name not in SDK_LACKS:
        ErrorResponse.model_validate_json(reply.body)
    assert ("retry-after" in reply.headers) == (kind is Kind.RATE_LIMIT)


@pytest.mark.parametrize("kind", Kind)
def test_a_retry_that_cannot_help_is_called_off(kind: Kind) -> None:
    error = ApiError(kind, "c", "m")
    assert (encode_error(error, "r").headers.get("x-should-retry") == "false") is not error.retryable


def test_the_wait_is_rounded_up_to_whole_seconds() -> None:
    headers = encode_error(ApiError(Kind.RATE_LIMIT, "c", "m", retry_after=1.2), "r").headers
    assert headers["retry-after"] == "2"
    assert encode_error(ApiError(Kind.RATE_LIMIT, "c", "m"), "r").headers["retry-after"] == "1"


def test_details_are_part_of_the_error() -> None:
    error = ApiError(Kind.INVALID_REQUEST, "c", "m", details={"error_code": "thread_unsupported_request"})
    assert orjson.loads(encode_error(error, "r").body)["error"]["details"] == {
        "error_code": "thread_unsupported_request"
    }


def test_a_prompt_beyond_the_window_keeps_the_words_that_clients_compact_on() -> None:
    error = invalid("context_length_exceeded", "prompt is too long: 210000 tokens > 200000 maximum")
    assert (
        orjson.loads(encode_error(error, "r").body)["error"]["message"]
        == "prompt is too long: 210000 tokens > 200000 maximum"
    )


class Entry(Struct, frozen=True):
    name: str
    display_name: str = ""
    created: int = 1_700_000_000
    context_tokens: int = 200_000
    max_output_tokens: int = 64_000


def test_the_model_list_has_anthropics_shape() -> None:
    page = orjson.loads(encode_models([Entry("claude-a", "Claude A"), Entry("b")]))
    assert {key: page[key] for key in ("has_more", "first_id", "last_id")} == {
        "has_more": False,
        "first_id": "claude-a",
        "last_id": "b",
    }
    assert page["data"][0] == {
        "type": "model",
        "id": "claude-a",
        "display_name": "Claude A",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    }
    assert page["data"][1]["display_name"] == "b"


def test_an_empty_model_list_has_no_first_and_no_last() -> None:
    assert orjson.loads(encode_models([])) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_the_sdk_reads_a_single_model() -> None:
    model = ModelInfo.model_validate_json(encode_model(Entry("claude-a")))
    assert (model.id, model.created_at.year, model.max_tokens) == ("claude-a", 2023, 64_000)
