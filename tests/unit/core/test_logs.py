from __future__ import annotations

import logging
import sys

from core.logs import Formatter

SECRET = "what the caller said"


def told(error: Exception, cause: Exception | None = None) -> str:
    try:
        try:
            if cause is not None:
                raise cause
        finally:
            raise error
    except Exception:
        record = logging.LogRecord("a.b", logging.ERROR, __file__, 1, "request %s", ("r1",), sys.exc_info())
        return Formatter("%(levelname)s %(name)s: %(message)s").format(record)


def test_a_traceback_has_frames_and_type_and_not_the_message() -> None:
    text = told(ValueError(SECRET))
    assert text.startswith("ERROR a.b: request r1\nTraceback (most recent call last):\n")
    assert "in told" in text
    assert text.endswith("ValueError")
    assert SECRET not in text


def test_what_caused_it_is_told_first_and_as_sparingly() -> None:
    text = told(RuntimeError(SECRET), KeyError(SECRET))
    assert text.index("KeyError") < text.index("which led to:") < text.index("RuntimeError")
    assert SECRET not in text


def test_an_error_of_the_world_outside_keeps_its_words() -> None:
    assert "Connection refused" in told(ConnectionRefusedError(111, "Connection refused"))
