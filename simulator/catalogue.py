"""The models of the fake upstream and the parameters each one declares. Anything undeclared is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator import scripts

_SWITCH = ("true", "false")
_EFFORT = ("low", "medium", "high")


@dataclass(frozen=True)
class Model:
    """``parameters``: id → the values it may take. ``window``: tokens of context."""

    id: str
    display_name: str
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    window: int = 200_000


DEMO: tuple[Model, ...] = (
    Model(
        "claude-sonnet-4.6",
        "Claude 4.6 Sonnet",
        {"thinking": _SWITCH, "effort": _EFFORT, "context": ("200k", "1m")},
        ("claude-4.6-sonnet", "sonnet-4.6"),
    ),
    Model(
        "claude-opus-4.6",
        "Claude 4.6 Opus",
        {"thinking": _SWITCH, "effort": (*_EFFORT, "max"), "context": ("200k", "1m"), "fast": _SWITCH},
        ("claude-4.6-opus", "opus-4.6"),
    ),
    Model(
        "gpt-5.2",
        "GPT-5.2",
        {"thinking": _SWITCH, "effort": (*_EFFORT, "xhigh"), "context": ("272k",), "fast": _SWITCH},
        window=272_000,
    ),
    Model("gemini-2.5-flash", "Gemini 2.5 Flash", {"thinking": _SWITCH, "context": ("200k", "1m")}),
    Model("composer-2.5", "Composer 2.5", {"thinking": _SWITCH, "fast": _SWITCH}),
    Model("default", "Auto", {"thinking": _SWITCH}),
)
SIM_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "thinking": _SWITCH,
    "effort": _EFFORT,
    "context": ("200k", "1m"),
    "fast": _SWITCH,
}
# One listed id for each script; the scripts accept every number, so the list is a sample, not a limit.
SIM_LISTED: tuple[str, ...] = (
    "sim-echo",
    "sim-lorem-10",
    "sim-lorem-200",
    "sim-slow-50",
    "sim-think-3",
    "sim-tool",
    "sim-tools-2",
    "sim-text-tool",
    "sim-tool-split",
    "sim-tool-linefeed",
    "sim-tool-doubles",
    "sim-image",
    "sim-system",
    "sim-history",
    "sim-usage-none",
    "sim-usage-nested",
    "sim-usage-cache",
    "sim-json",
    "sim-markup",
)
_THINKING_TWIN = "-thinking"


def find(model_id: str) -> Model | None:
    """The model of an id or alias; every script name is a model. ``auto`` is not one: Auto is called ``default``."""
    for model in DEMO:
        if model_id == model.id or model_id in model.aliases:
            return model
    return Model(model_id, model_id, SIM_PARAMETERS) if scripts.find(model_id) else None


def find_variant(slug: str) -> tuple[Model, dict[str, str]] | None:
    """A variant slug such as ``gpt-5.2-thinking``: base model and the parameters that the slug stands for."""
    model = find(slug.removesuffix(_THINKING_TWIN))
    if model is None:
        return None
    return model, ({"thinking": "true"} if slug.endswith(_THINKING_TWIN) else {})


def listed() -> list[Model]:
    """What the catalogue call answers."""
    return [*DEMO, *(Model(name, name, SIM_PARAMETERS) for name in SIM_LISTED)]
