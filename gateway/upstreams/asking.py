"""What a provider is asked: the turn in the words of its wire, as its channel wants it. Pure.

Later wins: the caller's extra fields (only where the caller speaks the same protocol), the turn itself, the operator's
extra parameters. A caller's field that would choose another model is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec import Struct, structs

from accounts.channels import ChannelView
from accounts.kinds import Transport
from gateway.contracts import ClientRole, JsonObject, Target
from gateway.protocols.chat import client as chat
from gateway.protocols.messages import caching
from gateway.protocols.messages import client as messages
from gateway.protocols.responses import client as responses
from gateway.upstreams import dialects
from gateway.upstreams.dialects import Dialect
from gateway.upstreams.fitting import Fitting
from gateway.wire.json import dump
from ir.request import Request, Thinking, ToolResult
from ir.tokens import MAX_PER_CHARACTER, estimate_request

HEADROOM = 1024
"""Tokens of the window that are left free beside prompt and answer: an estimate may be that wrong."""

CHOOSES_A_MODEL = frozenset({"models", "route", "fallbacks"})
ANTHROPIC_VERSION = "2023-06-01"
OPENAI_NAME, ANTHROPIC_NAME = 64, 128  # the longest name of a tool


class Wire(Struct, frozen=True):
    """How a kind of provider is spoken to. ``protocol`` is what a caller must speak for its extra fields to go on."""

    transport: Transport
    role: ClientRole
    protocol: str
    longest_name: int

    def headers(self, target: Target) -> dict[str, str]:
        if self.transport is Transport.ANTHROPIC_MESSAGES:
            return {"x-api-key": target.credential, "anthropic-version": ANTHROPIC_VERSION}
        return {"authorization": f"Bearer {target.credential}"}


WIRES = (
    Wire(Transport.OPENAI_CHAT, chat, "chat", OPENAI_NAME),
    Wire(Transport.OPENAI_RESPONSES, responses, "responses", OPENAI_NAME),
    Wire(Transport.ANTHROPIC_MESSAGES, messages, "messages", ANTHROPIC_NAME),
)

SPEAKS: Mapping[Transport, str] = {wire.transport: wire.protocol for wire in WIRES}


def compose(wire: Wire, request: Request, target: Target, channel: ChannelView) -> tuple[bytes, Fitting]:
    """The body, and what gives the calls of the answer their names back."""
    fitting = Fitting(request, wire.longest_name)
    dialect = dialects.choose(wire.transport, channel, target.model)
    limit = _limit(wire, fitting.request, channel)
    thinking = _thinking(fitting.request, target, channel, dialect)
    told = dialect.told(thinking, channel, limit or channel.max_output_tokens)
    asked = structs.replace(fitting.request, thinking=told, max_output_tokens=limit)
    body = wire.role.request_body(asked, target.model)
    dialect.put(body, thinking)
    if wire.transport is Transport.OPENAI_CHAT:
        body["messages"] = dialect.recall(body["messages"], thinking)
        if limit is not None:
            body[dialect.limit] = body.pop("max_completion_tokens")
    extras = carried_fields(request) if request.extras.protocol == wire.protocol else {}
    merged = {**extras, **body, **channel.extra_params}
    if dialect.cached and request.session:  # a digest: in other protocols the session may name a user
        merged.setdefault("prompt_cache_key", hashlib.sha256(request.session.encode()).hexdigest()[:32])
    if wire.transport is Transport.ANTHROPIC_MESSAGES and not request.breakpoints and caching.FIELD not in merged:
        caching.mark(merged)
    if forbids_thinking(wire.transport, request):
        _stop_thinking(merged)
    return dump(merged), fitting


def forbids_thinking(transport: str, request: Request) -> bool:
    """Whether the turn must go without thinking: Anthropic refuses it beside a demanded call."""
    return transport == Transport.ANTHROPIC_MESSAGES and bool(request.tools) and request.tool_choice.demands_call


def carried_fields(request: Request) -> JsonObject:
    """The caller's extra fields that go to an upstream of the caller's protocol."""
    return {name: value for name, value in request.extras.fields.items() if name not in CHOOSES_A_MODEL}


def _stop_thinking(body: JsonObject) -> None:
    """Whoever asked for it, the operator's extra parameters included."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "disabled":
        body.pop("thinking", None)


def _limit(wire: Wire, request: Request, channel: ChannelView) -> int | None:
    """The output limit that fits the channel and its window; only Anthropic wants one where the caller gave none."""
    wanted = request.max_output_tokens
    if wanted is None and wire.transport is not Transport.ANTHROPIC_MESSAGES:
        return None
    most = min(channel.max_output_tokens, wanted or channel.max_output_tokens)
    if _most_tokens(request) + most + HEADROOM <= channel.context_tokens:
        return most
    return max(1, min(most, channel.context_tokens - estimate_request(request) - HEADROOM))


def _most_tokens(request: Request) -> float:
    """More than any estimate would give, for a look at every text but not into it."""
    texts, others = len(request.system), 0
    for message in request.messages:
        for part in message.content:
            size = getattr(part, "text", None) or getattr(part, "arguments", None) or getattr(part, "content", None)
            texts += len(size) if isinstance(size, str) else 0
            others += not isinstance(size, str)
    return texts * MAX_PER_CHARACTER + (others + len(request.messages)) * HEADROOM


def _thinking(request: Request, target: Target, channel: ChannelView, dialect: Dialect) -> Thinking:
    """What is wanted of this turn: the model's name, then the caller, then the channel's own effort.

    Anthropic's older models insist on their own signed thinking in the turn that a tool result goes on with. Ours is
    signed by nobody, so such a turn goes without.
    """
    thinking = request.thinking
    if target.parameters.get("thinking") == "true" and not thinking.enabled:
        thinking = structs.replace(thinking, enabled=True)
    if dialect.budgeted and thinking.enabled and _goes_on(request):
        return Thinking(visible=thinking.visible)
    if thinking.enabled is False:
        return Thinking(enabled=False)
    effort = thinking.effort or target.parameters.get("effort") or channel.effort or None
    return structs.replace(thinking, effort=effort)


def _goes_on(request: Request) -> bool:
    return any(isinstance(part, ToolResult) for part in request.messages[-1].content) if request.messages else False
