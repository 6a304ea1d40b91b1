"""The response object around the output: what it repeats of the request, its status and its usage.

Everything that stays the same through a stream is written once and reused in its three events; what changes follows
it. Source: OpenAI's Responses reference, "The response object".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.contracts import JsonObject, ResponseMeta
from ir.errors import ApiError, Kind
from ir.events import FinishReason, Unified
from ir.request import Request
from ir.usage import Usage

DEFAULTS: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}
INCOMPLETE: Mapping[Unified, str | None] = {
    Unified.LENGTH: "max_output_tokens",
    Unified.CONTEXT_FULL: "max_output_tokens",
    Unified.CONTENT_FILTER: "content_filter",
    Unified.REFUSAL: "content_filter",
    Unified.PAUSE: None,
}
"""The reason of every end that is not ``completed``."""

FAILURES: Mapping[Kind, str] = {
    Kind.INVALID_REQUEST: "invalid_prompt",
    Kind.RATE_LIMIT: "rate_limit_exceeded",
    Kind.BILLING: "insufficient_quota",
}
OWN_CODES = ("context_length_exceeded",)
"""Codes that clients act on, though the reference does not list them for a failed response."""


def response_id(meta: ResponseMeta) -> str:
    return f"resp_{meta.response_id}"


def envelope(request: Request, meta: ResponseMeta) -> JsonObject:
    """The part of the response object that never changes."""
    return {
        "id": response_id(meta),
        "object": "response",
        "created_at": meta.created,
        "model": meta.model,
        "background": False,
        "truncation": "disabled",
        **DEFAULTS,
        **request.echo,
        "text": {**DEFAULTS["text"], **request.echo.get("text", {})},
    }


def progress(
    status: str,
    output: Sequence[JsonObject] = (),
    usage: JsonObject | None = None,
    error: JsonObject | None = None,
    details: JsonObject | None = None,
) -> JsonObject:
    """The part that does."""
    return {"status": status, "error": error, "incomplete_details": details, "output": list(output), "usage": usage}


def outcome(reason: FinishReason, output: Sequence[JsonObject], usage: JsonObject) -> JsonObject:
    """``progress`` of an answer that ended by itself."""
    if reason.unified not in INCOMPLETE:
        return progress("completed", output, usage)
    return progress("incomplete", output, usage, details={"reason": INCOMPLETE[reason.unified]})


def encode_usage(usage: Usage, estimated_input: int) -> JsonObject:
    """Every counter is required by the clients' types, so what is not known is 0 here."""
    prompt = estimated_input if usage.input_uncached is None and not usage.input_total else usage.input_total
    output = usage.output or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": prompt + output,
    }


def failure(error: ApiError) -> JsonObject:
    """The ``error`` of a failed response; its codes are a list of their own."""
    code = error.code if error.code in OWN_CODES else FAILURES.get(error.kind, "server_error")
    return {"code": code, "message": error.message}
