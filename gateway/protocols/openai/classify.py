"""What the error of an OpenAI-compatible upstream means: code before type before status, its text last, only for a 400.

``upstream_code`` of a fault is the vendor's own code when it is in the tables, else the status: never free text.
Sources: OpenAI's error codes guide; the bodies that DeepSeek, Groq, OpenRouter, Mistral and vLLM are known to send.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import orjson

from gateway.protocols.openai.fields import text_or_empty
from ir.errors import Fault, Reason, Stage

LONGEST_WAIT = 32 * 86_400  # seconds; a longer one is a mistake of its sender

BY_CODE: Mapping[str, Reason] = {
    "context_length_exceeded": Reason.CONTEXT_TOO_LONG,
    "request_too_large": Reason.TOO_LARGE,
    "unsupported_parameter": Reason.UNSUPPORTED_PARAM,
    "unsupported_value": Reason.UNSUPPORTED_PARAM,
    "unknown_parameter": Reason.UNSUPPORTED_PARAM,
    "content_policy_violation": Reason.POLICY,
    "content_filter": Reason.POLICY,
    "invalid_prompt": Reason.POLICY,
    "invalid_image": Reason.IMAGE_UNSUPPORTED,
    "invalid_image_format": Reason.IMAGE_UNSUPPORTED,
    "image_parse_error": Reason.IMAGE_UNSUPPORTED,
    "image_too_large": Reason.TOO_LARGE,
    "invalid_api_key": Reason.AUTH_REVOKED,
    "token_expired": Reason.AUTH_EXPIRED,
    "account_deactivated": Reason.ACCOUNT_CLOSED,
    "organization_restricted": Reason.BLOCKED,
    "insufficient_quota": Reason.QUOTA,
    "billing_hard_limit_reached": Reason.PAYMENT,
    "billing_not_active": Reason.PAYMENT,
    "insufficient_balance": Reason.PAYMENT,
    # Callers were already checked against our catalogue: an unknown model is this account's gap, not their mistake.
    "model_not_found": Reason.MODEL_GATED,
    "model_not_available": Reason.MODEL_GATED,
    "rate_limit_exceeded": Reason.RATE_LIMIT,
    "unsupported_country_region_territory": Reason.EGRESS,
    "server_error": Reason.TRANSIENT,
    "internal_error": Reason.TRANSIENT,
    "engine_overloaded": Reason.CAPACITY,
    "no_capacity": Reason.CAPACITY,
    "timeout": Reason.TIMEOUT,
}

BY_TYPE: Mapping[str, Reason] = {
    "insufficient_quota": Reason.QUOTA,
    "tokens": Reason.RATE_LIMIT,
    "requests": Reason.RATE_LIMIT,
    "rate_limit_error": Reason.RATE_LIMIT,
    "authentication_error": Reason.AUTH_EXPIRED,
    "permission_error": Reason.FORBIDDEN,
    "not_found_error": Reason.MODEL_GATED,
    "overloaded_error": Reason.CAPACITY,
    "engine_overloaded_error": Reason.CAPACITY,
    "timeout_error": Reason.TIMEOUT,
    "server_error": Reason.TRANSIENT,
    "upstream_error": Reason.TRANSIENT,
    "api_error": Reason.TRANSIENT,
}

BY_STATUS: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH_EXPIRED,
    402: Reason.PAYMENT,
    403: Reason.FORBIDDEN,
    407: Reason.EGRESS,
    408: Reason.TIMEOUT,
    409: Reason.TRANSIENT,
    413: Reason.TOO_LARGE,
    422: Reason.BAD_REQUEST,
    426: Reason.CLIENT_OUTDATED,
    429: Reason.RATE_LIMIT,
    503: Reason.CAPACITY,
    504: Reason.TIMEOUT,
    529: Reason.CAPACITY,
}

_TOO_LONG = re.compile(r"context (length|window)|too many tokens|prompt is too long", re.IGNORECASE)
_WINDOW = re.compile(r"maximum context length (?:is|of) (\d{1,9}) tokens", re.IGNORECASE)
_ASKED = re.compile(r"(?:resulted in|requested(?: about)?) (\d{1,9}) tokens", re.IGNORECASE)


def classify(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault of an answer that is no stream. ``headers`` has lower-case names; ``body`` may be cut off."""
    wait = _retry_after(headers)
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        if body.lstrip()[:1] == b"<":  # a page comes from what stands in front of the vendor
            return Fault(Reason.EGRESS, Stage.HEADERS, retry_after=wait, upstream_code=f"http_{status}_html")
        parsed = None
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else None
    return fault_of(error, Stage.HEADERS, status=status, retry_after=wait)


def fault_of(error: object, stage: Stage, *, status: int = 0, retry_after: float | None = None) -> Fault:
    """The fault of an error object; ``status`` 0 means that it came inside a stream."""
    fields = error if isinstance(error, dict) else {}
    code, kind, message = (text_or_empty(fields.get(name)) for name in ("code", "type", "message"))
    status = status or _status_in(fields.get("code"))
    if code in BY_CODE:
        reason, name = BY_CODE[code], code
    elif status in (0, 400, 413, 422) and _TOO_LONG.search(message):
        reason, name = Reason.CONTEXT_TOO_LONG, f"http_{status}"
    elif kind in BY_TYPE:
        reason, name = BY_TYPE[kind], kind
    else:
        reason, name = _by_status(status, kind), f"http_{status}"
    hint = _sizes(message) if reason is Reason.CONTEXT_TOO_LONG else None
    return Fault(reason, stage, retry_after=retry_after, upstream_code=name, hint=hint)


def _by_status(status: int, kind: str) -> Reason:
    if status in BY_STATUS:
        return BY_STATUS[status]
    if not status:
        return Reason.BAD_REQUEST if kind == "invalid_request_error" else Reason.TRANSIENT
    return Reason.TRANSIENT if status >= 500 else Reason.PROTOCOL


def _status_in(code: object) -> int:
    """OpenRouter puts the HTTP status into ``code``."""
    return code if isinstance(code, int) and 400 <= code < 600 else 0


def _sizes(message: str) -> dict[str, int] | None:
    window, asked = _WINDOW.search(message), _ASKED.search(message)
    if not window or not asked:
        return None
    return {"request_tokens": int(asked[1]), "context_tokens": int(window[1])}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds. Only numbers: a date would need a clock."""
    for name, scale in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / scale
        except ValueError:
            continue
        if math.isfinite(seconds) and 0 <= seconds < LONGEST_WAIT:
            return seconds
    return None
