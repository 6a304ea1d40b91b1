"""What a caller is told, in Google's words: ``google.rpc.Status`` as JSON. One row for every kind of error.

Every error has an ``ErrorInfo`` with our stable code; a field that is at fault comes as ``BadRequest``, a wait as
``RetryInfo`` beside the header. Source: Google's API error model (AIP-193) and ``google/rpc/error_details.proto``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gateway.contracts import ErrorReply
from gateway.protocols.gemini.fields import UNKNOWN_FIELD
from gateway.wire.json import dump
from ir.errors import ApiError, Kind

DOMAIN = "gateway"
DEFAULT_WAIT = 1.0  # seconds, for a pace limit whose end is not known

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

_TYPE = "type.googleapis.com/google.rpc."
_REASONS = {"invalid_api_key": "API_KEY_INVALID"}  # the one word that Google's own clients know
_FIELDS = {"messages": "contents"}  # errors that are found behind the protocol name the vocabulary's field


def encode_error(error: ApiError, request_id: str) -> ErrorReply:
    """The whole answer; Google has no place for ``request_id`` in the body. A spent balance is a 429 here, as there."""
    headers: dict[str, str] = {}
    wait = _wait(error)
    if wait is not None:
        headers["retry-after"] = str(math.ceil(wait))
    if not error.retryable:
        headers["x-should-retry"] = "false"
    if error.kind is Kind.METHOD_NOT_ALLOWED:
        headers["allow"] = "POST"
    return ErrorReply(_status(error), headers, dump(error_body(error)))


def error_body(error: ApiError) -> dict[str, Any]:
    """``{"error": {"code", "message", "status", "details"}}``, which answers and streams share."""
    body = {
        "code": _status(error),
        "message": error.message,
        "status": STATUSES[error.kind],
        "details": list(_details(error)),
    }
    return {"error": body}


def _details(error: ApiError) -> list[dict[str, Any]]:
    metadata = {name: str(value) for name, value in (error.details or {}).items()}
    advice = metadata.pop("advice", error.message)
    info = {"@type": _TYPE + "ErrorInfo", "reason": _REASONS.get(error.code, error.code.upper()), "domain": DOMAIN}
    found: list[dict[str, Any]] = [info | {"metadata": metadata} if metadata else info]
    if error.kind is Kind.INVALID_REQUEST and error.param is not None:
        own = error.code == UNKNOWN_FIELD  # the caller's name for something, not the vocabulary's
        field = error.param if own else _FIELDS.get(error.param, error.param)
        violation = {"field": field, "description": advice}
        found.insert(0, {"@type": _TYPE + "BadRequest", "fieldViolations": [violation]})
    wait = _wait(error)
    if wait is not None:
        found.append({"@type": _TYPE + "RetryInfo", "retryDelay": f"{math.ceil(wait)}s"})
    return found


def _status(error: ApiError) -> int:
    return Kind.RATE_LIMIT.value if error.kind is Kind.BILLING else error.kind.value


def _wait(error: ApiError) -> float | None:
    if error.retry_after is None and error.kind in (Kind.RATE_LIMIT, Kind.BILLING):
        return DEFAULT_WAIT
    return error.retry_after
