"""Typed reading of JSON fields, as Google's servers read them.

Every field has two spellings, ``camelCase`` and ``snake_case``, because the SDKs mix them within one body; null is the
same as absent; a list of one may be written without its brackets; a field that nobody knows is a refusal, not a
tolerance. Paths in refusals are in camelCase: ``contents[0].parts[1].inlineData``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ir.errors import ApiError, invalid
from ir.ignored import list_ignored

UNKNOWN_FIELD = "unknown_field"

_UPPER = re.compile(r"[A-Z]")


def spell(*names: Iterable[str]) -> Mapping[str, str]:
    """Both spellings of every name, each with the camelCase one it stands for."""
    camel = [name for group in names for name in group]
    snake = {_UPPER.sub(lambda found: "_" + found[0].lower(), name): name for name in camel}
    return snake | {name: name for name in camel}


def refuse(path: str, problem: str, code: str = "invalid_value") -> ApiError:
    return invalid(code, f"{path}: {problem}", path)


def take_fields(value: object, path: str, known: Mapping[str, str]) -> dict[str, Any]:
    """The fields of an object that are not null, by their camelCase names; ``known`` comes from ``spell``."""
    if not isinstance(value, dict):
        raise refuse(path, "must be an object", "invalid_type")
    fields: dict[str, Any] = {}
    for given, content in value.items():
        name = known.get(given)
        if name is None:
            raise _unknown(given, path)
        if content is None:
            continue
        if name in fields:
            raise refuse(join(path, name), "is given in both spellings")
        fields[name] = content
    return fields


def take_list(value: object, path: str) -> list[Any]:
    """A list; a single object stands for a list of one."""
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise refuse(path, "must be a list", "invalid_type")
    return value


def take_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise refuse(path, "must be a string", "invalid_type")
    return value


def take_flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise refuse(path, "must be true or false", "invalid_type")
    return value


def take_number(value: object, path: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(path, "must be a number", "invalid_type")
    return value


def take_count(value: object, path: str, low: int) -> int:
    """A whole number, which SDKs also write as ``3.0``; ``low`` is the least that is allowed."""
    number = take_number(value, path)
    if isinstance(number, float) and not number.is_integer():
        raise refuse(path, "must be a whole number", "invalid_type")
    if number < low:
        raise refuse(path, f"must be at least {low}")
    return int(number)


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unknown(given: str, path: str) -> ApiError:
    """The name is the caller's own text, so it is shown only when it looks like a name."""
    (name,) = list_ignored([given])
    where = f" at '{path}'" if path else ""
    message = f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
    return invalid(UNKNOWN_FIELD, message, join(path, name))
