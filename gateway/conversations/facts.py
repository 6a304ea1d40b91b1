"""What happened in a conversation, as facts that are only ever added; and what follows from them. Pure.

A fact's payload is the wire item it came as (a Responses item), which this room does not read beyond its ``type``,
``role`` and ids: it stores and projects, and never runs a turn. Status and prompt are derived from facts alone, so a
process that dies between two writes leaves nothing that has to be repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

Item = Mapping[str, Any]


class Kind(StrEnum):
    USER_MESSAGE = "user_message"
    PROMPT_CONTEXT = "prompt_context"
    ASSISTANT_TEXT = "assistant_text"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    MODEL_MESSAGE = "model_message"  # anything else a client brought along, kept as it came
    COMPACTED_SUMMARY = "compacted_summary"
    METADATA = "metadata"


class Ending(StrEnum):
    """How a turn ended: the ``ending`` of its METADATA fact."""

    COMPLETED = "turn_completed"
    INCOMPLETE = "turn_incomplete"
    PROVIDER_ERROR = "provider_error"
    FAILED = "failed"
    CANCELED = "canceled"


class Status(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    WAITING_TOOL = "waiting_tool"
    COMPLETED = "completed"
    PROVIDER_ERROR = "provider_error"
    FAILED = "failed"
    CANCELED = "canceled"


class Fact(Struct, frozen=True):
    """``key`` makes appending idempotent: a fact whose key is known is skipped. ``item_id`` is the wire item's own."""

    seq: int
    key: str
    kind: Kind
    payload: Item
    tool_call_id: str = ""
    item_id: str = ""


_KINDS: Mapping[str, Kind] = {
    "reasoning": Kind.REASONING,
    "function_call": Kind.TOOL_CALL,
    "custom_tool_call": Kind.TOOL_CALL,
    "local_shell_call": Kind.TOOL_CALL,
    "tool_search_call": Kind.TOOL_CALL,
    "function_call_output": Kind.TOOL_RESULT,
    "custom_tool_call_output": Kind.TOOL_RESULT,
    "local_shell_call_output": Kind.TOOL_RESULT,
    "tool_search_output": Kind.TOOL_RESULT,
    "compaction": Kind.COMPACTED_SUMMARY,
}
_ROLES: Mapping[str, Kind] = {
    "user": Kind.USER_MESSAGE,
    "assistant": Kind.ASSISTANT_TEXT,
    "system": Kind.PROMPT_CONTEXT,
    "developer": Kind.PROMPT_CONTEXT,
}
_STATUSES: Mapping[str, Status] = {
    Ending.COMPLETED: Status.COMPLETED,
    Ending.INCOMPLETE: Status.COMPLETED,
    Ending.PROVIDER_ERROR: Status.PROVIDER_ERROR,
    Ending.FAILED: Status.FAILED,
    Ending.CANCELED: Status.CANCELED,
}


def record_turn(key: str, brought: Sequence[Item], made: Sequence[Item], ending: Ending) -> list[Fact]:
    """The facts of one turn, in order: what the caller brought, what the model made, how it ended."""
    facts = [_fact(seq, f"{key}:{seq}", item) for seq, item in enumerate((*brought, *made))]
    end = {"ending": ending.value, "brought": len(brought)}
    return [*facts, Fact(len(facts), f"{key}:end", Kind.METADATA, end)]


def derive_status(facts: Iterable[Fact]) -> Status:
    """Terminal metadata wins; else an open tool call; else any activity; else idle."""
    open_calls: set[str] = set()
    active = False
    for fact in facts:
        match fact.kind:
            case Kind.METADATA if fact.payload.get("ending") in _STATUSES:
                return _STATUSES[fact.payload["ending"]]
            case Kind.TOOL_CALL:
                open_calls.add(fact.tool_call_id)
            case Kind.TOOL_RESULT:
                open_calls.discard(fact.tool_call_id)
            case _:
                pass
        active = True
    if open_calls:
        return Status.WAITING_TOOL
    return Status.RUNNING if active else Status.IDLE


def project(facts: Iterable[Fact]) -> list[Item]:
    """The items that the next turn builds on: everything from the last compaction on, metadata left out.

    Instructions of system and developer stay in force when they stood before a compaction.
    """
    items: list[Item] = []
    for fact in facts:
        if fact.kind is Kind.METADATA:
            continue
        if fact.kind is Kind.COMPACTED_SUMMARY:
            items = [item for item in items if item.get("role") in ("system", "developer")]
        items.append(fact.payload)
    return items


def brought_items(facts: Sequence[Fact]) -> list[Item]:
    """What the caller brought to a turn: its ``input_items``."""
    items = [fact for fact in facts if fact.kind is not Kind.METADATA]
    count = next((fact.payload["brought"] for fact in facts if fact.kind is Kind.METADATA), len(items))
    return [fact.payload for fact in items[:count]]


def _fact(seq: int, key: str, item: Item) -> Fact:
    kind = _KINDS.get(str(item.get("type", "message"))) or (
        _ROLES.get(str(item.get("role")), Kind.MODEL_MESSAGE) if item.get("type", "message") == "message" else None
    )
    return Fact(
        seq,
        key,
        kind or Kind.MODEL_MESSAGE,
        item,
        tool_call_id=_text(item.get("call_id")),
        item_id=_text(item.get("id")),
    )


def _text(value: object) -> str:
    """An id as a column holds it; nobody can refer to one that no column holds."""
    return value[:128] if isinstance(value, str) and "\0" not in value else ""
