"""Stop sequences, the output limit and the count of what went out, kept here: the Agent RPC has no field for them.

``Meter`` stands between upstream and encoder. It passes events on, cuts the text where a stop sequence begins or the
limit is reached, and puts an estimate into ``Finish`` where the upstream gave no usage. Once ``done`` is true the
upstream has nothing more to say and its run should be closed. Text that might be the start of a stop sequence is held
back until it is decided, so a stop sequence never leaks, however the upstream splits it. Tool calls are never cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, Unified
from ir.tokens import MAX_PER_CHARACTER, estimate
from ir.usage import Usage, UsageSource


class Meter:
    """For one stream. ``max_tokens`` bounds text and reasoning, ``input_tokens`` is the prompt's; both estimates."""

    def __init__(self, stop: Sequence[str] = (), max_tokens: int | None = None, input_tokens: int = 0) -> None:
        self.done = False
        self._stop = _StopFinder(stop) if stop else None
        self._budget = None if max_tokens is None else float(max_tokens)
        self._input_tokens = input_tokens
        self._pieces: list[str] = []  # everything that counts as output, so that the estimate is made only if needed
        self._unchecked = 0  # characters since the budget was last worked out
        self._counted = 0  # pieces that the budget already knows
        self._kind = PartKind.TEXT

    def see(self, events: Sequence[Event]) -> list[Event]:
        """What of ``events`` goes on. After the cut everything further is dropped."""
        out: list[Event] = []
        for event in events:
            if self.done:
                break
            match event:
                case PartDelta():
                    self._delta(event, out)
                case PartStart():
                    self._kind = event.kind
                    out.append(event)
                case PartEnd():
                    self._flush(out)
                    out.append(event)
                case Finish():
                    self.done = True
                    out.append(self._finish(event))
                case _:
                    out.append(event)
        return out

    def estimated(self) -> Usage:
        """Usage by our own count; for answers that broke off, too."""
        output = max(1, round(sum(map(estimate, self._pieces)))) if self._pieces else 0
        return Usage(input_uncached=self._input_tokens, output=output, source=UsageSource.ESTIMATED)

    def _delta(self, event: PartDelta, out: list[Event]) -> None:
        text = event.text
        if self._kind is PartKind.TOOL_CALL:
            self._pieces.append(text)
            out.append(event)
            return
        matched = None
        if self._stop is not None and self._kind is PartKind.TEXT:
            text, matched = self._stop.feed(text)
        kept = self._within_budget(text)
        if kept:
            self._pieces.append(kept)
            out.append(event if kept is event.text else PartDelta(kept))
        if len(kept) < len(text):
            self._cut(FinishReason(Unified.LENGTH), out)
        elif matched is not None:
            self._cut(FinishReason(Unified.STOP_SEQUENCE, stop_sequence=matched), out)

    def _flush(self, out: list[Event]) -> None:
        held = self._stop.flush() if self._stop is not None and self._kind is PartKind.TEXT else ""
        if held:
            self._pieces.append(held)
            out.append(PartDelta(held))

    def _cut(self, reason: FinishReason, out: list[Event]) -> None:
        self.done = True
        out.append(PartEnd())
        out.append(Finish(reason, self.estimated()))

    def _finish(self, finish: Finish) -> Finish:
        if finish.usage.output is not None:
            return finish
        return Finish(finish.reason, self.estimated(), finish.extras)

    def _within_budget(self, text: str) -> str:
        if self._budget is None:
            return text
        if (self._unchecked + len(text)) * MAX_PER_CHARACTER <= self._budget:
            self._unchecked += len(text)
            return text
        self._budget -= sum(map(estimate, self._pieces[self._counted :]))
        self._counted, self._unchecked = len(self._pieces), 0
        if estimate(text) <= self._budget:
            self._unchecked = len(text)
            return text
        return text[: _longest_prefix(text, self._budget)]


class _StopFinder:
    """Finds the first stop sequence in a text that comes in pieces."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._pattern = re.compile("|".join(re.escape(item) for item in sorted(stop, key=len, reverse=True)))
        self._prefixes = frozenset(item[:size] for item in stop for size in range(1, len(item)))
        self._longest = max(map(len, stop)) - 1
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """The text that may go out, and the stop sequence that ended it, if one did."""
        text = self._held + text
        found = self._pattern.search(text)
        if found is not None:
            self._held = ""
            return text[: found.start()], found.group()
        size = min(self._longest, len(text))
        while size and text[len(text) - size :] not in self._prefixes:
            size -= 1
        self._held = text[len(text) - size :]
        return text[: len(text) - size], None

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held


def _longest_prefix(text: str, budget: float) -> int:
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(text[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
