"""JSON on the hot path: orjson behind two names, so that nothing else has to choose.

``parse`` is strict (no NaN, no duplicate handling beyond "last wins", depth-limited by the library) and turns a
mistake into the caller's 400; ``dump`` gives compact UTF-8.
"""

from __future__ import annotations

from typing import Any

import orjson

from ir.errors import invalid

dump = orjson.dumps


def parse(body: bytes) -> Any:
    """Parsed JSON. Raises a 400 ``invalid_json`` that tells the position, never the content."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(
            "invalid_json", f"the body is not valid JSON (line {error.lineno}, column {error.colno})"
        ) from None


def is_writable(value: object) -> bool:
    """Whether parsed JSON can be written again: the parser reads about four times as deep as the writer goes."""
    try:
        dump(value)
    except TypeError:
        return False
    return True
