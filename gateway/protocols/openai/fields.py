"""Typed reads from a parsed body. Each refuses a wrong type with the field's path in OpenAI's notation.

A path looks like ``messages[0].content[1].type``. Errors name the field and what it must be, never what it held.
"""

from __future__ import annotations

from typing import Any

from gateway.contracts import JsonObject
from ir.errors import ApiError, invalid


def wrong_type(path: str, expected: str) -> ApiError:
    return invalid("invalid_type", f"{path}: must be {expected}", path)


def text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(path, "a string")
    return value


def identifier(value: object, path: str) -> str:
    """A text that is not empty."""
    found = text(value, path)
    if not found:
        raise invalid("invalid_value", f"{path}: must not be empty", path)
    return found


def text_or_empty(value: object) -> str:
    """For what a vendor sends: its slips are not worth an answer."""
    return value if isinstance(value, str) else ""


def boolean(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(path, "true or false")
    return value


def mapping(value: object, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object")
    return value


def array(value: object, path: str, expected: str = "a list") -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, expected)
    return value


def integer(value: object, path: str, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(path, "an integer")
    if value < low:
        raise invalid("invalid_value", f"{path}: must be at least {low}", path)
    return value


def number(value: object, path: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(path, "a number")
    if not low <= value <= high:
        raise invalid("invalid_value", f"{path}: must be between {low:g} and {high:g}", path)
    return float(value)
