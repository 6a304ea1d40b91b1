"""We are the server of OpenAI Responses: bytes of a caller in, bytes for the caller out.

The role is this module (see ``gateway.contracts.ServerRole``); each of its parts has a file of its own. Beside the
role there is what stored conversations need, in this order: ``references`` says what a body refers to, ``expand`` puts
it in and is what ``decode_request`` then takes, ``input_items`` gives the items to keep, ``Stream.final`` (or
``response_object``) the answer to keep; ``decode_page``, ``encode_items`` and ``encode_deleted`` serve what was kept.
``/v1/responses/compact`` is the role in ``compact``.
"""

from __future__ import annotations

from gateway.contracts import ResponseMeta
from gateway.protocols.responses.decode import decode_request
from gateway.protocols.responses.encode import Stream, response_object
from gateway.protocols.responses.encode import encode_response as _encode_answer
from gateway.protocols.responses.errors import encode_error
from gateway.protocols.responses.references import (
    Expanded,
    References,
    expand,
    input_items,
    previous_not_found,
    references,
)
from gateway.protocols.responses.stored import decode_page, encode_deleted, encode_items
from gateway.protocols.responses.summary import SummaryStream, encode_summary
from ir.request import Request
from ir.response import Response

__all__ = [
    "NAME",
    "OUTPUT_LIMIT",
    "REASONING_BY_KEY",
    "Expanded",
    "References",
    "decode_page",
    "decode_request",
    "encode_deleted",
    "encode_error",
    "encode_items",
    "encode_response",
    "expand",
    "input_items",
    "previous_not_found",
    "references",
    "response_object",
    "stream",
]

NAME = "responses"
OUTPUT_LIMIT = "max_output_tokens"
REASONING_BY_KEY = False
"""The request says whether thinking is shown: by asking for a summary."""


def encode_response(response: Response, request: Request, meta: ResponseMeta) -> bytes:
    """The body of a non-streamed answer. Raises a 502 when a compaction came without a summary."""
    if request.compaction:
        return encode_summary(response, request, meta)
    return _encode_answer(response, request, meta)


def stream(request: Request, meta: ResponseMeta) -> Stream | SummaryStream:
    """The encoder of one streamed answer."""
    return SummaryStream(request, meta) if request.compaction else Stream(request, meta)
