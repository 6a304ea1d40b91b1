"""We are the client of a Responses upstream (see ``gateway.contracts.ClientRole``)."""

from __future__ import annotations

from gateway.protocols.openai.classify import classify
from gateway.protocols.responses.incoming import Stream
from gateway.protocols.responses.outgoing import encode_request, request_body

__all__ = ["NAME", "classify", "encode_request", "request_body", "stream"]

NAME = "responses"


def stream() -> Stream:
    """The decoder of one streamed answer."""
    return Stream()
