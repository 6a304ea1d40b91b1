"""What can go wrong, and whose fault it is.

Two kinds of error, never mixed:

* ``ApiError`` is what a caller is told. ``Kind`` fixes status and type in every protocol (the table in
  ``encode_error`` of each protocol is proved total by a test); ``code`` is stable; the message holds names,
  counts and limits, never content.
* ``Fault`` is what an upstream did to one attempt. ``Reason`` is the classifier's vocabulary; who is to blame
  follows from the reason alone (``CULPRITS``). Failover turns the last fault of a request into an ``ApiError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any


class Culprit(StrEnum):
    """Whose fault an error is. Only the account scopes may ever touch an account."""

    CALLER = "caller"
    ACCOUNT = "account"
    ACCOUNT_MODEL = "account_model"
    EGRESS = "egress"
    UPSTREAM = "upstream"
    GATEWAY = "gateway"


class Stage(StrEnum):
    """How far an attempt had come when it failed."""

    CONNECT = "connect"
    AUTH = "auth"
    HEADERS = "headers"
    PREAMBLE = "preamble"  # the stream is open, nothing semantic came yet
    CONTENT = "content"
    END = "end"


class Reason(StrEnum):
    """Why an attempt failed: the closed list that records, metrics and the failover table use."""

    BAD_REQUEST = "bad_request"
    CONTEXT_TOO_LONG = "context_too_long"
    TOOLS_TOO_LARGE = "tools_too_large"
    TOO_LARGE = "too_large"
    IMAGE_UNSUPPORTED = "image_unsupported"
    UNSUPPORTED_PARAM = "unsupported_param"
    MODEL_UNKNOWN = "model_unknown"
    POLICY = "policy"
    CLIENT_GONE = "client_gone"
    AUTH_EXPIRED = "auth_expired"
    AUTH_REVOKED = "auth_revoked"
    FORBIDDEN = "forbidden"
    PAYMENT = "payment"
    QUOTA = "quota"
    DEVICE_LIMIT = "device_limit"
    BLOCKED = "blocked"
    ACCOUNT_CLOSED = "account_closed"
    MODEL_GATED = "model_gated"
    MODEL_LIMIT = "model_limit"
    RATE_LIMIT = "rate_limit"
    EXHAUSTED = "exhausted"  # something is used up, and the upstream does not say what
    CAPACITY = "capacity"
    TRANSIENT = "transient"
    TIMEOUT = "timeout"
    CUT = "cut"
    EMPTY = "empty"
    EGRESS = "egress"
    PROTOCOL = "protocol"
    CLIENT_OUTDATED = "client_outdated"
    BROKEN_TOOL_CALL = "broken_tool_call"
    MISSING_TOOL_CALL = "missing_tool_call"
    INVALID_OUTPUT = "invalid_output"
    INTERNAL = "internal"


CULPRITS: Mapping[Reason, Culprit] = {
    Reason.BAD_REQUEST: Culprit.CALLER,
    Reason.CONTEXT_TOO_LONG: Culprit.CALLER,
    Reason.TOOLS_TOO_LARGE: Culprit.CALLER,
    Reason.TOO_LARGE: Culprit.CALLER,
    Reason.IMAGE_UNSUPPORTED: Culprit.CALLER,
    Reason.UNSUPPORTED_PARAM: Culprit.CALLER,
    Reason.MODEL_UNKNOWN: Culprit.CALLER,
    Reason.POLICY: Culprit.CALLER,
    Reason.CLIENT_GONE: Culprit.CALLER,
    Reason.AUTH_EXPIRED: Culprit.ACCOUNT,
    Reason.AUTH_REVOKED: Culprit.ACCOUNT,
    Reason.FORBIDDEN: Culprit.ACCOUNT,
    Reason.PAYMENT: Culprit.ACCOUNT,
    Reason.QUOTA: Culprit.ACCOUNT,
    Reason.DEVICE_LIMIT: Culprit.ACCOUNT,
    Reason.BLOCKED: Culprit.ACCOUNT,
    Reason.ACCOUNT_CLOSED: Culprit.ACCOUNT,
    Reason.MODEL_GATED: Culprit.ACCOUNT_MODEL,
    Reason.MODEL_LIMIT: Culprit.ACCOUNT_MODEL,
    Reason.RATE_LIMIT: Culprit.ACCOUNT_MODEL,
    Reason.EXHAUSTED: Culprit.ACCOUNT_MODEL,
    Reason.CAPACITY: Culprit.UPSTREAM,
    Reason.TRANSIENT: Culprit.ACCOUNT_MODEL,
    Reason.TIMEOUT: Culprit.UPSTREAM,
    Reason.CUT: Culprit.UPSTREAM,
    Reason.EMPTY: Culprit.UPSTREAM,
    Reason.EGRESS: Culprit.EGRESS,
    Reason.PROTOCOL: Culprit.GATEWAY,
    Reason.CLIENT_OUTDATED: Culprit.GATEWAY,
    Reason.BROKEN_TOOL_CALL: Culprit.UPSTREAM,
    Reason.MISSING_TOOL_CALL: Culprit.UPSTREAM,
    Reason.INVALID_OUTPUT: Culprit.UPSTREAM,
    Reason.INTERNAL: Culprit.GATEWAY,
}


class Kind(Enum):
    """The rows of the error table: the value is the HTTP status (Messages answers 529 for NO_CAPACITY)."""

    INVALID_REQUEST = 400
    AUTHENTICATION = 401
    BILLING = 402
    PERMISSION = 403
    NOT_FOUND = 404
    METHOD_NOT_ALLOWED = 405
    REQUEST_TIMEOUT = 408
    CONFLICT = 409
    TOO_LARGE = 413
    UNSUPPORTED_MEDIA = 415
    RATE_LIMIT = 429
    INTERNAL = 500
    UPSTREAM = 502
    NO_CAPACITY = 503
    TIMEOUT = 504


class ApiError(Exception):
    """An answer for the caller, in no protocol yet.

    ``param`` is the field path in the notation of the caller's protocol; ``retry_after`` is in seconds;
    ``retryable`` False makes the edge send ``x-should-retry: false``; ``details`` is only for protocols whose
    clients act on structured details.
    """

    def __init__(
        self,
        kind: Kind,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
        culprit: Culprit = Culprit.CALLER,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.details = details
        self.culprit = culprit

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later: never for a caller's mistake, except a pace limit."""
        return self.kind.value >= 500 or self.kind in (Kind.RATE_LIMIT, Kind.REQUEST_TIMEOUT, Kind.CONFLICT)


def invalid(code: str, message: str, param: str | None = None) -> ApiError:
    """A 400: the request itself is wrong."""
    return ApiError(Kind.INVALID_REQUEST, code, message, param=param)


class Fault(Exception):
    """One attempt failed. ``upstream_code`` is the upstream's own enum name or status, never its text."""

    def __init__(
        self,
        reason: Reason,
        stage: Stage,
        *,
        retry_after: float | None = None,
        upstream_code: str = "",
        hint: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(f"{reason.value} at {stage.value}")
        self.reason = reason
        self.stage = stage
        self.retry_after = retry_after
        self.upstream_code = upstream_code
        self.hint = hint

    @property
    def culprit(self) -> Culprit:
        return CULPRITS[self.reason]

    @property
    def may_pass(self) -> bool:
        """Whether neither the request nor the account's right to make it was wrong: the same may work in a moment."""
        return self.culprit in (Culprit.UPSTREAM, Culprit.EGRESS) or self.reason is Reason.TRANSIENT
