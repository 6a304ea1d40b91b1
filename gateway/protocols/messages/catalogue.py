"""The model list in Anthropic's shape."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from gateway.wire.json import dump


class ModelEntry(Protocol):
    """What is shown of a model. ``created`` is in Unix seconds, sizes are in tokens."""

    @property
    def name(self) -> str: ...
    @property
    def display_name(self) -> str: ...
    @property
    def created(self) -> int: ...
    @property
    def context_tokens(self) -> int: ...
    @property
    def max_output_tokens(self) -> int: ...


def encode_models(entries: Sequence[ModelEntry]) -> bytes:
    """One whole page: nothing is left for a next one."""
    data = [_describe(entry) for entry in entries]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return dump({"data": data, "has_more": False, "first_id": first, "last_id": last})


def encode_model(entry: ModelEntry) -> bytes:
    return dump(_describe(entry))


def _describe(entry: ModelEntry) -> dict[str, Any]:
    return {
        "type": "model",
        "id": entry.name,
        "display_name": entry.display_name or entry.name,
        "created_at": datetime.fromtimestamp(entry.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": entry.context_tokens,
        "max_tokens": entry.max_output_tokens,
    }
