"""Interleaved parts, put into the order that the grammar allows.

Some upstreams stream several parts at once, told apart by an index. The first open part passes straight through;
the others wait in order of their start and follow when it ends. With one part open at a time, which is nearly
always, nothing is held and nothing is copied.
"""

from __future__ import annotations

from ir.events import Event, PartDelta, PartEnd, PartStart

Key = int | str


class Lanes:
    """One lane for each open part; ``key`` is the upstream's index. Events are appended to ``out``."""

    def __init__(self) -> None:
        self._head: Key | None = None
        self._waiting: dict[Key, list[Event]] = {}
        self._ended: set[Key] = set()

    def is_open(self, key: Key) -> bool:
        return key == self._head or (key in self._waiting and key not in self._ended)

    def start(self, key: Key, part: PartStart, out: list[Event]) -> None:
        """Raises ``KeyError`` when the lane is in use."""
        if key == self._head or key in self._waiting:
            raise KeyError(key)
        if self._head is None:
            self._head = key
            out.append(part)
        else:
            self._waiting[key] = [part]

    def delta(self, key: Key, text: str, out: list[Event]) -> None:
        """Raises ``KeyError`` for a lane that is not open; empty texts are dropped."""
        if not text:
            return
        if key == self._head:
            out.append(PartDelta(text))
        else:
            self._held(key).append(PartDelta(text))

    def end(self, key: Key, signature: str, out: list[Event]) -> None:
        """Raises ``KeyError`` for a lane that is not open."""
        if key != self._head:
            self._held(key).append(PartEnd(signature))
            self._ended.add(key)
            return
        out.append(PartEnd(signature))
        self._head = None
        while self._head is None and self._waiting:
            following = next(iter(self._waiting))
            out.extend(self._waiting.pop(following))
            if following in self._ended:
                self._ended.remove(following)
            else:
                self._head = following

    def open_keys(self) -> list[Key]:
        """Lanes without an end, in order of their start."""
        head = [] if self._head is None else [self._head]
        return head + [key for key in self._waiting if key not in self._ended]

    def _held(self, key: Key) -> list[Event]:
        if key in self._ended:
            raise KeyError(key)
        return self._waiting[key]
