"""Anthropic Messages, we are the client: see ``gateway.contracts.ClientRole``."""

from __future__ import annotations

from gateway.protocols.messages.faults import classify
from gateway.protocols.messages.incoming import MessagesReader
from gateway.protocols.messages.outgoing import encode_request, request_body

__all__ = ["classify", "encode_request", "request_body", "stream"]


def stream() -> MessagesReader:
    return MessagesReader()
