"""Typed reading of JSON fields. A refusal names the field as Anthropic does: ``messages.0.content.1.text: …``."""

from __future__ import annotations

from typing import Any

from ir.errors import ApiError, invalid


def refuse(path: str, problem: str, code: str = "invalid_type") -> ApiError:
    return invalid(code, f"{path}: {problem}", path)


def take_object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse(path, "must be an object")
    return value


def take_list(value: object, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise refuse(path, "must be a list")
    return value


def take_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise refuse(path, "must be a string")
    return value


def take_name(value: object, path: str) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise refuse(path, "must be a string that is not empty")
    return value


def take_flag(value: object, path: str) -> bool | None:
    """``None`` when absent or null."""
    if value is not None and not isinstance(value, bool):
        raise refuse(path, "must be true or false")
    return value


def take_count(value: object, path: str, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(path, "must be a whole number")
    if value < low:
        raise refuse(path, f"must be greater than or equal to {low}", "invalid_value")
    return value


def take_share(value: object, path: str) -> float | None:
    """A number from 0 to 1; ``None`` when absent or null."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(path, "must be a number")
    if not 0 <= value <= 1:
        raise refuse(path, "must be between 0 and 1", "invalid_value")
    return float(value)
