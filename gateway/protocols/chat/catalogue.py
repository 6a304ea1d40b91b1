"""``GET /v1/models`` in OpenAI's shape, with the two sizes that clients read to plan their prompts."""

from __future__ import annotations

from collections.abc import Iterable

from accounts.compile import ModelView
from gateway.contracts import JsonObject
from gateway.wire.json import dump


def encode_models(models: Iterable[ModelView]) -> bytes:
    """The whole list. Entries are named as callers name them; patterns are not for showing."""
    return dump({"object": "list", "data": [_entry(model) for model in models if not model.is_pattern]})


def encode_model(model: ModelView) -> bytes:
    """One entry, for ``GET /v1/models/{id}``."""
    return dump(_entry(model))


def _entry(model: ModelView) -> JsonObject:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": model.owner,
        "context_window": model.context_tokens,
        "max_tokens": model.max_output_tokens,
    }
