"""One attempt's answer: the text of the model → events in the order of ``ir.grammar``, by the rules of the turn's plan.

A text part always holds something to read: white space waits until text follows it, and is dropped before a call, after
the last one, and where there is nothing else. After a call the next text is looked at before it goes out, because
models like to invent the result of their own call: then, or at any text where the plan says so, or after the first call
where the caller takes one at a time, the turn is over and the upstream need not be heard out.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from gateway.contracts import DEFAULT_POLICY, Policy, UnclosedThinking
from gateway.textbridge import plan
from gateway.textbridge.parser import Parser
from gateway.textbridge.sink import Note
from gateway.textbridge.tape import SPACE
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Request, ToolCall

INVENTED = "<tool_result"


class Bridge:
    """For one attempt. Once ``done``, ``Finish`` was given and the upstream should be cancelled.

    ``trigger`` is the one of the prompt. ``thinking``: the model was asked to think aloud; ``exposed``: the caller is
    shown thinking. ``salt`` makes call ids differ where triggers might not. ``notes`` counts what was odd.
    """

    def __init__(
        self,
        request: Request,
        trigger: str,
        policy: Policy = DEFAULT_POLICY,
        *,
        thinking: bool = False,
        exposed: bool = False,
        salt: str = "",
    ) -> None:
        self.done = False
        self.calls = 0
        self.notes: Counter[Note] = Counter()
        request = plan.demand(request, policy)
        self._plan = plan.make(request, policy)
        self._parser = Parser(self, trigger if self._plan.listens else "", self._plan.known, thinking=thinking)
        self._ids = _Ids(request, f"{salt}/{trigger}")
        self._unclosed = UnclosedThinking.THINKING if exposed else policy.unclosed_thinking
        self._events: list[Event] = []
        self._started = False
        self._open: PartKind | None = None
        self._blank: list[str] = []  # white space that waits for text
        self._weighing = False  # the last thing was a call: what follows may be an invented result
        self._lead = ""  # the beginning of what follows, while that is not decided
        self._said = False
        self._thought: list[str] = []  # of the thinking block that is open

    def feed(self, text: str) -> list[Event]:
        """Text of the model, cut anywhere. May be empty."""
        if not self.done:
            self._parser.feed(text)
        return self._give()

    def think(self, text: str) -> list[Event]:
        """Thinking that the upstream told apart by itself."""
        if text and not self.done:
            self.thinking(text)
            self._thought.clear()
        return self._give()

    def close(self, finish: Finish) -> list[Event]:
        """The regular end, with the upstream's reason and usage. Nothing comes after ``done``."""
        if not self.done:
            self._parser.close()
            self._settle_lead()
            self._settle_thinking()
        if not self.done:
            if self._open is PartKind.TEXT:
                self._write_blank()
            self._finish(finish)
        return self._give()

    # What the parser tells

    def text(self, text: str) -> None:
        if self._weighing:
            text = self._weigh(text)
        if self.done or not text:
            return
        body = text.rstrip(SPACE)
        blank = text[len(body) :]
        if body:
            self._start_part(PartKind.TEXT)
            self._said = True
            if self._blank:
                body = "".join(self._blank) + body
                self._blank.clear()
            self._events.append(PartDelta(body))
        if blank:
            self._blank.append(blank)

    def thinking_opened(self) -> None:
        self._thought.clear()

    def thinking(self, text: str) -> None:
        self._settle_lead()
        if self.done:
            return
        if self._open is PartKind.TEXT:
            self._write_blank()
        self._start_part(PartKind.REASONING)
        self._events.append(PartDelta(text))
        if self._unclosed is not UnclosedThinking.THINKING:
            self._thought.append(text)

    def thinking_closed(self) -> None:
        self._thought.clear()

    def call(self, name: str, arguments: str, raw: str) -> None:
        self._settle_lead()
        if self.done:
            return
        self._weighing = True
        if name not in self._plan.counted:
            self.note(Note.CALL_SUPPRESSED)
            return
        self._blank.clear()
        self._end_part()
        self._start()
        self._events += (PartStart(PartKind.TOOL_CALL, self._ids.next(), name), PartDelta(arguments), PartEnd())
        self.calls += 1
        if self._plan.single:
            self._stop()

    def note(self, note: Note) -> None:
        self.notes[note] += 1

    # After a call

    def _weigh(self, text: str) -> str:
        """What of the text after a call may go on. Nothing while it may yet become an invented result."""
        lead = self._lead + (text if self._lead else text.lstrip(SPACE))
        if not self._lead and len(lead) < len(text):
            self._blank.append(text[: len(text) - len(lead)])
        if len(lead) < len(INVENTED) and INVENTED.startswith(lead):
            self._lead = lead
            return ""
        if lead.startswith(INVENTED):
            self.note(Note.INVENTED_RESULT)
            self._stop()
        elif self._plan.stops and self.calls:
            self._stop()
        self._weighing, self._lead = False, ""
        return lead

    def _settle_lead(self) -> None:
        """Something else follows: the beginning that was held back is all there is of it."""
        lead, self._lead = self._lead, ""
        self._weighing = self._weighing and not lead
        if lead and self._plan.stops and self.calls:
            self._stop()
        elif lead:
            self.text(lead)

    def _settle_thinking(self) -> None:
        """Thinking that never ended, where the caller would otherwise get nothing, or wants it as text."""
        thought = "".join(self._thought)
        empty = not (self._said or self.calls)
        if thought and (empty or self._unclosed is UnclosedThinking.TEXT):
            self.text(thought)

    # Events

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._events.append(ResponseStart())

    def _start_part(self, kind: PartKind) -> None:
        if self._open is not kind:
            self._end_part()
            self._start()
            self._open = kind
            self._events.append(PartStart(kind))

    def _end_part(self) -> None:
        if self._open is not None:
            self._open = None
            self._events.append(PartEnd())

    def _write_blank(self) -> None:
        """White space at the end of an open text part."""
        if self._blank:
            self._events.append(PartDelta("".join(self._blank)))
            self._blank.clear()

    def _stop(self) -> None:
        self._finish(Finish(FinishReason(Unified.STOP)))

    def _finish(self, finish: Finish) -> None:
        self._end_part()
        self._start()
        reason = finish.reason
        if self.calls:
            reason = FinishReason(Unified.TOOL_CALLS, reason.raw)
        elif reason.unified is Unified.TOOL_CALLS:
            reason = FinishReason(Unified.STOP, reason.raw)
        self._events.append(Finish(reason, finish.usage))
        self.done = True

    def _give(self) -> list[Event]:
        events, self._events = self._events, []
        return events


class _Ids:
    """Ids of new calls, none of them in the history."""

    def __init__(self, request: Request, salt: str) -> None:
        self._salt = salt
        self._count = 0
        self._taken = frozenset(
            part.id for message in request.messages for part in message.content if isinstance(part, ToolCall)
        )

    def next(self) -> str:
        while True:
            self._count += 1
            made = f"call_{hashlib.sha256(f'{self._salt}/{self._count}'.encode()).hexdigest()[:24]}"
            if made not in self._taken:
                return made
