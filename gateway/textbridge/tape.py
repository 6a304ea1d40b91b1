"""The piece of a stream that is looked at, and what is held of it until it is decided what it is.

``text`` from ``pos`` on is not yet understood; at the end of a feed that is at most the beginning of a token, so
joining it to what comes next costs nothing worth counting. What is held is kept as pieces, joined once, when it is
decided. Offsets count from the start of what is held, wherever the stream was cut.
"""

from __future__ import annotations

import re

SPACE = " \t\r\n"

_SPACES = re.compile(rf"[{SPACE}]*")


class Tape:
    """For one answer. ``end`` is how far may be looked, in ``text``."""

    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.end = 0
        self._pieces: list[str] = []
        self._base = 0  # characters in the pieces
        self._mark = 0  # where in the text the last piece begins

    @property
    def offset(self) -> int:
        return self._base + self.pos - self._mark

    def index(self, offset: int) -> int:
        """Where in ``text`` an offset lies; negative when it lies in an earlier piece."""
        return offset - self._base + self._mark

    def append(self, text: str) -> None:
        self.text += text

    def cut(self, holding: bool) -> None:
        """Lets go of what is understood, after a feed."""
        if holding:
            self._pieces.append(self.text[self._mark : self.pos])
            self._base += self.pos - self._mark
        self.text = self.text[self.pos :]
        self.pos = self._mark = 0

    def join(self) -> None:
        """Puts all that is held back into ``text``, so that it can be looked through once more."""
        held = "".join(self._pieces)
        self.text, self.pos = held + self.text, self.pos + len(held)
        self._pieces, self._base, self._mark = [], 0, 0

    def hold(self, start: int) -> None:
        """From ``start``, an index, on."""
        self._pieces, self._base, self._mark = [], 0, start

    def held(self) -> str:
        return "".join(self._pieces) + self.text[self._mark : self.pos]

    def take(self, end: int) -> str:
        """The text up to ``end``, which is thereby understood."""
        taken = self.text[self.pos : end]
        self.pos = end
        return taken

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Past what matches; gives the character there, "" at the end."""
        found = pattern.match(self.text, self.pos, self.end)
        if found is not None:
            self.pos = found.end()
        return self.text[self.pos] if self.pos < self.end else ""

    def skip_space(self) -> str:
        return self.skip(_SPACES)

    def starts(self, token: str) -> bool:
        return self.text.startswith(token, self.pos, self.end)

    def starts_tag(self, name: str) -> bool | None:
        """Whether a tag ``<name`` opens here; ``None`` while that is not decided."""
        after = self.pos + len(name)
        if after < self.end:
            return self.starts(name) and self.text[after] in SPACE + ">"
        return None if self.may_become(name) else False

    def may_become(self, token: str) -> bool:
        """Whether all that is left is a beginning of this token."""
        return self.end - self.pos <= len(token) and token.startswith(self.text[self.pos : self.end])

    def undecided(self, *tokens: str) -> int:
        """Where the longest end of ``text`` begins that a token may begin with; ``end`` when there is none."""
        longest = max(map(len, tokens), default=1) - 1
        at = self.text.find("<", max(self.pos, self.end - longest), self.end)
        while at >= 0:
            if any(token.startswith(self.text[at : self.end]) for token in tokens):
                return at
            at = self.text.find("<", at + 1, self.end)
        return self.end
