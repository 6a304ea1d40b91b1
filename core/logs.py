"""How a log line looks, and what it may not hold.

The message of an exception is often a piece of what was being worked on: the key that was missing, the text that was no
number. So a traceback names its frames and the exception's type; the message itself is shown only for errors of
the world outside (files, sockets, Redis, the database server), which talk about addresses and states.
"""

from __future__ import annotations

import logging
import traceback
from types import TracebackType

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError
from redis.exceptions import RedisError

SPEAKING = (OSError, RedisError, OperationalError, InterfaceError, ImproperlyConfigured)

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Formatter(logging.Formatter):
    """The usual formatter, with exceptions told by their frames and type."""

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802 - the library's name
        error = ei[1]
        return "" if error is None else "\n".join(_tell(error, set()))


def _tell(error: BaseException, told: set[int]) -> list[str]:
    """Lines of one exception, what caused it first."""
    told.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = [] if before is None or id(before) in told else [*_tell(before, told), "", "which led to:", ""]
    lines.append("Traceback (most recent call last):")
    lines += [line.rstrip("\n") for line in traceback.format_tb(error.__traceback__)]
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    lines.append(f"{name}: {error}" if isinstance(error, SPEAKING) else name)
    return lines
