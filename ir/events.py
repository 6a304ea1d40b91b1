"""What an upstream says, in the only order allowed: see ``ir.grammar``.

``ResponseStart (PartStart PartDelta* PartEnd)* Finish``; parts never interleave. Events are small frozen structs
because one is made for every chunk of every stream.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from ir.extras import NO_EXTRAS, Extras
from ir.usage import Usage


class PartKind(StrEnum):
    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"


class Unified(StrEnum):
    """Why a turn ended, in one word for all vendors. A turn with a tool call is always TOOL_CALLS."""

    STOP = "stop"
    STOP_SEQUENCE = "stop_sequence"
    LENGTH = "length"
    CONTEXT_FULL = "context_full"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"


class FinishReason(Struct, frozen=True):
    """``raw`` is the vendor's own word ("" when we ended the turn); ``stop_sequence`` the text that matched."""

    unified: Unified
    raw: str = ""
    stop_sequence: str | None = None


class ResponseStart(Struct, frozen=True, gc=False):
    """The upstream accepted the turn. ``upstream_id`` is the vendor's id of the response, "" when there is none."""

    upstream_id: str = ""
    extras: Extras = NO_EXTRAS


class PartStart(Struct, frozen=True, gc=False):
    """``call_id`` and ``name`` are set for tool calls only."""

    kind: PartKind
    call_id: str = ""
    name: str = ""


class PartDelta(Struct, frozen=True, gc=False):
    """Text, reasoning text, or a piece of a tool call's arguments (JSON text). Never empty."""

    text: str


class PartEnd(Struct, frozen=True, gc=False):
    """``signature`` belongs to a reasoning part of an upstream that signs its thinking."""

    signature: str = ""


class Finish(Struct, frozen=True):
    """The one regular end of a stream. A stream without it failed. ``extras`` are those that came after the start."""

    reason: FinishReason
    usage: Usage = Usage()
    extras: Extras = NO_EXTRAS


Event = ResponseStart | PartStart | PartDelta | PartEnd | Finish
