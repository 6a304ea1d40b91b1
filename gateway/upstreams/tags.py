"""``<think>`` and ``<thinking>`` inside an answer's text → reasoning. Pure.

Servers that run open models often leave a model's thinking where it stood: in tags before the answer. Only there are
they looked for: at the beginning of the first text, white space before them allowed, and again right after such a
block. Anywhere else, and in an answer whose provider told its thinking apart, a tag is what the model wrote, and stays.

What may yet become a tag is held back, at most a dozen characters; a block without an end stays reasoning to the end of
the text. An answer that begins otherwise is looked at once, and from then on passed as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ir.events import Event, PartDelta, PartEnd, PartKind, PartStart, ResponseStart

TAGS = ("<think>", "<thinking>")
MOST_BLANK = 256
"""Characters of white space before a tag; with more, the text is an answer."""


class _State(Enum):
    START = "start"  # no part yet
    LEAD = "lead"  # inside the text, before its first word
    THINK = "think"
    DONE = "done"  # nothing to look for any more


class TagSplitter:
    """For one answer: ``feed`` gives the events with tagged thinking as reasoning parts, in grammar order."""

    def __init__(self) -> None:
        self._state = _State.START
        self._held = ""
        self._end = ""  # the tag that ends the open block
        self._thought = False  # the open block has said something
        self._after = False  # a block has ended: white space before the text belonged to it

    def feed(self, events: Sequence[Event]) -> Sequence[Event]:
        if self._state is _State.DONE:
            return events
        out: list[Event] = []
        for event in events:
            self._take(event, out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        state = self._state
        if state is _State.DONE or isinstance(event, ResponseStart):
            out.append(event)
        elif state is _State.START:
            if isinstance(event, PartStart) and event.kind is PartKind.TEXT:
                self._state = _State.LEAD  # which kind of part it is will be seen
            else:
                self._state = _State.DONE
                out.append(event)
        elif isinstance(event, PartDelta):
            held, self._held = self._held + event.text, ""
            (self._lead if state is _State.LEAD else self._think)(held, out)
        else:
            self._end_text(event, out)

    def _lead(self, text: str, out: list[Event]) -> None:
        """Text that may begin with a tag."""
        word = text.lstrip()
        for tag in TAGS:
            if word.startswith(tag):
                self._state, self._thought = _State.THINK, False
                self._end = f"</{tag[1:]}"
                self._think(word[len(tag) :], out)
                return
        if any(tag.startswith(word) for tag in TAGS) and len(text) <= MOST_BLANK:
            self._held = text
            return
        self._state = _State.DONE
        out += (PartStart(PartKind.TEXT), PartDelta(word if self._after and word else text))

    def _think(self, text: str, out: list[Event]) -> None:
        thought, end, rest = text.partition(self._end)
        if not end:
            kept = _held_back(text, self._end)
            thought, self._held = text[: len(text) - kept], text[len(text) - kept :]
        self._say(thought, out)
        if end:
            self._close(out)
            self._state, self._after = _State.LEAD, True
            self._lead(rest, out)

    def _end_text(self, event: Event, out: list[Event]) -> None:
        """The text is over, with whatever was held of it."""
        held, self._held = self._held, ""
        if self._state is _State.THINK:
            self._say(held, out)
            self._close(out)
        elif held.strip() or not self._after:
            out.append(PartStart(PartKind.TEXT))
            if held:
                out.append(PartDelta(held.lstrip() if self._after else held))
            out.append(PartEnd())
        self._state = _State.DONE
        if not isinstance(event, PartEnd):
            out.append(event)

    def _say(self, thought: str, out: list[Event]) -> None:
        if not thought:
            return
        if not self._thought:
            self._thought = True
            out.append(PartStart(PartKind.REASONING))
        out.append(PartDelta(thought))

    def _close(self, out: list[Event]) -> None:
        if self._thought:
            out.append(PartEnd())


def _held_back(text: str, tag: str) -> int:
    """Length of the longest end of ``text`` that ``tag`` begins with."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0
