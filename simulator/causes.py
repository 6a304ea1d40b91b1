"""Why the fake upstream refuses, and how that looks on the wire: every cause of the contract, one table.

Most causes end a stream with a Connect error whose meaning sits in the Base64 ``ErrorDetails`` (the message itself
says ``Error``). Some exist only at the HTTP level; once a stream has begun those become what a proxy in the middle
would leave behind: foreign bytes, or a dropped connection.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from protobufs import agent_v1_pb2 as pb


class Form(Enum):
    """The level at which a cause shows before a stream has begun."""

    STREAM = "an end-of-stream error on a 200"
    HTTP = "an HTTP status with a Connect error as JSON"
    HTML = "an HTML page"
    PLAIN = "a 200 with the wrong content type"
    EMPTY = "a status without a body"
    CLOSE = "the connection closes without an answer"


STATUS: Mapping[str, int] = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "out_of_range": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "aborted": 409,
    "resource_exhausted": 429,
    "canceled": 499,
    "internal": 500,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}


@dataclass(frozen=True)
class Cause:
    """One way to fail. ``error`` is a number of ``ErrorCode``; without it the error carries no details."""

    name: str
    code: str = ""
    error: pb.ErrorCode | None = None
    title: str = ""
    detail: str = ""
    retryable: bool | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    form: Form = Form.STREAM
    retry_after: int | None = None

    @property
    def status(self) -> int:
        """The HTTP status of the cause where it is answered with one."""
        fixed = {Form.HTML: 403, Form.PLAIN: 200, Form.EMPTY: 464}
        return fixed.get(self.form) or STATUS.get(self.code, 502)


CAUSES: Mapping[str, Cause] = {
    cause.name: cause
    for cause in (
        Cause("token_expired", "unauthenticated", pb.ERROR_AUTH_TOKEN_EXPIRED, "Session expired", form=Form.HTTP),
        Cause("key_bad", "unauthenticated", pb.ERROR_BAD_USER_API_KEY, "Invalid User API key", form=Form.HTTP),
        Cause(
            "usage_exhausted",
            "resource_exhausted",
            pb.ERROR_PRO_USER_USAGE_LIMIT,
            "You've hit your usage limit",
            "Your usage limits will reset when your monthly cycle ends.",
            retryable=False,
        ),
        Cause("unpaid_invoice", "resource_exhausted", pb.ERROR_RATE_LIMITED, "You have an unpaid invoice", "", False),
        Cause(
            "too_many_computers",
            "resource_exhausted",
            pb.ERROR_CUSTOM_MESSAGE,
            "Too many computers.",
            "Too many computers used within the last 24 hours.",
            retryable=False,
        ),
        Cause(
            "rate_limited",
            "resource_exhausted",
            pb.ERROR_GENERIC_RATE_LIMIT_EXCEEDED,
            "Rate limited",
            "Please slow down.",
            retryable=True,
        ),
        Cause(
            "rate_limited_hint",
            "resource_exhausted",
            pb.ERROR_GENERIC_RATE_LIMIT_EXCEEDED,
            "Rate limited",
            "Please slow down.",
            retryable=True,
            form=Form.HTTP,
            retry_after=7,
        ),
        Cause("bare_resource_exhausted", "resource_exhausted"),
        Cause(
            "model_limit",
            "resource_exhausted",
            pb.ERROR_RATE_LIMITED_CHANGEABLE,
            "Model limit reached",
            "You have reached the limit of this model. Switch to Auto to go on.",
            retryable=False,
            extra={"autoSwitchToModel": "default"},
        ),
        Cause("model_not_in_plan", "permission_denied", pb.ERROR_PRO_USER_ONLY, "Not in your plan", retryable=False),
        Cause("model_unknown", "not_found", pb.ERROR_BAD_MODEL_NAME, "Model not found"),
        Cause("bad_parameter", "invalid_argument", pb.ERROR_BAD_REQUEST, "Unknown model parameter"),
        Cause("context_too_large", "invalid_argument", pb.ERROR_CONVERSATION_TOO_LONG, "Conversation too long"),
        Cause("tools_too_large", "invalid_argument", pb.ERROR_MAX_TOKENS, "Tool definitions are too large"),
        Cause("image_unsupported", "invalid_argument", pb.ERROR_FILE_UNSUPPORTED, "Unsupported image"),
        Cause("client_too_old", "failed_precondition", pb.ERROR_OUTDATED_CLIENT, "Your client is out of date"),
        Cause(
            "update_required",
            "resource_exhausted",
            pb.ERROR_GPT_4_VISION_PREVIEW_RATE_LIMIT,
            "Update Required",
            "Please update to the latest version.",
            retryable=False,
        ),
        Cause(
            "suspicious", "permission_denied", pb.ERROR_SUSPICIOUS_USAGE_BLOCKED, "Suspicious activity", retryable=False
        ),
        Cause("account_closed", "permission_denied", pb.ERROR_ACCOUNT_CLOSED, "Account closed", retryable=False),
        Cause("aborted", "canceled", pb.ERROR_USER_ABORTED_REQUEST, "User aborted request"),
        Cause("deadline", "deadline_exceeded", pb.ERROR_TIMEOUT, "Request timed out", retryable=True),
        Cause("unavailable", "unavailable", pb.ERROR_PROVIDER_ERROR, "Provider error", retryable=True),
        Cause("internal", "internal", pb.ERROR_INTERNAL, "Internal error"),
        Cause("html_403", form=Form.HTML),
        Cause("wrong_content_type", form=Form.PLAIN),
        Cause("protocol_464", form=Form.EMPTY),
        Cause("goaway", form=Form.CLOSE),
    )
}

HTML = (
    "<!DOCTYPE html><html><head><title>Attention Required!</title></head>"
    "<body><h1>Sorry, you have been blocked</h1></body></html>"
)


class Failure(Exception):
    """Ends a turn with a cause. ``label`` is what the log shows (``error:CAUSE`` or ``refused:CAUSE``)."""

    def __init__(self, cause: Cause, label: str) -> None:
        super().__init__(label)
        self.cause = cause
        self.label = label


def scripted(name: str) -> Failure:
    """A failure that somebody ordered: a script, a fault or chaos."""
    return Failure(CAUSES[name], f"error:{name}")


def refusal(reason: str, *, code: str = "invalid_argument", error: pb.ErrorCode = pb.ERROR_BAD_REQUEST) -> Failure:
    """A failure that the client earned: it broke a rule of the wire. ``reason`` goes to the log and the detail."""
    return Failure(Cause("refused", code, error, "Bad request", reason), f"refused:{reason}")


def details(cause: Cause) -> bytes:
    """The serialized ``aiserver.v1.ErrorDetails`` of a cause."""
    message = pb.ErrorDetails(error=cause.error or pb.ERROR_UNSPECIFIED, is_expected=True)
    message.details.title = cause.title
    if cause.detail:
        message.details.detail = cause.detail
    if cause.retryable is not None:
        message.details.is_retryable = cause.retryable
    return message.SerializeToString()


def error_object(cause: Cause) -> dict[str, Any]:
    """The Connect error as unary calls answer it; streams wrap it in ``{"error": …}``."""
    error: dict[str, Any] = {"code": cause.code, "message": "Error"}
    if cause.error is None:
        return error
    debug_details: dict[str, Any] = {"title": cause.title, "detail": cause.detail}
    if cause.retryable is not None:
        debug_details["isRetryable"] = cause.retryable
    if cause.extra:
        debug_details["additionalInfo"] = dict(cause.extra)
    error["details"] = [
        {
            "type": "aiserver.v1.ErrorDetails",
            "value": base64.b64encode(details(cause)).rstrip(b"=").decode(),
            "debug": {
                "error": pb.ErrorCode.Name(cause.error),
                "details": debug_details,
                "isExpected": True,
            },
        }
    ]
    return error


def end_of_stream(cause: Cause | None) -> bytes:
    """The JSON of an end-of-stream frame: ``{}`` or the error, with its retry hint as trailing metadata."""
    if cause is None:
        return b"{}"
    end: dict[str, Any] = {"error": error_object(cause)}
    if cause.retry_after is not None:
        end["metadata"] = {"retry-after": [str(cause.retry_after)]}
    return json.dumps(end, separators=(",", ":")).encode()
