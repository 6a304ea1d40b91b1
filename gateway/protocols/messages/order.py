"""Tool results directly follow the calls they answer: Anthropic's rule, in Anthropic's terms.

Neighbouring messages of one role count as one, so results may be spread over several user messages as long as
nothing else comes before the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ir.errors import ApiError, invalid
from ir.request import Content, ToolCall, ToolResult

SHOWN_ID = 64


class Turn(Struct, frozen=True):
    """One entry of ``messages``; ``index`` is its place in the caller's list."""

    index: int
    role: Literal["user", "assistant"]
    parts: tuple[Content, ...]


def check_order(turns: Sequence[Turn]) -> None:
    """Raises a 400 for a misplaced, orphan, second or missing result, or a call id that is used twice."""
    walk = _Walk()
    for turn in turns:
        if turn.role == "assistant":
            walk.ask(turn)
        else:
            walk.answer(turn)
    walk.settle()


class _Walk:
    def __init__(self) -> None:
        self._asked: int | None = None  # the last assistant message
        self._answering: int | None = None  # the first user message after it
        self._open: dict[str, None] = {}
        self._seen: set[str] = set()
        self._answered: set[str] = set()
        self._other = False  # something else than a result came after the calls

    def ask(self, turn: Turn) -> None:
        if self._open:
            place = turn.index if self._answering is None else self._answering
            raise self._broken(place, "missing_tool_result", f"'{self._first_open()}' has no result")
        self._asked, self._answering, self._other = turn.index, None, False
        for part in turn.parts:
            if not isinstance(part, ToolCall):
                continue
            if part.id in self._seen:
                problem = f"messages.{turn.index}: the tool_use id '{part.id[:SHOWN_ID]}' is used twice"
                raise invalid("duplicate_tool_call", problem, f"messages.{turn.index}")
            self._seen.add(part.id)
            self._open[part.id] = None

    def answer(self, turn: Turn) -> None:
        if self._answering is None:
            self._answering = turn.index
        for part in turn.parts:
            if isinstance(part, ToolResult):
                self._take(part.call_id, turn.index)
            else:
                self._other = True

    def settle(self) -> None:
        if not self._open:
            return
        if self._answering is not None:
            raise self._broken(self._answering, "missing_tool_result", f"'{self._first_open()}' has no result")
        path = f"messages.{self._asked}"
        raise invalid("missing_tool_result", f"{path}: tool_use '{self._first_open()}' has no tool_result", path)

    def _take(self, call: str, index: int) -> None:
        if call in self._answered:
            raise self._broken(index, "duplicate_tool_result", f"'{call[:SHOWN_ID]}' is answered twice")
        if call not in self._open:
            raise self._broken(index, "orphan_tool_result", f"no tool_use there has the id '{call[:SHOWN_ID]}'")
        if self._other:
            raise self._broken(index, "misplaced_tool_result", "")
        del self._open[call]
        self._answered.add(call)

    def _first_open(self) -> str:
        return next(iter(self._open))[:SHOWN_ID]

    def _broken(self, index: int, code: str, detail: str) -> ApiError:
        path = f"messages.{index}"
        if self._asked is None:
            return invalid(code, f"{path}: a tool_result block has no tool_use before it", path)
        rule = f"{path}: tool_result blocks must come first and answer messages.{self._asked}"
        return invalid(code, f"{rule} ({detail})" if detail else rule, path)
