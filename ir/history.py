"""Do calls and results of a history pair up? The checks every protocol shares; see seed rule "tool results: order".

Each decoder knows where in the caller's body a message stood, so it passes one path per message; the error names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ir.errors import invalid
from ir.request import Content, Message, ToolCall, ToolResult


def check_pairs(messages: Sequence[Message], paths: Sequence[str]) -> None:
    """Raises a 400 for an orphan, duplicate or missing tool result, or a duplicate call id.

    ``messages`` is in normal form; ``paths[i]`` is where ``messages[i]`` stood in the request.
    """
    seen: set[str] = set()
    open_calls: dict[str, str] = {}
    answered: set[str] = set()
    for message, path in zip(messages, paths, strict=True):
        if message.role == "user":
            _take_results(message, path, open_calls, answered)
        if open_calls:
            missing = next(iter(open_calls))
            raise invalid("missing_tool_result", f"{path}: tool call '{missing}' has no result", path)
        if message.role == "assistant":
            open_calls = _collect_calls(message, path, seen)
    if open_calls:
        call, path = next(iter(open_calls.items()))
        raise invalid("missing_tool_result", f"{path}: tool call '{call}' has no result", path)


def _take_results(message: Message, path: str, open_calls: dict[str, str], answered: set[str]) -> None:
    for part in message.content:
        if not isinstance(part, ToolResult):
            continue
        if part.call_id in answered:
            raise invalid("duplicate_tool_result", f"{path}: second result for tool call '{part.call_id}'", path)
        if part.call_id not in open_calls:
            raise invalid("orphan_tool_result", f"{path}: no earlier tool call has the id '{part.call_id}'", path)
        del open_calls[part.call_id]
        answered.add(part.call_id)


def _collect_calls(message: Message, path: str, seen: set[str]) -> dict[str, str]:
    calls: dict[str, str] = {}
    for part in message.content:
        if isinstance(part, ToolCall):
            if part.id in seen:
                raise invalid("duplicate_tool_call", f"{path}: the tool call id '{part.id}' is used twice", path)
            seen.add(part.id)
            calls[part.id] = path
    return calls


def merge(messages: Sequence[Message], paths: Sequence[str]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Normal form: neighbours of one role become one message, tool results first and in the order of their calls.

    The path of a merged message is that of its first part.
    """
    merged: list[Message] = []
    kept: list[str] = []
    start = 0  # of the run of one role; a run is joined once, whatever its length
    for end in range(1, len(messages) + 1):
        if end < len(messages) and messages[end].role == messages[start].role:
            continue
        run = messages[start:end]
        merged.append(run[0] if len(run) == 1 else Message(run[0].role, tuple(chain(*(m.content for m in run)))))
        kept.append(paths[start])
        start = end
    order: dict[str, int] = {}
    for index, message in enumerate(merged):
        if message.role == "assistant":
            order = {part.id: rank for rank, part in enumerate(p for p in message.content if isinstance(p, ToolCall))}
        else:
            merged[index] = Message("user", _results_first(message, order))
    return tuple(merged), tuple(kept)


def _results_first(message: Message, order: dict[str, int]) -> tuple[Content, ...]:
    results = [part for part in message.content if isinstance(part, ToolResult)]
    if not results:
        return message.content
    results.sort(key=lambda part: order.get(part.call_id, len(order)))
    return (*results, *(part for part in message.content if not isinstance(part, ToolResult)))
