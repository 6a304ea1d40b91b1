"""Short believable answers for the demo names, with a tool call where the prompt plainly asks for one.

Only what a person wrote counts: coding clients surround it with blocks of their own (``<system-reminder>…``), which
name every tool they have, and a model that took those for a wish would call tools, and start agents, without end.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from simulator import examples
from simulator.steps import Call, Calls, Prompt, Script, Text, Tool
from simulator.words import deltas, picture_line

_WORD = re.compile(r"[a-z]{4,}")
_CLIENT_BLOCK = re.compile(r"<([a-zA-Z_-]+)(?:\s[^>]*)?>.*?</\1>", re.DOTALL)
_PROPER = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-zà-ÿ]+(?:[ -][A-Z][a-zà-ÿ]+)*")
_NO_TOOLS = re.compile(r"\bdo not (call|use) any tools?\b")
# Words that stand in any tool's description and say nothing about when to use it.
_COMMON_TEXT = (
    "about also call could does from function given have hello here into just like need please return returns should "
    "some that the them then there these this those tool used uses using value want what when where which will with "
    "would your current string name number list text"
)
COMMON = frozenset(_COMMON_TEXT.split())
ANSWERS = (
    (r"\b(hi|hello|hey|good (morning|evening))\b", "Hello! How can I help you today?"),
    (r"\b(thanks|thank you)\b", "You're welcome! Is there anything else you'd like to look at?"),
    (r"\bwho are you\b|\bwhat are you\b", "I'm a simulated model: I answer quickly, and I never leave this machine."),
    (r"\b(haiku|poem)\b", "Pools of quiet light,\nrequests drift in, answers rise,\nthe gateway stays calm."),
    (r"\b(code|python|function|bug)\b", "Here is a small start:\n\n```python\ndef main() -> None:\n    ...\n```\n"),
)
FALLBACK = (
    "That's a good question. In short: yes, and the details depend on what you want to do with it.",
    "Let me put it simply: start small, measure, and then decide what to change next.",
    "Here is the gist of it: the simplest version that works is usually the right first step.",
)


def answer(prompt: Prompt) -> Script:
    """Calls a tool that the prompt mentions, answers from results that came back, or just says something."""
    if prompt.results:
        yield from (Text(one) for one in deltas(_from_results(prompt.results)))
        return
    said = _CLIENT_BLOCK.sub("", prompt.text).strip()
    chosen = _mentioned(said, prompt.tools)
    if chosen is None:
        yield from (Text(one) for one in deltas(_say(said, prompt)))
        return
    results = yield Calls((Call(chosen.name, _arguments(chosen, said)),))
    yield from (Text(one) for one in deltas(_from_results(results)))


def _from_results(results: tuple[str, ...]) -> str:
    return "Here is what I found: " + "; ".join(" ".join(result.split()) for result in results)


def _say(said: str, prompt: Prompt) -> str:
    if prompt.pictures:
        return f"I can see {len(prompt.pictures)} image(s): " + ", ".join(map(picture_line, prompt.pictures)) + "."
    lowered = said.lower()
    for pattern, text in ANSWERS:
        if re.search(pattern, lowered):
            return text
    return FALLBACK[zlib.crc32(said.encode()) % len(FALLBACK)]


def _mentioned(said: str, tools: Sequence[Tool]) -> Tool | None:
    lowered = said.lower()
    if _NO_TOOLS.search(lowered):
        return None
    for tool in tools:
        name = tool.tool_name.lower()
        if re.search(rf"\b({re.escape(name)}|{re.escape(name.replace('_', ' '))})\b", lowered):
            return tool
    words = set(_WORD.findall(lowered)) - COMMON
    for tool in tools:
        if words & (_words_of(tool) - COMMON):
            return tool
    return None


def _words_of(tool: Tool) -> set[str]:
    purpose = re.split(r"[.\n]", tool.description.strip())[0]  # the rest of a description is rules of use
    return set(_WORD.findall(f"{tool.tool_name} {purpose}".lower()))


def _arguments(tool: Tool, text: str) -> dict[str, object]:
    """Valid for the schema; the first free string takes a proper noun of the prompt, which reads like sense."""
    arguments: dict[str, object] = examples.arguments(tool.schema)
    proper = _PROPER.findall(text)
    properties = tool.schema.get("properties", {})
    for name, value in arguments.items():
        plain = {"type", "description", "title"} >= set(properties.get(name, {}))
        if proper and plain and value == name:
            arguments[name] = proper[-1]
            break
    return arguments
