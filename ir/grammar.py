"""The legal order of events, as a table that can be read aloud.

An illegal event is a missing key. Everything about transitions lives in this file; whoever produces events
(client roles, the text bridge) is tested against ``Checker``, and the docs' diagram is drawn from ``TABLE``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from ir.events import Event, Finish, PartDelta, PartEnd, PartStart, ResponseStart


class State(Enum):
    IDLE = "idle"
    OPEN = "open"
    IN_PART = "in_part"
    DONE = "done"


TABLE: Mapping[State, Mapping[type[Event], State]] = {
    State.IDLE: {ResponseStart: State.OPEN},
    State.OPEN: {PartStart: State.IN_PART, Finish: State.DONE},
    State.IN_PART: {PartDelta: State.IN_PART, PartEnd: State.OPEN},
    State.DONE: {},
}


class GrammarError(Exception):
    """An event came in a state that does not allow it: a bug of its producer."""


class Checker:
    """Walks the table. ``done`` tells whether the stream had its regular end."""

    def __init__(self) -> None:
        self.state = State.IDLE

    @property
    def done(self) -> bool:
        return self.state is State.DONE

    def see(self, event: Event) -> None:
        try:
            self.state = TABLE[self.state][type(event)]
        except KeyError:
            raise GrammarError(f"{type(event).__name__} is not allowed in state {self.state.value}") from None


def check(events: Iterable[Event]) -> None:
    """Raises ``GrammarError`` unless ``events`` is one whole legal stream."""
    checker = Checker()
    for event in events:
        checker.see(event)
    if not checker.done:
        raise GrammarError(f"the stream ended in state {checker.state.value}")
