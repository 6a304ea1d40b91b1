"""A Messages body → ``ir.Request``.

Source: Anthropic's Messages API, as its SDKs type it and its clients use it. Strict in what cannot be carried, and
tolerant of everything else: clients add fields every month and probe for features by the 400s they get, so unknown
fields are listed as ignored and ``cache_control`` may stand anywhere.
"""

from __future__ import annotations

from typing import Any

from gateway.protocols.messages.caching import locate_system
from gateway.protocols.messages.fields import (
    refuse,
    take_count,
    take_flag,
    take_list,
    take_name,
    take_object,
    take_share,
    take_text,
)
from gateway.protocols.messages.history import decode_messages, decode_texts
from gateway.protocols.messages.tools import decode_choice, decode_tools
from gateway.wire.json import is_writable, parse
from ir.errors import ApiError, Kind, invalid
from ir.extras import extras
from ir.ignored import list_ignored
from ir.request import OutputFormat, Request, Thinking

MIN_BUDGET = 1024
FORMAT = "output_config.format"
LONGEST_USER_ID = 1024
_NO_LIMIT = 2**31

_KNOWN = frozenset(
    {
        "cache_control",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)
_PASSED_ON = ("cache_control", "metadata")
_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh"}


def decode_request(body: object) -> Request:
    """``body`` is parsed JSON of any shape. Raises ``ApiError`` and nothing else."""
    if not isinstance(body, dict):
        raise invalid("invalid_json", "the request body must be a JSON object")
    _refuse_server_side(body)
    unknown = [name for name, value in body.items() if name not in _KNOWN and value is not None]
    ignored = unknown.copy()
    model = take_name(body.get("model"), "model")
    max_tokens = _decode_max_tokens(body.get("max_tokens"))
    history = decode_messages(body.get("messages"))
    offer = decode_tools(body.get("tools"))
    choice, parallel = decode_choice(body.get("tool_choice"), offer)
    effort = _decode_effort(body.get("output_config"), ignored)
    thinking = _decode_thinking(body.get("thinking"), effort, max_tokens)
    if choice.demands_call and _is_enabled(body.get("thinking")):
        raise refuse("tool_choice", "a tool cannot be forced while thinking is enabled", "thinking_with_forced_tool")
    system = body.get("system")
    top_k = body.get("top_k")
    return Request(
        model=model,
        messages=history.messages,
        system="\n\n".join([*([] if system is None else decode_texts(system, "system")), *history.system]),
        tools=offer.tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_output_tokens=max_tokens,
        stop=_decode_stop(body.get("stop_sequences")),
        temperature=take_share(body.get("temperature"), "temperature"),
        top_p=take_share(body.get("top_p"), "top_p"),
        top_k=None if top_k is None else take_count(top_k, "top_k", 0),
        thinking=thinking,
        output_format=_decode_format(body),
        stream=bool(take_flag(body.get("stream"), "stream")),
        session=_decode_session(body.get("metadata")),
        dropped_tools=offer.ignored,
        extras=extras("messages", {name: body[name] for name in (*unknown, *_PASSED_ON) if body.get(name) is not None}),
        breakpoints=(*offer.breakpoints, *locate_system(system), *history.breakpoints),
        ignored=list_ignored([*ignored, *offer.ignored, *history.ignored]),
    )


def decode_count(body: object) -> Request:
    """The body of a ``count_tokens`` call: the same, but without an output limit."""
    return decode_request({**body, "max_tokens": _NO_LIMIT} if isinstance(body, dict) else body)


def _refuse_server_side(body: dict[str, Any]) -> None:
    """What only Anthropic's servers can do. A refused thread makes the SDKs send the whole history instead."""
    if body.get("thread") is not None:
        raise ApiError(
            Kind.INVALID_REQUEST,
            "thread_unsupported_request",
            "thread: threads are not supported; send the full conversation without it",
            param="thread",
            details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
        )
    if body.get("mcp_servers"):
        raise refuse("mcp_servers", "servers cannot be called from here", "unsupported_parameter")
    if body.get("container") is not None:
        raise refuse("container", "containers are not supported", "unsupported_parameter")


def _decode_max_tokens(value: object) -> int:
    if value is None:
        raise refuse("max_tokens", "Field required", "missing_max_tokens")
    return take_count(value, "max_tokens", 1)


def _decode_stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    sequences = []
    for index, entry in enumerate(take_list(value, "stop_sequences")):
        text = take_text(entry, f"stop_sequences.{index}")
        if not text.strip():
            raise refuse(f"stop_sequences.{index}", "each stop sequence must contain non-whitespace", "invalid_value")
        sequences.append(text)
    return tuple(sequences)


def _decode_session(value: object) -> str:
    """The session that Claude Code names in the user's id: a JSON object, or at the end of a longer name. Any other id
    is a user's, who has many conversations."""
    if value is None:
        return ""
    user = take_object(value, "metadata").get("user_id")
    text = "" if user is None else take_text(user, "metadata.user_id")
    if not text.startswith("{"):
        return text.rpartition("_session_")[2] if "_session_" in text else ""
    try:
        named = parse(text.encode()) if len(text) <= LONGEST_USER_ID else {}
    except ApiError:
        return ""
    session = named.get("session_id") if isinstance(named, dict) else None
    return session if isinstance(session, str) else ""


def _decode_format(body: dict[str, Any]) -> OutputFormat | None:
    """``output_config.format``, or the older ``output_format`` of the beta."""
    config = body.get("output_config")
    value, path = (None if config is None else take_object(config, "output_config").get("format")), FORMAT
    if value is None:
        value, path = body.get("output_format"), "output_format"
    if value is None:
        return None
    form = take_object(value, path)
    if form.get("type") != "json_schema":
        raise refuse(f"{path}.type", "must be json_schema", "unsupported_response_format")
    schema = take_object(form.get("schema"), f"{path}.schema")
    if not is_writable(schema):
        raise refuse(f"{path}.schema", "is nested too deep", "invalid_value")
    return OutputFormat(path, schema)


def _decode_effort(value: object, ignored: list[str]) -> str | None:
    if value is None:
        return None
    config = take_object(value, "output_config")
    if config.get("effort") is None:
        return None
    effort = _EFFORTS.get(take_text(config["effort"], "output_config.effort"))
    if effort is None:
        ignored.append("output_config.effort")
    return effort


def _is_enabled(thinking: object) -> bool:
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _decode_thinking(value: object, effort: str | None, max_tokens: int) -> Thinking:
    if value is None:
        return Thinking(effort=effort)
    fields = take_object(value, "thinking")
    display = fields.get("display")
    visible = display is None or take_text(display, "thinking.display") != "omitted"
    match fields.get("type"):
        case "disabled":
            return Thinking(enabled=False, effort=effort)
        case "adaptive":
            return Thinking(enabled=True, effort=effort, visible=visible)
        case "enabled":
            budget = take_count(fields.get("budget_tokens"), "thinking.enabled.budget_tokens", MIN_BUDGET)
            if budget >= max_tokens:
                raise refuse("thinking.enabled.budget_tokens", "must be less than max_tokens", "invalid_value")
            return Thinking(enabled=True, effort=effort, budget_tokens=budget, visible=visible)
        case _:
            raise refuse("thinking.type", "must be enabled, adaptive or disabled", "invalid_value")
