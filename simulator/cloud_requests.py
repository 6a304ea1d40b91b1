"""What the fake Cloud Agents API refuses about a request, and the models as it lists them."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator import catalogue
from simulator.catalogue import Model
from simulator.rest import Refusal, invalid
from simulator.steps import Picture

MAX_IMAGES = 5
PREFIX = "cloud-"
"""Every model also goes by its name with this before it, so that a client can tell this API's models from others."""
MAX_IMAGE = 15 * 1024 * 1024
_AGENT_ID = re.compile(r"bc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_KNOWN = frozenset(
    {
        "prompt", "model", "repos", "mode", "name", "agentId", "env", "envVars", "mcpServers", "customSubagents",
        "autoCreatePR", "workOnCurrentBranch", "skipReviewerRequest",
    }
)  # fmt: skip
_USUAL = {"thinking": "false", "effort": "medium", "fast": "false"}


@dataclass(frozen=True)
class Order:
    """An agent as it was asked for."""

    agent_id: str
    text: str
    pictures: tuple[Picture, ...]
    model: str
    parameters: Mapping[str, str]


def read_order(body: bytes, allowed: frozenset[str] | None) -> Order:
    """Raises ``Refusal``."""
    order = _parse(body)
    unknown = set(order) - _KNOWN
    if unknown:
        raise invalid(f"unknown members {sorted(unknown)}")
    if order.get("repos"):
        raise Refusal(403, "repository_access", "a repository")
    if order.get("mode", "agent") not in ("agent", "plan"):
        raise invalid("mode")
    agent_id = order.get("agentId", "")
    if agent_id and not (isinstance(agent_id, str) and _AGENT_ID.fullmatch(agent_id)):
        raise invalid("agentId is no bc-<uuid>")
    text, pictures = read_prompt(order.get("prompt"))
    model, parameters = _model(order, allowed)
    return Order(agent_id, text, pictures, model, parameters)


def read_follow_up(body: bytes) -> tuple[str, tuple[Picture, ...]]:
    """Raises ``Refusal``."""
    return read_prompt(_parse(body).get("prompt"))


def read_prompt(prompt: object) -> tuple[str, tuple[Picture, ...]]:
    """Raises ``Refusal``."""
    if not isinstance(prompt, dict) or not isinstance(prompt.get("text"), str) or not prompt["text"].strip():
        raise invalid("prompt.text is missing or empty")
    images = prompt.get("images", [])
    if not isinstance(images, list) or len(images) > MAX_IMAGES:
        raise invalid(f"more than {MAX_IMAGES} images")
    return prompt["text"], tuple(_picture(image) for image in images)


def listed(allowed: frozenset[str] | None) -> list[dict[str, Any]]:
    """The items of ``GET /v1/models``."""
    models = [one for one in catalogue.listed() if allowed is None or one.id in allowed]
    return [
        {
            "id": model.id,
            "displayName": model.display_name,
            "description": "",
            "aliases": [*model.aliases, PREFIX + model.id],
            "parameters": [
                {"id": name, "displayName": name, "values": [{"value": one, "displayName": one} for one in values]}
                for name, values in model.parameters.items()
            ],
            "variants": [
                {
                    "params": [{"id": key, "value": one} for key, one in variant.items()],
                    "displayName": model.display_name,
                    "isDefault": variant == _usual(model),
                }
                for variant in _variants(model)
            ],
        }
        for model in models
    ]


def _model(order: Mapping[str, Any], allowed: frozenset[str] | None) -> tuple[str, Mapping[str, str]]:
    wanted = order.get("model")
    if wanted is None:
        return "default", {}
    if not isinstance(wanted, dict) or not isinstance(wanted.get("id"), str) or not wanted["id"]:
        raise invalid("model without an id")
    model = catalogue.find(wanted["id"].removeprefix(PREFIX))
    if model is None:
        raise Refusal(400, "invalid_model", f"unknown model {wanted['id']!r}")
    if allowed is not None and model.id not in allowed:
        raise Refusal(403, "plan_required", "a model that the plan does not have")
    given = wanted.get("params")
    if given is None:
        return model.id, _usual(model)
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise invalid("model.params")
    parameters = {str(one.get("id")): str(one.get("value")) for one in given}
    if len(parameters) != len(given) or parameters not in _variants(model):
        raise Refusal(400, "invalid_model", f"no variant {parameters}")
    return model.id, parameters


def _variants(model: Model) -> list[dict[str, str]]:
    names = list(model.parameters)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*model.parameters.values())]


def _usual(model: Model) -> dict[str, str]:
    return {
        name: usual if (usual := _USUAL.get(name, "")) in values else values[0]
        for name, values in model.parameters.items()
    }


def _picture(image: object) -> Picture:
    if not isinstance(image, dict) or ("data" in image) == ("url" in image):
        raise invalid("an image has either data or a url")
    if "url" in image:
        raise invalid("this upstream fetches nothing")
    if image.get("mimeType") not in _TYPES:
        raise invalid("the image type")
    try:
        data = base64.b64decode(image["data"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise invalid("an image that is not Base64") from None
    if not data or len(data) > MAX_IMAGE:
        raise invalid("the size of an image")
    return Picture(image["mimeType"], data)


def _parse(body: bytes) -> dict[str, Any]:
    if not body:
        raise Refusal(400, "missing_body", "no body")
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise invalid("the body is no JSON object")
    return value
