"""We are the server of ``POST /v1/responses/compact`` (see ``gateway.contracts.ServerRole``).

The body is that of a response without its options; the answer is the object ``response.compaction``. A client that
asks for a stream gets the events of an ordinary response with the one item.
"""

from __future__ import annotations

from msgspec.structs import replace

from gateway.contracts import ResponseMeta
from gateway.protocols.responses import decode
from gateway.protocols.responses.compaction import is_compaction, kept_messages, summary_request
from gateway.protocols.responses.errors import encode_error
from gateway.protocols.responses.references import all_items, expand, previous_not_found, references
from gateway.protocols.responses.summary import KEPT, SummaryStream, encode_compaction
from ir.request import Request

__all__ = [
    "NAME",
    "OUTPUT_LIMIT",
    "REASONING_BY_KEY",
    "decode_request",
    "encode_error",
    "encode_response",
    "expand",
    "previous_not_found",
    "references",
    "stream",
]

NAME = "responses"
OUTPUT_LIMIT = "max_output_tokens"
REASONING_BY_KEY = False

encode_response = encode_compaction


def decode_request(body: object) -> Request:
    """The summary turn, with the user's messages that go back beside the item in ``echo``."""
    request = decode.decode_request(body)
    if not isinstance(body, dict):
        return request
    if not is_compaction(body):
        request = summary_request(request)
    kept = kept_messages(all_items(body))
    return replace(request, echo={**request.echo, KEPT: kept})


def stream(request: Request, meta: ResponseMeta) -> SummaryStream:
    return SummaryStream(
        replace(request, echo={key: value for key, value in request.echo.items() if key != KEPT}), meta
    )
