"""The words of the scripts: lorem, splitting into deltas, counting."""

from __future__ import annotations

import hashlib
import re

from simulator.steps import Picture

_LOREM_TEXT = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore "
    "magna aliqua ut enim ad minim veniam quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea commodo "
    "consequat duis aute irure dolor in reprehenderit in voluptate velit esse cillum dolore eu fugiat nulla pariatur "
    "excepteur sint occaecat cupidatat non proident sunt in culpa qui officia deserunt mollit anim id est laborum"
)
LOREM = _LOREM_TEXT.split()

_DELTA = re.compile(r"\s*\S+\s?|\s+")


def deltas(text: str) -> list[str]:
    """A text as one delta a word; joined they give the text back, spaces and all."""
    return _DELTA.findall(text)


def count(text: str) -> int:
    """Words, the simulator's tokens."""
    return len(text.split())


def picture_line(picture: Picture) -> str:
    """``mime bytes sha256``, as ``sim-image`` says it."""
    return f"{picture.media_type} {len(picture.data)} {hashlib.sha256(picture.data).hexdigest()}"
