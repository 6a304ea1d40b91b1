"""What of Gemini is not served: one row for each field, with the words of its refusal.

Served is the text subset: nothing here is emulated, so that a caller never gets half of what it asked for. A refusal
belongs to the request: no account is asked and none is marked. ``docs/gemini.md`` holds these tables, kept equal by a
test. Source of the names: Google's ``GenerateContentRequest``, as its SDKs write it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ir.errors import ApiError, Kind


class Feature(Struct, frozen=True):
    """``name`` is stable, for programs; ``message`` tells what is missing and ``advice`` what to do about it."""

    name: str
    message: str
    advice: str


_FUNCTIONS = Feature(
    "function_calling", "Function calling is not supported by this endpoint.", "Remove tools from the request."
)
_GROUNDING = Feature(
    "grounding", "Grounding and search tools are not supported by this endpoint.", "Remove tools from the request."
)
_CODE = Feature("code_execution", "Code execution is not supported by this endpoint.", "Remove tools from the request.")
_HOSTED = Feature("hosted_tools", "Hosted tools are not supported by this endpoint.", "Remove tools from the request.")
_CACHE = Feature("cached_content", "Cached content is not supported by this endpoint.", "Send the content itself.")
_STATE = Feature("continuation", "Continuing an answer is not supported by this endpoint.", "Send the conversation.")
_MEDIA = Feature("media", "Media is not supported by this endpoint.", "Send only text parts.")
_FILES = Feature("files", "Files are not supported by this endpoint.", "Send only text parts.")
_CALLS = Feature("function_calling", "Function calling is not supported by this endpoint.", "Send only text parts.")
_RUNS = Feature("code_execution", "Code execution is not supported by this endpoint.", "Send only text parts.")
JSON_OUTPUT = Feature(
    "structured_output", "JSON and enum output are not supported by this endpoint.", "Ask for text/plain."
)
CANDIDATES = Feature("multiple_candidates", "Only one candidate is supported.", "Leave it out or set it to 1.")
MODALITIES = Feature("output_modalities", "Only text output is supported by this endpoint.", "Ask for TEXT alone.")
LOGPROBS = Feature("logprobs", "Log probabilities are not supported by this endpoint.", "Leave it out.")

TOOL_CONFIG = _FUNCTIONS
BODY: Mapping[str, Feature] = {"cachedContent": _CACHE, "continuationToken": _STATE}
TOOLS: Mapping[str, Feature] = {
    "functionDeclarations": _FUNCTIONS,
    "googleSearch": _GROUNDING,
    "googleSearchRetrieval": _GROUNDING,
    "retrieval": _GROUNDING,
    "enterpriseWebSearch": _GROUNDING,
    "parallelAiSearch": _GROUNDING,
    "exaAiSearch": _GROUNDING,
    "urlContext": _GROUNDING,
    "googleMaps": _GROUNDING,
    "fileSearch": _GROUNDING,
    "codeExecution": _CODE,
    "computerUse": _HOSTED,
    "mcpServers": _HOSTED,
}
PARTS: Mapping[str, Feature] = {
    "inlineData": _MEDIA,
    "fileData": _FILES,
    "functionCall": _CALLS,
    "functionResponse": _CALLS,
    "toolCall": _CALLS,
    "toolResponse": _CALLS,
    "executableCode": _RUNS,
    "codeExecutionResult": _RUNS,
    "videoMetadata": _MEDIA,
    "audioTranscription": _MEDIA,
}
CONFIG: Mapping[str, Feature] = {
    "responseSchema": JSON_OUTPUT,
    "responseJsonSchema": JSON_OUTPUT,
    "responseFormat": JSON_OUTPUT,
    "speechConfig": MODALITIES,
    "imageConfig": MODALITIES,
    "translationConfig": MODALITIES,
    "audioTranscriptionConfig": _MEDIA,
}
CONFIG_VALUES: Mapping[str, Feature] = {
    "responseMimeType": JSON_OUTPUT,
    "responseModalities": MODALITIES,
    "responseLogprobs": LOGPROBS,
    "logprobs": LOGPROBS,
    "candidateCount": CANDIDATES,
}
"""Refused for some values only: see ``generation``."""


def refuse_feature(feature: Feature, path: str) -> ApiError:
    """The 400 for ``feature`` that was asked for at ``path``."""
    details = {"feature": feature.name, "advice": feature.advice}
    return ApiError(Kind.INVALID_REQUEST, "unsupported_feature", feature.message, param=path, details=details)
