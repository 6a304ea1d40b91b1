"""The JSON bodies of the Cloud Agents API: what we send, and what comes back of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from gateway.protocols.cloud.catalogue import Selection
from ir.errors import Fault, Reason, Stage
from ir.request import Image
from ir.usage import Usage

TERMINAL = frozenset({"FINISHED", "ERROR", "CANCELLED", "EXPIRED"})


class Outcome(Struct, frozen=True):
    """How a run stands: ``status`` is the API's word; ``text`` the whole answer, where there is one."""

    status: str
    text: str = ""

    @property
    def is_final(self) -> bool:
        return self.status in TERMINAL


def encode_create(agent_id: str, prompt: str, images: Sequence[Image], model: Selection | None) -> bytes:
    """An agent without a repository, whose first run starts at once. ``agent_id`` is ours to choose (``bc-<uuid>``):
    so it can be deleted even if the answer never comes."""
    said: dict[str, Any] = {"text": prompt}
    if images:
        said["images"] = [{"data": image.encoded, "mimeType": image.media_type} for image in images]
    body: dict[str, Any] = {"agentId": agent_id, "prompt": said, "repos": [], "mode": "agent"}
    if model is not None:
        body["model"] = {"id": model.id}
        if model.parameters:
            body["model"]["params"] = [{"id": name, "value": value} for name, value in model.parameters.items()]
    return orjson.dumps(body)


def decode_created(body: bytes) -> str:
    """The id of the first run. Raises ``Fault`` PROTOCOL."""
    run = _member(body, "run")
    identifier = run.get("id") or _member(body, "agent").get("latestRunId")
    if not isinstance(identifier, str) or not identifier:
        raise Fault(Reason.PROTOCOL, Stage.HEADERS, upstream_code="create_answer")
    return identifier


def decode_run(body: bytes) -> Outcome:
    """Raises ``Fault`` PROTOCOL for what is no run."""
    run = _parse(body)
    outcome = read_outcome(run.get("run", run))
    if outcome is None:
        raise Fault(Reason.PROTOCOL, Stage.PREAMBLE, upstream_code="run_answer")
    return outcome


def decode_usage(body: bytes) -> Usage:
    """All counts unknown when the API has none to tell."""
    return read_usage(_parse(body).get("totalUsage"))


def read_outcome(value: object) -> Outcome | None:
    """From a run or a ``result`` event; None for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("status"), str):
        return None
    text = value.get("text") or value.get("result")
    return Outcome(value["status"], text if isinstance(text, str) else "")


def read_usage(value: object) -> Usage:
    """A usage object: its ``inputTokens`` hold no cache counts, so that all four add up to ``totalTokens``."""
    counts = value if isinstance(value, dict) else {}
    sent, said, read, written = (
        _count(counts.get(name)) for name in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    )
    if not said:
        return Usage()
    return Usage(input_uncached=sent, output=said, cache_read=read, cache_write=written)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _member(body: bytes, name: str) -> Mapping[str, Any]:
    value = _parse(body).get(name)
    return value if isinstance(value, dict) else {}


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
