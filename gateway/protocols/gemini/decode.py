"""A ``GenerateContentRequest`` and its URL → ``ir.Request``.

Source: Google's Gemini API reference, and what its SDKs send. The served subset is text in, text out: see
``features`` for what is refused. The model and whether to stream come from the URL alone.
"""

from __future__ import annotations

from typing import Any

from gateway.protocols.gemini import features
from gateway.protocols.gemini.conversation import decode_contents, decode_system
from gateway.protocols.gemini.features import refuse_feature
from gateway.protocols.gemini.fields import refuse, spell, take_fields, take_list, take_text
from gateway.protocols.gemini.generation import decode_generation
from gateway.protocols.gemini.paths import Call
from ir.errors import invalid
from ir.ignored import list_ignored
from ir.request import Request

_KNOBS = ("model", "stream", "safetySettings", "labels", "serviceTier", "store")
_SERVED = ("contents", "systemInstruction", "generationConfig", "tools", "toolConfig")
_KNOWN = spell(_SERVED, _KNOBS, features.BODY)
_TOOL = spell(features.TOOLS)
_TOOL_CONFIG = spell(("functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"))
_CALLING = spell(("mode", "allowedFunctionNames", "streamFunctionCallArguments"))
_NO_CALLING = ("NONE", "MODE_UNSPECIFIED")


def decode_request(body: object, call: Call) -> Request:
    """``body`` is parsed JSON of any shape. Raises ``ApiError`` and nothing else."""
    if not call.model:
        raise invalid("missing_model", "The URL names no model.", "model")
    if call.stream and not call.sse:
        raise invalid("unsupported_alt", "Streams are served as server-sent events only: use alt=sse.", "alt")
    if not isinstance(body, dict):
        raise invalid("invalid_json", "The request body must be a JSON object.")
    fields = take_fields(body, "", _KNOWN)
    _refuse_unserved(fields)
    system = decode_system(fields.get("systemInstruction"))
    conversation = decode_contents(fields.get("contents"))
    generation = decode_generation(fields.get("generationConfig"))
    knobs = [name for name in _KNOBS if fields.get(name) not in (None, [], {})]
    return Request(
        model=call.model,
        messages=conversation.messages,
        system=system,
        max_output_tokens=generation.max_output_tokens,
        stop=generation.stop,
        thinking=generation.thinking,
        stream=call.stream,
        ignored=list_ignored([*knobs, *generation.ignored, *conversation.ignored]),
    )


def _refuse_unserved(fields: dict[str, Any]) -> None:
    for name, feature in features.BODY.items():
        if name in fields:
            raise refuse_feature(feature, name)
    for index, tool in enumerate(take_list(fields.get("tools", []), "tools")):
        for name, value in take_fields(tool, f"tools[{index}]", _TOOL).items():
            if value != []:  # an empty list offers nothing
                raise refuse_feature(features.TOOLS[name], f"tools[{index}].{name}")
    if not _calls_nothing(fields.get("toolConfig", {})):
        raise refuse_feature(features.TOOL_CONFIG, "toolConfig")


def _calls_nothing(value: object) -> bool:
    """Whether a ``toolConfig`` asks for nothing, as it may when there are no tools."""
    config = take_fields(value, "toolConfig", _TOOL_CONFIG)
    if not config.keys() <= {"functionCallingConfig"}:
        return False
    path = "toolConfig.functionCallingConfig"
    calling = take_fields(config.get("functionCallingConfig", {}), path, _CALLING)
    mode = take_text(calling.get("mode", "NONE"), f"{path}.mode").upper()
    if mode not in (*_NO_CALLING, "AUTO", "ANY", "VALIDATED"):
        raise refuse(f"{path}.mode", "must be NONE: there are no tools")
    return mode in _NO_CALLING
