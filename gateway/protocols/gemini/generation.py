"""``generationConfig``: what is honoured, what is listed as ignored, what is refused."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gateway.protocols.gemini import features
from gateway.protocols.gemini.features import refuse_feature
from gateway.protocols.gemini.fields import (
    join,
    refuse,
    spell,
    take_count,
    take_fields,
    take_flag,
    take_list,
    take_number,
    take_text,
)
from ir.request import Thinking

PATH = "generationConfig"
MAX_STOP_SEQUENCES = 5
DYNAMIC = -1  # a thinking budget that the model chooses

_NUMBERS = ("temperature", "topP", "topK", "seed", "presencePenalty", "frequencyPenalty")
_KNOBS = (
    "mediaResolution",
    "audioTimestamp",
    "routingConfig",
    "modelSelectionConfig",
    "enableAffectiveDialog",
    "enableEnhancedCivicAnswers",
)
_HONOURED = ("maxOutputTokens", "stopSequences", "thinkingConfig")
_KNOWN = spell(_NUMBERS, _KNOBS, _HONOURED, features.CONFIG, features.CONFIG_VALUES)
_THINKING = spell(("includeThoughts", "thinkingBudget", "thinkingLevel"))
_EFFORTS = {"MINIMAL": "minimal", "LOW": "low", "MEDIUM": "medium", "HIGH": "high", "XHIGH": "xhigh"}
_NO_LEVEL = "THINKING_LEVEL_UNSPECIFIED"


class Generation(Struct, frozen=True):
    """``ignored`` names accepted fields without effect, by their whole path."""

    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    thinking: Thinking = Thinking()
    ignored: tuple[str, ...] = ()


def decode_generation(value: object) -> Generation:
    """Raises the 400 of the first field that cannot be served."""
    if value is None:
        return Generation()
    config = take_fields(value, PATH, _KNOWN)
    _refuse_unserved(config)
    for name in _NUMBERS:
        if name in config:
            take_number(config[name], join(PATH, name))
    most = config.get("maxOutputTokens")
    return Generation(
        max_output_tokens=None if most is None else take_count(most, join(PATH, "maxOutputTokens"), 1),
        stop=_decode_stop(config.get("stopSequences", [])),
        thinking=_decode_thinking(config.get("thinkingConfig", {})),
        ignored=tuple(join(PATH, name) for name in (*_NUMBERS, *_KNOBS) if name in config),
    )


def _refuse_unserved(config: dict[str, Any]) -> None:
    for name, feature in features.CONFIG.items():
        if name in config:
            raise refuse_feature(feature, join(PATH, name))
    for name, feature in features.CONFIG_VALUES.items():
        if name in config and not _served(name, config[name]):
            raise refuse_feature(feature, join(PATH, name))


def _served(name: str, value: object) -> bool:
    """Whether this value asks for what is served anyway: one candidate, of plain text."""
    path = join(PATH, name)
    match name:
        case "responseMimeType":
            return take_text(value, path) in ("", "text/plain")
        case "responseModalities":
            return all(take_text(item, path).upper() == "TEXT" for item in take_list(value, path))
        case "responseLogprobs":
            return not take_flag(value, path)
        case "logprobs":
            return take_number(value, path) == 0
        case _:
            return take_number(value, path) == 1


def _decode_stop(value: object) -> tuple[str, ...]:
    path = join(PATH, "stopSequences")
    sequences = take_list(value, path)
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise refuse(path, f"at most {MAX_STOP_SEQUENCES} are allowed")
    for index, text in enumerate(sequences):
        if not take_text(text, f"{path}[{index}]"):
            raise refuse(f"{path}[{index}]", "must not be empty")
    return tuple(sequences)


def _decode_thinking(value: object) -> Thinking:
    """A budget of 0 switches thinking off, any other wish for it switches it on."""
    path = join(PATH, "thinkingConfig")
    fields = take_fields(value, path, _THINKING)
    visible = take_flag(fields.get("includeThoughts", False), join(path, "includeThoughts"))
    effort = _decode_level(fields.get("thinkingLevel", _NO_LEVEL), join(path, "thinkingLevel"))
    budget = fields.get("thinkingBudget")
    if budget is None:
        return Thinking(enabled=True if visible or effort else None, effort=effort, visible=visible)
    tokens = take_count(budget, join(path, "thinkingBudget"), DYNAMIC)
    if tokens == 0:
        return Thinking(enabled=False, visible=visible)
    return Thinking(enabled=True, effort=effort, budget_tokens=tokens if tokens > 0 else None, visible=visible)


def _decode_level(value: object, path: str) -> str | None:
    level = take_text(value, path).upper()
    if level == _NO_LEVEL:
        return None
    if level not in _EFFORTS:
        raise refuse(path, f"must be one of {', '.join(_EFFORTS)}")
    return _EFFORTS[level]
