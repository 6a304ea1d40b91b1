"""What an upstream's Messages error means for the attempt. The type decides first, then the status, text last.

Anthropic tells some causes apart by text alone, all as ``invalid_request_error``: a prompt beyond the window, an
account without credit or that was closed, and an image it cannot read. No text leaves this module, only numbers found
in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from ir.errors import Fault, Reason, Stage

TYPES: Mapping[str, Reason] = {
    "invalid_request_error": Reason.BAD_REQUEST,
    "authentication_error": Reason.AUTH_EXPIRED,
    "billing_error": Reason.PAYMENT,
    "permission_error": Reason.FORBIDDEN,
    # Callers were already checked against our catalogue: an unknown model is this account's gap, not their mistake.
    "not_found_error": Reason.MODEL_GATED,
    "request_too_large": Reason.TOO_LARGE,
    "rate_limit_error": Reason.RATE_LIMIT,
    "timeout_error": Reason.TIMEOUT,
    "overloaded_error": Reason.CAPACITY,
    "api_error": Reason.TRANSIENT,
}
STATUSES: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH_EXPIRED,
    402: Reason.PAYMENT,
    403: Reason.FORBIDDEN,
    404: Reason.MODEL_GATED,
    407: Reason.EGRESS,
    408: Reason.TIMEOUT,
    413: Reason.TOO_LARGE,
    422: Reason.BAD_REQUEST,
    429: Reason.RATE_LIMIT,
    503: Reason.CAPACITY,
    504: Reason.TIMEOUT,
    529: Reason.CAPACITY,
}

_TOO_LONG = re.compile(r"(\d{1,12}) tokens > (\d{1,12}) maximum")
_LARGEST_BODY = 64 * 1024


def classify(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault behind a refusal. ``headers`` have lower-case names; ``retry_after`` comes from them, in seconds."""
    if body.lstrip()[:1] == b"<":  # a page comes from what stands in front of the vendor
        wait = _retry_after(headers)
        return Fault(Reason.EGRESS, Stage.HEADERS, retry_after=wait, upstream_code=f"{status}_html")
    error = _read_body(body)
    kind = error.get("type")
    reason = TYPES.get(kind) if isinstance(kind, str) else None
    code = kind if isinstance(kind, str) and reason is not None else str(status)
    if reason is None:
        reason = STATUSES.get(status) or (Reason.TRANSIENT if status >= 500 else Reason.PROTOCOL)
    reason, hint = _refine(reason, error.get("message"))
    return Fault(reason, Stage.HEADERS, retry_after=_retry_after(headers), upstream_code=code, hint=hint)


def read_error(body: Mapping[str, Any], stage: Stage) -> Fault:
    """The fault behind an ``error`` event of a stream."""
    error = body.get("error")
    fields = error if isinstance(error, dict) else {}
    kind = fields.get("type")
    known = TYPES.get(kind) if isinstance(kind, str) else None
    reason, hint = _refine(known or Reason.TRANSIENT, fields.get("message"))
    return Fault(reason, stage, upstream_code=str(kind) if known else "", hint=hint)


def _read_body(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body[:_LARGEST_BODY])
    except orjson.JSONDecodeError:
        return {}
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {}


def _refine(reason: Reason, message: object) -> tuple[Reason, Mapping[str, int] | None]:
    if reason is not Reason.BAD_REQUEST or not isinstance(message, str):
        return reason, None
    text = message.lower()
    if "prompt is too long" in text:
        found = _TOO_LONG.search(text)
        hint = {"tokens": int(found[1]), "maximum": int(found[2])} if found else None
        return Reason.CONTEXT_TOO_LONG, hint
    if "credit balance is too low" in text:
        return Reason.PAYMENT, None
    if "organization has been disabled" in text:
        return Reason.ACCOUNT_CLOSED, None
    if "could not process image" in text:
        return Reason.IMAGE_UNSUPPORTED, None
    return reason, None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "").strip()
    return float(value) if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", value) else None
