"""Content that looks like the structure around it, told so that it is content.

Only a ``<`` that would open one of our own tags is changed, to ``&lt;``, so nearly every text is told as it is. The
change can be undone: an ``&`` that would then read as ours becomes ``&amp;``.
"""

from __future__ import annotations

import re
from html import escape


class Quoter:
    """For texts between which tags of these names mean something."""

    def __init__(self, *names: str) -> None:
        tag = rf"/?(?:{'|'.join(names)})\b"
        self._pattern = re.compile(rf"<(?={tag})|&(?=(?:amp;)*lt;{tag})", re.IGNORECASE)

    def quote(self, text: str) -> str:
        return self._pattern.sub(_entity, text)


def quote_trigger(text: str, trigger: str) -> str:
    """The live trigger, should content hold it."""
    return text.replace(trigger, escape(trigger)) if trigger else text


def attribute(value: str) -> str:
    """In double quotes."""
    return f'"{escape(value)}"'


def _entity(sign: re.Match[str]) -> str:
    return "&lt;" if sign.group() == "<" else "&amp;"
