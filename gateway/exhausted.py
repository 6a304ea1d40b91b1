"""What a caller is told when the last attempt failed: one row for each reason, proved total by a test.

An account's trouble is never shown as the caller's: a refused credential is a 502, not a 401. No upstream text, account
name or host gets in.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from accounts.leases import Refused, Shortage
from ir.errors import CULPRITS, ApiError, Culprit, Fault, Kind, Reason


class Row(Struct, frozen=True):
    kind: Kind
    code: str
    message: str
    retry_after: float | None = None


ROWS: Mapping[Reason, Row] = {
    Reason.BAD_REQUEST: Row(Kind.INVALID_REQUEST, "upstream_rejected_request", "The upstream refused the request."),
    Reason.CONTEXT_TOO_LONG: Row(
        Kind.INVALID_REQUEST, "context_length_exceeded", "prompt is too long for the context window of the model"
    ),
    Reason.TOOLS_TOO_LARGE: Row(
        Kind.INVALID_REQUEST, "tools_too_large", "The tool definitions are too large for the upstream."
    ),
    Reason.TOO_LARGE: Row(Kind.TOO_LARGE, "request_too_large", "The request is too large for the upstream."),
    Reason.IMAGE_UNSUPPORTED: Row(
        Kind.INVALID_REQUEST, "image_unsupported", "The upstream does not accept one of the images."
    ),
    Reason.UNSUPPORTED_PARAM: Row(
        Kind.INVALID_REQUEST, "unsupported_parameter", "The model does not take one of the parameters."
    ),
    Reason.MODEL_UNKNOWN: Row(Kind.NOT_FOUND, "model_not_found", "The upstream does not know the requested model."),
    Reason.POLICY: Row(Kind.INVALID_REQUEST, "content_policy", "The upstream refused the content of the request."),
    Reason.CLIENT_GONE: Row(Kind.REQUEST_TIMEOUT, "client_gone", "The connection was closed."),
    Reason.AUTH_EXPIRED: Row(Kind.UPSTREAM, "upstream_auth_failed", "The upstream did not accept the gateway."),
    Reason.AUTH_REVOKED: Row(Kind.UPSTREAM, "upstream_auth_failed", "The upstream did not accept the gateway."),
    Reason.FORBIDDEN: Row(Kind.UPSTREAM, "upstream_forbidden", "The upstream did not allow the request."),
    Reason.PAYMENT: Row(Kind.NO_CAPACITY, "no_capacity", "No account can serve the request now.", 60),
    Reason.QUOTA: Row(Kind.RATE_LIMIT, "rate_limit_exceeded", "The quota of the pool is used up for now.", 60),
    Reason.DEVICE_LIMIT: Row(Kind.NO_CAPACITY, "no_capacity", "No account can serve the request now.", 60),
    Reason.BLOCKED: Row(Kind.NO_CAPACITY, "no_capacity", "No account can serve the request now.", 60),
    Reason.ACCOUNT_CLOSED: Row(Kind.NO_CAPACITY, "no_capacity", "No account can serve the request now.", 60),
    Reason.MODEL_GATED: Row(Kind.NO_CAPACITY, "no_capacity", "No account can serve this model now.", 60),
    Reason.MODEL_LIMIT: Row(Kind.RATE_LIMIT, "rate_limit_exceeded", "The pool's limit for this model is reached.", 30),
    Reason.RATE_LIMIT: Row(Kind.RATE_LIMIT, "rate_limit_exceeded", "The pool's rate limit is reached.", 5),
    Reason.EXHAUSTED: Row(Kind.RATE_LIMIT, "rate_limit_exceeded", "The pool's rate limit is reached.", 60),
    Reason.CAPACITY: Row(Kind.NO_CAPACITY, "upstream_overloaded", "The upstream has no capacity now.", 5),
    Reason.TRANSIENT: Row(Kind.UPSTREAM, "upstream_error", "The upstream failed."),
    Reason.TIMEOUT: Row(Kind.TIMEOUT, "timeout", "The upstream did not answer in time."),
    Reason.CUT: Row(Kind.UPSTREAM, "upstream_incomplete", "The upstream broke off its answer."),
    Reason.EMPTY: Row(Kind.UPSTREAM, "upstream_empty_response", "The upstream gave an empty answer."),
    Reason.EGRESS: Row(Kind.UPSTREAM, "upstream_unreachable", "The upstream cannot be reached from here.", 30),
    Reason.PROTOCOL: Row(Kind.UPSTREAM, "upstream_protocol_error", "The upstream's answer was not understood."),
    Reason.CLIENT_OUTDATED: Row(
        Kind.UPSTREAM, "upstream_protocol_error", "The upstream asks for a newer client; the operator was told."
    ),
    Reason.BROKEN_TOOL_CALL: Row(
        Kind.UPSTREAM, "upstream_invalid_tool_arguments", "The model made a tool call that is not valid."
    ),
    Reason.MISSING_TOOL_CALL: Row(
        Kind.UPSTREAM, "upstream_missing_tool_call", "The model did not make the tool call that was required."
    ),
    Reason.INVALID_OUTPUT: Row(
        Kind.UPSTREAM, "structured_output_invalid", "The model gave no answer of the form that was asked for."
    ),
    Reason.INTERNAL: Row(Kind.INTERNAL, "internal_error", "The gateway failed."),
}


def explain(fault: Fault, soonest: float | None = None) -> ApiError:
    """The caller's answer for a request whose last attempt ended with ``fault``. ``soonest``: seconds until an account
    can serve again, where that is known; without it the upstream's hint counts, or else the row's guess."""
    row = ROWS[fault.reason]
    wait = next((known for known in (soonest, fault.retry_after, row.retry_after) if known is not None), None)
    needs_wait = row.kind in (Kind.RATE_LIMIT, Kind.NO_CAPACITY)
    return ApiError(
        row.kind, row.code, row.message, retry_after=wait if needs_wait else None, culprit=CULPRITS[fault.reason]
    )


def refuse(refused: Refused, *, pace: bool = False) -> ApiError:
    """The answer when no slot was to be had: the class of the reason, never an account. ``pace``: all accounts rest
    because they were asked too much."""
    if refused.shortage in _LIMITS:
        return ApiError(
            Kind.RATE_LIMIT, "concurrency_exceeded",
            f"{_LIMITS[refused.shortage]} has as many requests running as it may.", retry_after=1,
        )  # fmt: skip
    wait = refused.soonest if refused.soonest is not None else 1
    if pace and refused.shortage is Shortage.COOLED:
        return ApiError(
            Kind.RATE_LIMIT, "rate_limit_exceeded", "The pool's rate limit is reached.",
            retry_after=wait, culprit=Culprit.ACCOUNT_MODEL,
        )  # fmt: skip
    return ApiError(
        Kind.NO_CAPACITY, "no_capacity", f"No account is available: {_SHORTAGES[refused.shortage]}.",
        retry_after=wait, culprit=Culprit.GATEWAY,
    )  # fmt: skip


_LIMITS = {
    Shortage.KEY_BUSY: "This API key",
    Shortage.MEMBER_BUSY: "The owner of this API key",
    Shortage.TEAM_BUSY: "The team of this API key",
}
_SHORTAGES = {
    Shortage.FULL: "every account is busy",
    Shortage.IN_LINE: "every account is busy, and earlier requests are waiting",
    Shortage.LINE_FULL: "every account is busy, and too many requests are waiting",
    Shortage.SHARE: "every account is busy, and the team has its share of them",
    Shortage.COOLED: "every account is resting",
    Shortage.NO_ACCOUNT: "every account is resting",
}
