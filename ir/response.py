"""A whole answer, and how a stream folds into one. A non-streamed answer is ``fold(events)``: there is one path."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart
from ir.extras import NO_EXTRAS, Extras, join
from ir.grammar import Checker
from ir.usage import Usage


class Part(Struct, frozen=True):
    """``text`` is text, reasoning text, or the JSON text of a tool call's arguments."""

    kind: PartKind
    text: str
    call_id: str = ""
    name: str = ""
    signature: str = ""


class Response(Struct, frozen=True):
    parts: tuple[Part, ...]
    finish: FinishReason
    usage: Usage
    extras: Extras = NO_EXTRAS

    def of(self, kind: PartKind) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.kind is kind)


class Accumulator:
    """Feed it every event of one stream; ``response`` is the whole answer once ``Finish`` came."""

    def __init__(self) -> None:
        self._checker = Checker()
        self._parts: list[Part] = []
        self._open = PartStart(PartKind.TEXT)
        self._pieces: list[str] = []
        self._finish: Finish | None = None
        self._extras = NO_EXTRAS

    def see(self, event: Event) -> None:
        self._checker.see(event)
        match event:
            case PartStart():
                self._open, self._pieces = event, []
            case PartDelta():
                self._pieces.append(event.text)
            case PartEnd():
                start = self._open
                text = "".join(self._pieces)
                self._parts.append(Part(start.kind, text, start.call_id, start.name, event.signature))
            case ResponseStart():
                self._extras = event.extras
            case Finish():
                self._finish = event

    @property
    def response(self) -> Response:
        """Raises ``ValueError`` while the stream has no ``Finish``."""
        if self._finish is None:
            raise ValueError("the stream has no Finish")
        extras = join(self._extras, self._finish.extras)
        return Response(tuple(self._parts), self._finish.reason, self._finish.usage, extras)


def fold(events: Iterable[Event]) -> Response:
    """The answer that a whole legal stream amounts to."""
    accumulator = Accumulator()
    for event in events:
        accumulator.see(event)
    return accumulator.response


def unfold(response: Response) -> Iterable[Event]:
    """A legal stream that folds back into ``response``; empty part texts give no delta."""
    yield ResponseStart(extras=response.extras)
    for part in response.parts:
        yield PartStart(part.kind, part.call_id, part.name)
        if part.text:
            yield PartDelta(part.text)
        yield PartEnd(part.signature)
    yield Finish(response.finish, response.usage)
