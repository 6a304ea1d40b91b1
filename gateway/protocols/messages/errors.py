"""What a caller is told, in Anthropic's words. One row for every kind of error.

Source: Anthropic's error reference and its SDKs. 529 is Anthropic's status for "overloaded"; the clients know it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gateway.contracts import ErrorReply
from gateway.wire.json import dump
from ir.errors import ApiError, Kind

OVERLOADED = 529

TYPES: Mapping[Kind, str] = {
    Kind.INVALID_REQUEST: "invalid_request_error",
    Kind.AUTHENTICATION: "authentication_error",
    Kind.BILLING: "billing_error",
    Kind.PERMISSION: "permission_error",
    Kind.NOT_FOUND: "not_found_error",
    Kind.METHOD_NOT_ALLOWED: "invalid_request_error",
    Kind.REQUEST_TIMEOUT: "timeout_error",
    Kind.CONFLICT: "invalid_request_error",
    Kind.TOO_LARGE: "request_too_large",
    Kind.UNSUPPORTED_MEDIA: "invalid_request_error",
    Kind.RATE_LIMIT: "rate_limit_error",
    Kind.INTERNAL: "api_error",
    Kind.UPSTREAM: "api_error",
    Kind.NO_CAPACITY: "overloaded_error",
    Kind.TIMEOUT: "timeout_error",
}


def encode_error(error: ApiError, request_id: str) -> ErrorReply:
    """The whole answer. ``retry-after`` in whole seconds, rounded up; a 429 always has one: clients give up without."""
    headers: dict[str, str] = {}
    wait = 1.0 if error.retry_after is None and error.kind is Kind.RATE_LIMIT else error.retry_after
    if wait is not None:
        headers["retry-after"] = str(math.ceil(wait))
    if not error.retryable:
        headers["x-should-retry"] = "false"
    status = OVERLOADED if error.kind is Kind.NO_CAPACITY else error.kind.value
    return ErrorReply(status, headers, dump({**error_body(error), "request_id": request_id}))


def error_body(error: ApiError) -> dict[str, Any]:
    """The envelope that answers and error events share."""
    body: dict[str, Any] = {"type": TYPES[error.kind], "message": error.message}
    if error.details is not None:
        body["details"] = dict(error.details)
    return {"type": "error", "error": body}
