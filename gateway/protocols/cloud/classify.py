"""What an error of the Cloud Agents API means: its code before its status.

Source: the API's own list of errors. The body is ``{"error": {"code", "message"}}``; older answers are flat
(``{"code", "message"}``) or only a text (``{"error": "…"}``), and all three are read. ``upstream_code`` of a fault is a
code of the table or a status: never free text.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from ir.errors import Fault, Reason, Stage

LONGEST_WAIT = 32 * 86_400  # seconds; a longer one is a mistake of its sender

BY_CODE: Mapping[str, Reason] = {
    "validation_error": Reason.BAD_REQUEST,
    "invalid_model": Reason.MODEL_UNKNOWN,
    # What only a request that we built wrongly can meet.
    "missing_body": Reason.PROTOCOL,
    "invalid_branch_name": Reason.PROTOCOL,
    "pr_resolution_failed": Reason.PROTOCOL,
    "invalid_last_event_id": Reason.PROTOCOL,
    "artifact_not_found": Reason.PROTOCOL,
    "run_not_cancellable": Reason.PROTOCOL,
    "not_implemented": Reason.PROTOCOL,
    "unauthorized": Reason.AUTH_REVOKED,
    "api_key_not_found": Reason.AUTH_REVOKED,
    # What the account's plan, role or settings do not allow: an agent without a repository among it.
    "repository_required": Reason.FORBIDDEN,
    "repository_access": Reason.FORBIDDEN,
    "plan_required": Reason.FORBIDDEN,
    "role_forbidden": Reason.FORBIDDEN,
    "forbidden": Reason.FORBIDDEN,
    "feature_unavailable": Reason.FORBIDDEN,
    "integration_not_connected": Reason.FORBIDDEN,
    "service_account_required": Reason.FORBIDDEN,
    # An agent of ours that is not as we left it: a new one is made.
    "not_found": Reason.TRANSIENT,
    "agent_not_found": Reason.TRANSIENT,
    "run_not_found": Reason.TRANSIENT,
    "agent_archived": Reason.TRANSIENT,
    "agent_id_conflict": Reason.TRANSIENT,
    "agent_busy": Reason.CAPACITY,
    "stream_expired": Reason.CUT,
    "rate_limit_exceeded": Reason.RATE_LIMIT,
    "usage_limit_exceeded": Reason.QUOTA,
    "client_cancelled": Reason.TRANSIENT,
    "internal_error": Reason.TRANSIENT,
    "upstream_error": Reason.TRANSIENT,
    "stream_unavailable": Reason.CAPACITY,
}

BY_STATUS: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH_REVOKED,
    402: Reason.PAYMENT,
    403: Reason.FORBIDDEN,
    404: Reason.TRANSIENT,
    407: Reason.EGRESS,
    408: Reason.TIMEOUT,
    409: Reason.TRANSIENT,
    410: Reason.CUT,
    413: Reason.TOO_LARGE,
    429: Reason.RATE_LIMIT,
    499: Reason.TRANSIENT,
    501: Reason.PROTOCOL,
    503: Reason.CAPACITY,
    504: Reason.TIMEOUT,
}


def classify(status: int, headers: Mapping[str, str], body: bytes, stage: Stage = Stage.HEADERS) -> Fault:
    """The fault of an answer that is none. ``headers`` has lower-case names; ``body`` may be cut off."""
    wait = _seconds(headers.get("retry-after", ""))
    code = read_code(body)
    if code in BY_CODE:
        return Fault(BY_CODE[code], stage, retry_after=wait, upstream_code=code)
    if body.lstrip()[:1] == b"<":  # a page comes from what stands in front of the API
        return Fault(Reason.EGRESS, stage, retry_after=wait, upstream_code=f"http_{status}_html")
    reason = BY_STATUS.get(status, Reason.TRANSIENT if status >= 500 else Reason.PROTOCOL)
    return Fault(reason, stage, retry_after=wait, upstream_code=f"http_{status}")


def read_code(body: bytes) -> str:
    """The error's code in any of the three shapes; "" when there is none."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else None
    code = error.get("code") if isinstance(error, dict) else error
    return code if isinstance(code, str) else ""


def _seconds(text: str) -> float | None:
    """Only a number of seconds: a date would need a clock."""
    return float(text) if text.isdecimal() and len(text) < 8 and int(text) < LONGEST_WAIT else None
