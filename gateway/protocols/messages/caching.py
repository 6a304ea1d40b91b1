"""Prompt cache breakpoints of a Messages body: ``cache_control`` on tools, on the system prompt and in the messages.

A caller's own are kept for an upstream of its protocol, where they stood. ``mark`` sets those of a caller that has
none, or could not say so in its protocol: at most four, which is as many as Anthropic takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.wire.json import is_writable
from ir.request import Breakpoint, Content, Message

FIELD = "cache_control"
_EPHEMERAL = {"type": "ephemeral"}


def control_of(block: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The block's own breakpoint; None also for what is none."""
    control = block.get(FIELD)
    return control if isinstance(control, dict) and control and is_writable(control) else None


def locate(messages: Sequence[Message], marked: Sequence[tuple[Content, Mapping[str, Any]]]) -> Iterator[Breakpoint]:
    """Where the marked parts stand in the normal form, told by identity: equal parts are not the same."""
    if not marked:
        return
    controls = {id(part): control for part, control in marked}
    for index, message in enumerate(messages):
        for number, part in enumerate(message.content):
            control = controls.get(id(part))
            if control is not None:
                yield Breakpoint("messages", control, index, number)


def locate_system(value: object) -> Iterator[Breakpoint]:
    """Of a checked ``system``: ``index`` counts the characters of the joined prompt up to the breakpoint."""
    if not isinstance(value, list):
        return
    length = 0
    for block in value:
        if not block["text"]:
            continue
        length += len(block["text"]) + (2 if length else 0)
        control = control_of(block)
        if control is not None:
            yield Breakpoint("system", control, length)


def split_system(text: str, breakpoints: Sequence[Breakpoint]) -> str | list[dict[str, Any]]:
    """The system prompt as text blocks that end where its breakpoints are."""
    blocks: list[dict[str, Any]] = []
    start = 0
    for mark in breakpoints:
        if mark.place == "system" and start < mark.index <= len(text):
            piece = text[start : mark.index].removeprefix("\n\n" if blocks else "")
            blocks.append({"type": "text", "text": piece, FIELD: mark.control})
            start = mark.index
    rest = text[start:].removeprefix("\n\n" if blocks else "")
    if not blocks:
        return text
    return [*blocks, {"type": "text", "text": rest}] if rest else blocks


def mark(body: dict[str, Any]) -> None:
    """Breakpoints after the last tool, the system prompt, the history before the newest message, and all messages."""
    if body.get("tools"):
        body["tools"][-1][FIELD] = _EPHEMERAL
    if isinstance(body.get("system"), str):
        body["system"] = [{"type": "text", "text": body["system"], FIELD: _EPHEMERAL}]
    for message in body["messages"][-2:]:
        message["content"][-1][FIELD] = _EPHEMERAL
