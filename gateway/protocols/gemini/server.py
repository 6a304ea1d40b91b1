"""Gemini native, as far as it is served: so far its errors, so that a client on these paths can read them.

Source of the shape: Google's ``google.rpc.Status`` as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gateway.contracts import ErrorReply
from gateway.wire.json import dump
from ir.errors import ApiError, Kind

STATUSES: Mapping[Kind, str] = {
    Kind.INVALID_REQUEST: "INVALID_ARGUMENT",
    Kind.AUTHENTICATION: "UNAUTHENTICATED",
    Kind.BILLING: "RESOURCE_EXHAUSTED",
    Kind.PERMISSION: "PERMISSION_DENIED",
    Kind.NOT_FOUND: "NOT_FOUND",
    Kind.METHOD_NOT_ALLOWED: "INVALID_ARGUMENT",
    Kind.REQUEST_TIMEOUT: "DEADLINE_EXCEEDED",
    Kind.CONFLICT: "ABORTED",
    Kind.TOO_LARGE: "INVALID_ARGUMENT",
    Kind.UNSUPPORTED_MEDIA: "INVALID_ARGUMENT",
    Kind.RATE_LIMIT: "RESOURCE_EXHAUSTED",
    Kind.INTERNAL: "INTERNAL",
    Kind.UPSTREAM: "UNAVAILABLE",
    Kind.NO_CAPACITY: "UNAVAILABLE",
    Kind.TIMEOUT: "DEADLINE_EXCEEDED",
}


def encode_error(error: ApiError, request_id: str) -> ErrorReply:
    """``{"error": {"code", "message", "status"}}``; a spent balance is a 429 here, as it is at Google."""
    status = Kind.RATE_LIMIT.value if error.kind is Kind.BILLING else error.kind.value
    headers = {} if error.retry_after is None else {"retry-after": str(math.ceil(error.retry_after))}
    body = dump({"error": {"code": status, "message": error.message, "status": STATUSES[error.kind]}})
    return ErrorReply(status, headers, body)
