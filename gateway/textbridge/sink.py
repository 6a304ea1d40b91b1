"""What the parser tells, and whom."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Note(StrEnum):
    """What was odd about an answer. For records and metrics: never content."""

    TRIGGER_WITHOUT_INVOKE = "trigger_without_invoke"
    BROKEN_TAG = "broken_tag"
    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    DUPLICATE_KEY = "duplicate_key"
    CALL_TOO_LARGE = "call_too_large"
    TRUNCATED_CALL = "truncated_call"
    UNCLOSED_THINKING = "unclosed_thinking"
    CALL_SUPPRESSED = "call_suppressed"
    INVENTED_RESULT = "invented_result"


class Sink(Protocol):
    """Texts are never empty. ``raw`` is how the call was written, with the white space that a call before it left."""

    def text(self, text: str) -> None: ...

    def thinking_opened(self) -> None: ...

    def thinking(self, text: str) -> None: ...

    def thinking_closed(self) -> None: ...

    def call(self, name: str, arguments: str, raw: str) -> None: ...

    def note(self, note: Note) -> None: ...
