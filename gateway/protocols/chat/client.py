"""We are the client of a Chat Completions upstream (see ``gateway.contracts.ClientRole``)."""

from __future__ import annotations

from gateway.protocols.chat.incoming import Stream
from gateway.protocols.chat.outgoing import encode_request, request_body
from gateway.protocols.openai.classify import classify

__all__ = ["NAME", "classify", "encode_request", "request_body", "stream"]

NAME = "chat"


def stream() -> Stream:
    """The decoder of one streamed answer."""
    return Stream()
