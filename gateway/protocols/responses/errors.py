"""Errors as Responses callers are told them: OpenAI's own, but the prompt is called ``input`` here."""

from __future__ import annotations

from gateway.contracts import ErrorReply, JsonObject
from gateway.protocols.openai import errors
from ir.errors import ApiError

_NAMES = {"messages": "input"}


def encode_error(error: ApiError, request_id: str) -> ErrorReply:
    """The whole error answer."""
    return errors.encode_error(error, request_id, _NAMES)


def error_body(error: ApiError) -> JsonObject:
    """``{"error": {message, type, param, code}}``, which answers and streams share."""
    return errors.error_body(error, _NAMES)
