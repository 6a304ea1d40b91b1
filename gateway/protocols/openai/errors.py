"""Errors as Chat and Responses callers are told them: ``{"error": {message, type, param, code}}``.

``TABLE`` is total over ``Kind`` (a test proves it). Two rows differ from the plain status: an exhausted balance is a
429 ``insufficient_quota``, which is what OpenAI's clients know, and a pace limit always names a wait, because some
clients give up at once when it is missing. Source: OpenAI's error codes guide; ``x-should-retry`` is read by the SDKs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from gateway.contracts import ErrorReply, JsonObject
from gateway.wire.json import dump
from ir.errors import ApiError, Kind

AS_IT_IS: Mapping[str, str] = {}
DEFAULT_WAIT = 1  # seconds, for a pace limit whose end is not known


class Row(Struct, frozen=True):
    """``code``, where set, stands in for the error's own."""

    status: int
    type: str
    code: str = ""


TABLE: Mapping[Kind, Row] = {
    Kind.INVALID_REQUEST: Row(400, "invalid_request_error"),
    Kind.AUTHENTICATION: Row(401, "authentication_error"),
    Kind.BILLING: Row(429, "insufficient_quota", "insufficient_quota"),
    Kind.PERMISSION: Row(403, "permission_error"),
    Kind.NOT_FOUND: Row(404, "invalid_request_error"),
    Kind.METHOD_NOT_ALLOWED: Row(405, "invalid_request_error"),
    Kind.REQUEST_TIMEOUT: Row(408, "timeout_error"),
    Kind.CONFLICT: Row(409, "invalid_request_error"),
    Kind.TOO_LARGE: Row(413, "invalid_request_error"),
    Kind.UNSUPPORTED_MEDIA: Row(415, "invalid_request_error"),
    Kind.RATE_LIMIT: Row(429, "rate_limit_error"),
    Kind.INTERNAL: Row(500, "server_error"),
    Kind.UPSTREAM: Row(502, "upstream_error"),
    Kind.NO_CAPACITY: Row(503, "server_error"),
    Kind.TIMEOUT: Row(504, "server_error"),
}


def error_body(error: ApiError, names: Mapping[str, str] = AS_IT_IS) -> JsonObject:
    """``names``: what the protocol calls fields of the vocabulary, for errors that are found behind it."""
    row = TABLE[error.kind]
    param = None if error.param is None else names.get(error.param, error.param)
    body = {"message": error.message, "type": row.type, "param": param, "code": row.code or error.code}
    return {"error": body}


def encode_error(error: ApiError, request_id: str, names: Mapping[str, str] = AS_IT_IS) -> ErrorReply:
    """The whole error answer. The shape has no place for ``request_id``; the edge sends it as a header."""
    return ErrorReply(TABLE[error.kind].status, _headers(error), dump(error_body(error, names)))


def _headers(error: ApiError) -> dict[str, str]:
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(0, math.ceil(error.retry_after)))
    elif error.kind is Kind.RATE_LIMIT:
        headers["retry-after"] = str(DEFAULT_WAIT)
    if not error.retryable:
        headers["x-should-retry"] = "false"
    return headers
