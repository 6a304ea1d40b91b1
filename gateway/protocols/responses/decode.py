"""A Responses body → ``ir.Request``. Total: any JSON gives a request or an ``ApiError``.

Strict about what changes the answer: a known field that cannot be carried is a named 400. A tuning knob, or a field
that nobody knows yet, is accepted and listed in ``Request.ignored``: clients add fields every month. Earlier responses
and items must have been put in by ``references.expand``. Source: OpenAI's Responses reference.
"""

from __future__ import annotations

from itertools import chain

from msgspec.structs import replace

from gateway.contracts import JsonObject
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
from gateway.protocols.responses.choice import decode_choice
from gateway.protocols.responses.compaction import (
    COMPACTION,
    PREFILL,
    invalid_compaction,
    is_compaction,
    summary_request,
)
from gateway.protocols.responses.history import History, decode_items
from gateway.protocols.responses.references import Expanded, path_of, previous_not_found
from gateway.protocols.responses.tools import decode_tools
from gateway.wire.json import is_writable
from ir.errors import invalid
from ir.extras import Extras, extras
from ir.ignored import list_ignored
from ir.request import OutputFormat, Request, Thinking

SUMMARIES = ("auto", "concise", "detailed")
OPAQUE = "reasoning.encrypted_content"
# What can be asked to come with hosted tools or with the input: nothing is lost when it does not.
WITHOUT_EFFECT = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)

ECHOED = (
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "user",
)
"""What the response object repeats of the request."""

PASSED_ON = ("metadata", "prompt_cache_key")
"""They have an effect here, and one at an upstream of the same protocol, too."""

# Fields that have an effect here, or that are checked to hold the one value that needs none.
KNOWN = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "stream",
        "store",
        "include",
        "reasoning",
        "text",
        "metadata",
        "prompt_cache_key",
        "previous_response_id",
        "background",
        "conversation",
        "prompt",
        "generate",
        "top_logprobs",
    }
)


def decode_request(body: object) -> Request:
    """``body`` is parsed JSON of any shape. Raises ``ApiError`` (400) with the path of the first wrong field."""
    if not isinstance(body, dict):
        raise invalid("invalid_json", "the body must be a JSON object")
    model = decode_model(body)
    _refuse(body)
    items = _items(body)
    history = decode_items(items)
    if not history.messages:
        raise invalid("missing_input", "input: at least one user or assistant message is needed", "input")
    offer = decode_tools(body.get("tools"), items)
    choice = decode_choice(body.get("tool_choice"), offer.tools)
    included, unmet = _include(body.get("include"))
    thinking, unused = _thinking(body)
    limit = body.get("max_output_tokens")
    request = Request(
        model=model,
        messages=history.messages,
        system="\n\n".join([*_instructions(body), *history.system]),
        tools=offer.tools,
        tool_choice=choice.choice,
        parallel_tool_calls=decode_flag(body, "parallel_tool_calls"),
        max_output_tokens=None if limit is None else fields.integer(limit, "max_output_tokens", 1),
        temperature=decode_number(body, "temperature", 2),
        top_p=decode_number(body, "top_p", 1),
        thinking=replace(thinking, signed=included),
        output_format=_output_format(body),
        stream=decode_flag(body, "stream") or False,
        session=decode_session(body),
        follows=(body.get("previous_response_id") or "").removeprefix("resp_"),
        store=decode_flag(body, "store") is not False,
        echo=_echo(body),
        dropped_tools=offer.dropped,
        extras=_extras(body),
        ignored=list_ignored(
            chain(
                _without_effect(body),
                unmet,
                unused,
                offer.dropped,
                choice.dropped,
                history.ignored,
                _prefill(history),
            )
        ),
    )
    return summary_request(request) if is_compaction(body) else request


def _prefill(history: History) -> list[str]:
    """An answer that the caller began is gone on from as far as the upstream can: that is worth a word."""
    return [PREFILL] if history.messages[-1].role == "assistant" else []


def _refuse(body: JsonObject) -> None:
    """The known fields that would change the answer and that no upstream here can carry."""
    if decode_flag(body, "background"):
        raise unsupported("background", "answers are given while the caller waits")
    if decode_flag(body, "generate") is False:
        raise unsupported("generate", "every request is answered")
    if body.get("conversation") is not None:
        raise unsupported("conversation", "use previous_response_id or send the whole input")
    if body.get("prompt") is not None:
        raise unsupported("prompt", "prompt templates are kept by OpenAI")
    if body.get("top_logprobs") is not None and fields.integer(body["top_logprobs"], "top_logprobs", 0):
        raise unsupported("top_logprobs", "log probabilities are not available")
    if body.get("previous_response_id") is not None and not isinstance(body, Expanded):
        raise previous_not_found(fields.text(body["previous_response_id"], "previous_response_id"))


def _output_format(body: JsonObject) -> OutputFormat | None:
    text = body.get("text")
    return decode_format(None if text is None else fields.mapping(text, "text").get("format"), "text.format")


def _extras(body: JsonObject) -> Extras:
    names = [*_without_effect(body), *(name for name in PASSED_ON if body.get(name) is not None)]
    return extras("responses", {name: body[name] for name in names if name in body})


def _items(body: JsonObject) -> list[tuple[str, JsonObject]]:
    """The input with the path of each item; a trigger at the end asks for compaction and is no part of it."""
    value = body.get("input")
    if isinstance(value, str):
        return [("input", {"role": "user", "content": value})]
    items = fields.array([] if value is None else value, "input", "a string or a list of items")
    found: list[tuple[str, JsonObject]] = []
    for index, entry in enumerate(items[:-1] if is_compaction(body) else items):
        path = path_of(index, body)
        item = fields.mapping(entry, path)
        if item.get("type") == COMPACTION and not isinstance(body, Expanded):
            raise invalid_compaction(path)
        found.append((path, item))
    return found


def _instructions(body: JsonObject) -> list[str]:
    value = body.get("instructions")
    text = "" if value is None else fields.text(value, "instructions")
    return [text] if text else []


def _include(value: object) -> tuple[bool, list[str]]:
    """Whether the opaque form of thinking is asked for, and which wishes stay without effect."""
    ignored: list[str] = []
    names = fields.array([] if value is None else value, "include")
    for index, name in enumerate(names):
        if name in WITHOUT_EFFECT:
            ignored.append("include")
        elif name != OPAQUE:
            raise unsupported(f"include[{index}]", "this cannot be included")
    return OPAQUE in names, ignored


def _thinking(body: JsonObject) -> tuple[Thinking, list[str]]:
    value = body.get("reasoning")
    if value is None:
        return Thinking(), []
    options = fields.mapping(value, "reasoning")
    thinking = decode_effort(options.get("effort"), "reasoning.effort")
    for name in ("summary", "generate_summary"):
        if options.get(name) is not None:
            if options[name] not in SUMMARIES:
                where = f"reasoning.{name}"
                raise invalid("invalid_value", f"{where}: must be {', '.join(SUMMARIES)}", where)
            thinking = replace(thinking, visible=True)
    known = ("effort", "summary", "generate_summary")
    return thinking, [f"reasoning.{name}" for name, wish in options.items() if name not in known and wish is not None]


def _echo(body: JsonObject) -> JsonObject:
    if body.get("metadata") is not None:
        fields.mapping(body["metadata"], "metadata")
    echo = {name: body[name] for name in ECHOED if body.get(name) is not None}
    if not is_writable([[[echo]]]):  # it stands that much deeper in an event
        raise invalid("invalid_json", "the body is nested too deeply")
    return echo


def _without_effect(body: JsonObject) -> list[str]:
    ignored = [name for name, value in body.items() if value is not None and name not in KNOWN]
    if body.get("truncation") == "disabled":  # says that nothing is to be cut, and nothing is
        ignored.remove("truncation")
    text = body.get("text")
    if isinstance(text, dict):
        ignored += [f"text.{name}" for name, value in text.items() if name != "format" and value is not None]
    return ignored
