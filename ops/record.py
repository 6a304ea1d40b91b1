"""What is kept of a request: counts, sizes, enums and ids. By its types it cannot hold content. Pure.

One ``Record`` per admitted request. It travels as JSON in a Redis stream (written in the closing round trip) and
becomes a ``RequestRecord`` row; the same struct, saved at admission, is what the reaper turns into ``lost``.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct


class Outcome(StrEnum):
    OK = "ok"
    CLIENT_ERROR = "client_error"  # admitted, then refused for the caller's fault
    REJECTED = "rejected"  # pace, quota or capacity
    UPSTREAM_ERROR = "upstream_error"
    INTERRUPTED = "interrupted"  # an error after the commit point
    CLIENT_GONE = "client_gone"
    INTERNAL_ERROR = "internal_error"
    LOST = "lost"  # the process vanished


class Structured(StrEnum):
    """What became of an answer that was to be JSON of some form."""

    VALID = "valid"
    MENDED = "mended"  # at the second try
    INVALID = "invalid"
    UNCHECKED = "unchecked"  # a tool call, cut short, or no answer at all


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One try on one account. ``reason`` "" means it served; ``at_ms`` counts from the request's start; ``resumed``: it
    went on with a run that was kept for tool results."""

    account_id: int
    transport: str
    at_ms: int
    took_ms: int = 0
    stage: str = ""
    reason: str = ""
    culprit: str = ""
    upstream_code: str = ""
    cooldown_s: float = 0
    resumed: bool = False


class Record(Struct, omit_defaults=True, kw_only=True):
    """Times are Unix seconds and milliseconds; sizes bytes; tokens None when nobody knows them."""

    request_id: str
    started_at: float
    protocol: str
    endpoint: str
    team_id: int | None = None
    key_id: int | None = None
    key_prefix: str = ""  # the key's public id
    client_request_id: str = ""
    client_ip: str = ""
    client: str = ""  # product token of the user agent, from a closed list
    model: str = ""
    upstream_model: str = ""
    stream: bool = False
    process: str = ""
    account_id: int | None = None
    group_id: int | None = None  # by which the team may use the account
    transport: str = ""
    outcome: str = ""
    status: int = 0
    code: str = ""
    reason: str = ""
    culprit: str = ""
    stage: str = ""
    finish: str = ""
    committed: bool = False
    in_stream_error: bool = False  # the caller saw 200 and an error behind it
    duration_ms: int = 0
    body_ms: int = 0  # until the request's body was there
    overhead_ms: int = 0  # from then to the first upstream call, the wait for a slot included
    wait_ms: int = 0  # for slots
    first_token_ms: int | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    message_count: int = 0
    tool_count: int = 0
    schema_bytes: int = 0
    image_count: int = 0
    image_bytes: int = 0
    prompt_bytes: int = 0
    tool_choice: str = ""
    tool_choice_unsatisfied: bool = False  # answered with text where a call was demanded
    tool_call_count: int = 0
    summary: str = ""  # roles and part types with counts, nothing else
    ignored: tuple[str, ...] = ()
    budget: str = ""
    budget_limit: int | None = None
    budget_actual: int | None = None
    input_estimate: int = 0  # our own count of the prompt, to be held against ``input_tokens``
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_source: str = ""
    structured: str = ""  # "" when no form was asked for
    attempts: tuple[Attempt, ...] = ()


encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Record)


def decode(data: bytes) -> Record:
    """Raises ``msgspec.ValidationError`` for bytes that are no record."""
    return _decoder.decode(data)
