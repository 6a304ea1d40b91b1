"""What a model reads and writes where the wire knows nothing but text: the client's text protocol for tools.

The client tells the tools in the system text, a fresh trigger for calls, and earlier calls and results in its messages;
a model that follows what it is told answers in the same form. An upstream that takes one text alone gets the messages
as ``<turn>`` elements.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from typing import Any

from simulator.reading import Dialogue
from simulator.steps import Announce, Calls, Picture, Prompt, Script, Step, Text, Thinking, Tool, Utterance

PIECE = 7  # characters a delta of a call: its markers come in pieces, as from a real model

_TRIGGER = re.compile(r"<<CALL_[0-9A-Za-z]{8}>>")
_INSTRUCTIONS = re.compile(r"<instructions>\n(.*?)\n</instructions>\n\n", re.DOTALL)
_TURN = re.compile(r'<turn role="(user|assistant)">\n(.*?)\n</turn>', re.DOTALL)
_FUNCTION = re.compile(r'<function name="([^"]*)">\n(.*?)JSON Schema of the arguments:\n(.*?)\n</function>', re.DOTALL)
_RESULT = re.compile(r'<tool_result id="[^"]*" name="([^"]*)"[^>]*>(.*)</tool_result>', re.DOTALL)
_CALL = re.compile(r'\s*<<CALL_[0-9A-Za-z]{8}>>\n<invoke name="([^"]*)"[^>]*>(.*?)</invoke>', re.DOTALL)
_PROTOCOL = re.compile(
    r"(?:^|\n\n)(?:You can call the functions listed below\.|Earlier messages of this conversation hold function calls)"
    r".*",
    re.DOTALL,
)
_THINK = re.compile(r"(?:^|\n\n)Think before you answer: begin your message with <thinking>.*", re.DOTALL)
_HINT = "Think inside <thinking>…</thinking> first, then answer."


@dataclass(frozen=True)
class Spoken:
    """``whole`` is everything that was read; ``aloud``: thinking is asked for in the text itself."""

    prompt: Prompt
    whole: str
    trigger: str
    aloud: bool

    def steps(self, script: Script) -> Iterator[Step]:
        """The script on a wire of text: calls are written out and end the turn; their results come with the next."""
        thinking = False
        for step in script:
            if self.aloud and isinstance(step, Thinking):
                yield Text(step.text if thinking else f"<thinking>{step.text}")
                thinking = True
                continue
            if thinking:
                yield Text("</thinking>")
                thinking = False
            if isinstance(step, Calls):
                yield from self._write(step)
                return
            yield step
        if thinking:
            yield Text("</thinking>")

    def _write(self, calls: Calls) -> Iterator[Text]:
        written = "\n\n".join(
            f'{self.trigger}\n<invoke name="{escape(one.name)}">{json.dumps(one.arguments)}</invoke>'
            for one in calls.calls
        )
        size = 1 if calls.announce is Announce.CHARACTERS else PIECE
        for start in range(0, len(written), size):
            yield Text(written[start : start + size])


def read(text: str, model: str, pictures: tuple[Picture, ...], parameters: Mapping[str, str]) -> Spoken:
    """One text for everything."""
    instructions = _INSTRUCTIONS.match(text)
    system = _plain(instructions[1], "turn|instructions|conversation") if instructions else ""
    turns = [(role, _plain(said, "turn|instructions|conversation")) for role, said in _TURN.findall(text)]
    return _spoken(text, system, turns or [("user", text)], model, pictures, parameters)


def read_messages(messages: Sequence[tuple[str, str]], model: str) -> Spoken:
    """Pairs of role and text."""
    system = "\n\n".join(text for role, text in messages if role == "system")
    said = [(role, text) for role, text in messages if role != "system"]
    return _spoken("\n".join(text for _, text in messages), system, said, model, (), {})


def _spoken(
    whole: str,
    system: str,
    said: Sequence[tuple[str, str]],
    model: str,
    pictures: tuple[Picture, ...],
    parameters: Mapping[str, str],
) -> Spoken:
    protocol = _PROTOCOL.search(system)
    trigger = _TRIGGER.search(protocol[0]) if protocol else None
    aloud = _THINK.search(system) is not None
    tools = tuple(_tool(*found) for found in _FUNCTION.findall(protocol[0] if protocol else ""))
    history = [utterance for role, text in said for utterance in _utterances(role, text)]
    last = history.pop().text if history and history[-1].role == "user" else ""
    plain = _THINK.sub("", _PROTOCOL.sub("", system))
    dialogue = Dialogue(plain, tuple(history), last, pictures)
    prompt = Prompt(
        model=model,
        text=last,
        system=plain,
        history=dialogue.history,
        pictures=pictures,
        tools=tools,
        results=dialogue.results,
        asked=dialogue.asked,
        parameters={**parameters, "thinking": "true"} if aloud else parameters,
    )
    return Spoken(prompt, whole, trigger[0] if trigger else "", aloud)


def _tool(name: str, description: str, schema: str) -> Tool:
    parsed: Any = json.loads(schema)
    name = unescape(name)
    return Tool(name, name, "text", _plain(description.strip(), "function|function_list"), parsed)


def _utterances(role: str, text: str) -> Iterator[Utterance]:
    if role == "user":
        result = _RESULT.fullmatch(text)
        if result:
            yield Utterance("tool", _plain(result[2], "tool_result"), unescape(result[1]))
            return
        said = _plain(text.removesuffix(_HINT).rstrip("\n") if text.endswith(_HINT) else text, "tool_result")
        yield Utterance("user", said)
        return
    before = _CALL.split(text, maxsplit=1)[0]
    if before:
        yield Utterance("assistant", _plain(before, "tool_result|invoke|thinking"))
    for name, arguments in _CALL.findall(text):
        yield Utterance("call", arguments, unescape(name))


def _plain(text: str, names: str) -> str:
    """Undoes how content is told that looks like one of these tags."""
    return re.sub(rf"&(?:lt;(?=/?(?:{names})\b)|amp;(?=(?:amp;)*lt;/?(?:{names})\b))", _sign, text)


def _sign(entity: re.Match[str]) -> str:
    return "<" if entity[0] == "&lt;" else "&"
