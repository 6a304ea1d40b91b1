"""Errors of the fake Cloud Agents API: the causes as it puts them, and its own refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import web

from simulator.causes import Cause, Form
from simulator.faces import http

ERRORS: Mapping[str, tuple[int, str]] = {
    "token_expired": (401, "unauthorized"),
    "key_bad": (401, "api_key_not_found"),
    "usage_exhausted": (429, "usage_limit_exceeded"),
    "unpaid_invoice": (403, "plan_required"),
    "too_many_computers": (403, "role_forbidden"),
    "rate_limited": (429, "rate_limit_exceeded"),
    "rate_limited_hint": (429, "rate_limit_exceeded"),
    "bare_resource_exhausted": (429, "rate_limit_exceeded"),
    "model_limit": (429, "usage_limit_exceeded"),
    "model_not_in_plan": (403, "plan_required"),
    "model_unknown": (400, "invalid_model"),
    "bad_parameter": (400, "invalid_model"),
    "context_too_large": (400, "validation_error"),
    "tools_too_large": (400, "validation_error"),
    "image_unsupported": (400, "validation_error"),
    "client_too_old": (501, "not_implemented"),
    "update_required": (501, "not_implemented"),
    "suspicious": (403, "role_forbidden"),
    "account_closed": (401, "api_key_not_found"),
    "aborted": (499, "client_cancelled"),
    "deadline": (502, "upstream_error"),
    "unavailable": (503, "stream_unavailable"),
    "internal": (500, "internal_error"),
}
"""What has no row here has a form of its own at the HTTP level."""


class Refusal(Exception):
    """The client broke a rule of the API, or asked for what is not there."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason

    def answer(self) -> web.Response:
        return _error(self.status, self.code, {})


def invalid(reason: str) -> Refusal:
    return Refusal(400, "validation_error", reason)


def error_of(cause: Cause) -> tuple[int, str]:
    """Status and code."""
    return ERRORS.get(cause.name, (502, "upstream_error"))


def answer(request: web.Request, cause: Cause) -> web.Response:
    """A cause in place of an answer."""
    if cause.form not in (Form.STREAM, Form.HTTP):
        return http.answer(request, cause)
    status, code = error_of(cause)
    headers = {"Retry-After": str(cause.retry_after)} if cause.retry_after is not None else {}
    return _error(status, code, headers)


def _error(status: int, code: str, headers: Mapping[str, str]) -> web.Response:
    body = json.dumps({"error": {"code": code, "message": "Error"}}).encode()
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")
