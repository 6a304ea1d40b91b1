"""A Chat Completions body → ``ir.Request``. Total: any JSON gives a request or an ``ApiError``.

Strict about what changes the answer: a known field that cannot be carried is a named 400. A tuning knob, or a field
that nobody knows yet, is accepted and listed in ``Request.ignored``: clients add fields every month.
Source: OpenAI's Chat Completions reference.
"""

from __future__ import annotations

from gateway.contracts import JsonObject
from gateway.protocols.chat.conversation import Conversation, decode_messages
from gateway.protocols.chat.tools import decode_tools
from gateway.protocols.openai import fields
from gateway.protocols.openai.options import (
    decode_effort,
    decode_flag,
    decode_format,
    decode_model,
    decode_number,
    decode_session,
    unsupported,
)
from ir.errors import invalid
from ir.extras import Extras, extras
from ir.ignored import list_ignored
from ir.request import Request

MAX_STOPS = 4
PASSED_ON = ("prompt_cache_key",)
"""Has an effect here, and one at an upstream of the same protocol, too."""
HOSTED = frozenset({"web_search_options"})

# Fields that have an effect here, or that are checked to hold the one value that needs none.
KNOWN = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "parallel_tool_calls",
        "max_completion_tokens",
        "max_tokens",
        "stop",
        "temperature",
        "top_p",
        "stream",
        "stream_options",
        "reasoning_effort",
        "prompt_cache_key",
        "n",
        "logprobs",
        "modalities",
        "audio",
        "response_format",
    }
)


def decode_request(body: object) -> Request:
    """``body`` is parsed JSON of any shape. Raises ``ApiError`` (400) with the path of the first wrong field."""
    if not isinstance(body, dict):
        raise invalid("invalid_json", "the body must be a JSON object")
    model = decode_model(body)
    _refuse(body)
    conversation = decode_messages(body.get("messages"))
    toolbox = decode_tools(body)
    if body.get("web_search_options") is not None and not toolbox.tools:
        raise unsupported("web_search_options", "a hosted web search needs a vendor that runs it")
    parallel = decode_flag(body, "parallel_tool_calls")
    return Request(
        model=model,
        messages=conversation.messages,
        system=conversation.system,
        tools=toolbox.tools,
        tool_choice=toolbox.choice,
        parallel_tool_calls=False if toolbox.legacy else parallel,  # the legacy answer has room for one call
        max_output_tokens=_max_tokens(body),
        stop=_stop(body.get("stop")),
        temperature=decode_number(body, "temperature", 2),
        top_p=decode_number(body, "top_p", 1),
        thinking=decode_effort(body.get("reasoning_effort"), "reasoning_effort"),
        output_format=decode_format(body.get("response_format"), "response_format", "json_schema"),
        stream=decode_flag(body, "stream") or False,
        include_usage=_include_usage(body.get("stream_options")),
        legacy_functions=toolbox.legacy,
        session=decode_session(body),
        dropped_tools=toolbox.dropped,
        extras=_extras(body),
        ignored=list_ignored([*_without_effect(body), *toolbox.dropped, *_prefill(conversation)]),
    )


def _refuse(body: JsonObject) -> None:
    """The known fields that would change the answer and that no upstream here can carry."""
    if body.get("n") is not None and fields.integer(body["n"], "n", 1) > 1:
        raise unsupported("n", "only one choice can be made")
    if decode_flag(body, "logprobs"):
        raise unsupported("logprobs", "log probabilities are not available")
    if body.get("audio") is not None:
        raise unsupported("audio", "audio output is not available")
    modalities = body.get("modalities")
    if modalities is not None and fields.array(modalities, "modalities") != ["text"]:
        raise unsupported("modalities", "only text output is available")


def _without_effect(body: JsonObject) -> list[str]:
    return [name for name, value in body.items() if value is not None and name not in KNOWN]


def _extras(body: JsonObject) -> Extras:
    names = [*_without_effect(body), *(name for name in PASSED_ON if body.get(name) is not None)]
    return extras("chat", {name: body[name] for name in names if name not in HOSTED})


def _prefill(conversation: Conversation) -> list[str]:
    """An answer that the caller began is gone on from as far as the upstream can: that is worth a word."""
    return ["prefill"] if conversation.messages[-1].role == "assistant" else []


def _max_tokens(body: JsonObject) -> int | None:
    limits = [
        fields.integer(body[name], name, 1)
        for name in ("max_completion_tokens", "max_tokens")
        if body.get(name) is not None
    ]
    return limits[0] if limits else None


def _stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        items, paths = [value], ["stop"]
    else:
        items = fields.array(value, "stop", "a string or a list of strings")
        paths = [f"stop[{index}]" for index in range(len(items))]
    if len(items) > MAX_STOPS:
        raise invalid("invalid_value", f"stop: at most {MAX_STOPS} sequences are accepted", "stop")
    for item, path in zip(items, paths, strict=True):
        if not fields.text(item, path):
            raise invalid("invalid_value", f"{path}: must not be empty", path)
    return tuple(items)


def _include_usage(value: object) -> bool:
    if value is None:
        return False
    wanted = fields.mapping(value, "stream_options").get("include_usage")
    return False if wanted is None else fields.boolean(wanted, "stream_options.include_usage")
