"""We are the server of Chat Completions: bytes of a caller in, bytes for the caller out.

The role is this module (see ``gateway.contracts.ServerRole``); each of its parts has a file of its own.
"""

from __future__ import annotations

from gateway.contracts import ResponseMeta
from gateway.protocols.chat.catalogue import encode_model, encode_models
from gateway.protocols.chat.decode import decode_request
from gateway.protocols.chat.encode import Stream, encode_response
from gateway.protocols.openai.errors import encode_error
from ir.request import Request

__all__ = [
    "NAME",
    "OUTPUT_LIMIT",
    "REASONING_BY_KEY",
    "decode_request",
    "encode_error",
    "encode_model",
    "encode_models",
    "encode_response",
    "stream",
]

NAME = "chat"
OUTPUT_LIMIT = "max_tokens"
REASONING_BY_KEY = True
"""Chat has no way to ask for thinking to be shown, so the key's policy decides."""


def stream(request: Request, meta: ResponseMeta) -> Stream:
    """The encoder of one streamed answer."""
    return Stream(request, meta)
