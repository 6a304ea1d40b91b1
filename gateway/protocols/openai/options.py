"""The fields that Chat and Responses read alike: model, flags, sampling numbers, effort, and refusals by name."""

from __future__ import annotations

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from ir.errors import ApiError, invalid
from ir.request import Thinking

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def unsupported(name: str, why: str) -> ApiError:
    """A known field that would change the answer and that no upstream here can carry."""
    return invalid("unsupported_parameter", f"{name}: {why}", name)


def decode_model(body: JsonObject) -> str:
    model = body.get("model")
    if model is None or model == "":
        raise invalid("missing_model", "model: is required", "model")
    return fields.text(model, "model")


def decode_flag(body: JsonObject, name: str) -> bool | None:
    value = body.get(name)
    return None if value is None else fields.boolean(value, name)


def decode_number(body: JsonObject, name: str, high: float) -> float | None:
    """A number from 0 to ``high``."""
    value = body.get(name)
    return None if value is None else fields.number(value, name, 0, high)


def decode_effort(value: object, path: str) -> Thinking:
    if value is None:
        return Thinking()
    effort = fields.text(value, path)
    if effort == "none":
        return Thinking(enabled=False)
    if effort not in EFFORTS:
        raise invalid("invalid_value", f"{path}: must be none, {', '.join(EFFORTS)}", path)
    return Thinking(enabled=True, effort=effort)


def encode_effort(thinking: Thinking) -> str | None:
    """OpenAI knows efforts only; a budget in tokens becomes the effort that is usual for its size."""
    if thinking.enabled is False:
        return "none"
    if thinking.effort or thinking.budget_tokens is None:
        return thinking.effort
    if thinking.budget_tokens < 4096:
        return "low"
    return "medium" if thinking.budget_tokens < 16384 else "high"


def decode_session(body: JsonObject) -> str:
    """What keeps the turns of one conversation together: the cache key, else the end user."""
    for name in ("prompt_cache_key", "user"):
        if body.get(name):
            return fields.text(body[name], name)
    return ""
