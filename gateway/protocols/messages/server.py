"""Anthropic Messages, we are the server: see ``gateway.contracts.ServerRole``."""

from __future__ import annotations

from gateway.contracts import ResponseMeta
from gateway.protocols.messages.catalogue import encode_model, encode_models
from gateway.protocols.messages.decode import decode_count, decode_request
from gateway.protocols.messages.encode import MessagesStream, encode_response
from gateway.protocols.messages.errors import encode_error
from ir.request import Request

NAME = "messages"
OUTPUT_LIMIT = "max_tokens"
REASONING_BY_KEY = False

__all__ = [
    "NAME",
    "OUTPUT_LIMIT",
    "REASONING_BY_KEY",
    "decode_count",
    "decode_request",
    "encode_error",
    "encode_model",
    "encode_models",
    "encode_response",
    "stream",
]


def stream(request: Request, meta: ResponseMeta) -> MessagesStream:
    return MessagesStream(meta)
