"""How providers want thinking to be asked for, and the few other things in which they differ, as data. Pure.

``TABLE`` holds the dialects by name, ``RULES`` who speaks which: the first rule of a wire whose pattern is found in
"host model" counts, and a channel may name its dialect itself. Who is not known is asked in the way most servers take,
and is never told to stop thinking: a field that a server does not know is a 400.
Sources: the API references of OpenAI, Anthropic, Alibaba (Qwen), DeepSeek, Zhipu, MiniMax, Xiaomi and OpenRouter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct, structs

from accounts.channels import ChannelView
from accounts.kinds import Transport
from gateway.contracts import JsonObject
from ir.request import Thinking


class Dialect(Struct, frozen=True):
    """``native``: the wire's own fields are understood, ``off`` among them only with ``native_off``.

    ``on`` and ``off`` are put into the body beside them; ``effort`` and ``budget`` are the paths that take those.
    ``budgeted``: thinking is always asked for by a number of tokens. ``usual`` is the effort where thinking is wanted,
    none is named, and nothing else turns it on. ``limit`` is Chat's name of the output limit. ``highest`` stands in
    for the effort xhigh where that is unknown.

    ``replay`` is what becomes of Chat's ``reasoning_content`` in the history: as "given", "always" there beside calls
    (empty where nobody sent it back: such models refuse calls that come without), or "never". ``cached`` by a key that
    tells which conversations begin alike.
    """

    native: bool = False
    native_off: bool = False
    budgeted: bool = False
    usual: str = ""
    on: Mapping[str, Any] = {}
    off: Mapping[str, Any] = {}
    effort: str = ""
    budget: str = ""
    limit: str = "max_tokens"
    highest: str = ""
    replay: Literal["given", "always", "never"] = "given"
    cached: bool = False

    def told(self, thinking: Thinking, channel: ChannelView, limit: int) -> Thinking:
        """What the client role is told, in the words of its wire."""
        silent = Thinking(visible=thinking.visible)
        if not self.native or (thinking.enabled is False and not self.native_off):
            return silent
        if not self.budgeted:
            effort = thinking.effort or effort_of(thinking) or (self.usual if thinking.enabled else "") or None
            if self.highest and effort == "xhigh":
                effort = self.highest
            return structs.replace(thinking, budget_tokens=None, effort=effort)
        budget = min(thinking.budget_tokens or channel.thinking_budget, limit - 1)
        if not thinking.enabled or budget < LEAST_BUDGET:
            return Thinking(enabled=False) if thinking.enabled is False else silent
        return Thinking(enabled=True, budget_tokens=budget, visible=thinking.visible)

    def put(self, body: JsonObject, thinking: Thinking) -> None:
        """Adds what the wire has no word for."""
        if thinking.enabled is False:
            body.update(self.off)
            return
        if thinking.enabled:
            body.update(self.on)
        if self.effort and thinking.effort:
            _put(body, self.effort, thinking.effort)
        elif self.budget and thinking.budget_tokens:
            _put(body, self.budget, thinking.budget_tokens)

    def recall(self, messages: list[JsonObject], thinking: Thinking) -> list[JsonObject]:
        """A Chat history, its thinking as these models want it; the messages may be changed in place."""
        if self.replay == "never":
            for message in messages:
                message.pop(THOUGHTS, None)
            return [message for message in messages if message["content"] is not None or "tool_calls" in message]
        if self.replay == "always" and thinking.enabled is not False:
            for message in messages:
                if "tool_calls" in message:
                    message.setdefault(THOUGHTS, "")
        return messages


def effort_of(thinking: Thinking) -> str:
    """The effort that is usual for a budget in tokens; "" without one."""
    budget = thinking.budget_tokens
    if budget is None:
        return ""
    return "low" if budget < 4096 else "medium" if budget < 16_384 else "high"


LEAST_BUDGET = 1024
THOUGHTS = "reasoning_content"
PLAIN = Dialect(native=True)

TABLE: Mapping[str, Dialect] = {
    "openai": Dialect(
        native=True, native_off=True, usual="medium", limit="max_completion_tokens", replay="never", cached=True
    ),
    "reasoner": Dialect(  # OpenAI's models that cannot stop thinking
        native=True, limit="max_completion_tokens", replay="never", cached=True
    ),
    "qwen": Dialect(on={"enable_thinking": True}, off={"enable_thinking": False}, budget="thinking_budget"),
    "typed": Dialect(on={"thinking": {"type": "enabled"}}, off={"thinking": {"type": "disabled"}}, replay="always"),
    "openrouter": Dialect(
        on={"reasoning": {"enabled": True}}, off={"reasoning": {"enabled": False}},
        effort="reasoning.effort", budget="reasoning.max_tokens",
    ),
    "adaptive": Dialect(native=True, native_off=True, usual="xhigh"),
    "adaptive_46": Dialect(native=True, native_off=True, usual="high", highest="high"),  # has no xhigh yet
    "budget": Dialect(native=True, native_off=True, budgeted=True),
    "silent": Dialect(),
}  # fmt: skip

OPENAI = (
    (r"\bgpt-(5\.[1-9]|[6-9])", "openai"),
    (r"\b(gpt(?!-oss)|o[1-9]|chatgpt)\b", "reasoner"),  # the open models are served by everybody
)

RULES: Mapping[Transport, tuple[tuple[str, str], ...]] = {
    Transport.OPENAI_CHAT: (
        (r"openrouter\.ai", "openrouter"),
        (r"qwen|qwq|dashscope", "qwen"),
        (r"deepseek|glm|bigmodel|\bz\.ai|mimo|minimax", "typed"),
        *OPENAI,
    ),
    Transport.OPENAI_RESPONSES: OPENAI,
    Transport.ANTHROPIC_MESSAGES: (
        (r"claude-(opus|sonnet)-4[.-]6\b", "adaptive_46"),
        (r"claude-(opus|sonnet)-4[.-][6-9]\b|claude-[a-z]+-([5-9]|\d\d)\b", "adaptive"),
        (r"", "budget"),
    ),
}


def choose(transport: Transport, channel: ChannelView, model: str) -> Dialect:
    """The dialect of a channel for one of its provider's models."""
    if channel.dialect:
        return TABLE[channel.dialect]
    whom = f"{urlsplit(channel.url).hostname} {model}".lower()
    name = next((name for pattern, name in RULES[transport] if re.search(pattern, whom)), "")
    return TABLE.get(name, PLAIN)


def _put(body: JsonObject, path: str, value: object) -> None:
    """Sets a field, one level deep at most, without touching what the table itself holds."""
    outer, _, inner = path.partition(".")
    body[outer] = {inner: value} if inner else value
