"""What models write, what the parser makes of it, and turns of one or several attempts played without a network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from gateway.contracts import DEFAULT_POLICY, Policy
from gateway.gate import Gate
from gateway.textbridge.assembler import Bridge
from gateway.textbridge.parser import Parser
from gateway.textbridge.sink import Note
from gateway.textbridge.tries import Tries
from ir.errors import Fault
from ir.events import Event, Finish, FinishReason, PartKind, Unified
from ir.grammar import check
from ir.request import Message, Request, Text, Tool, ToolCall, ToolChoice, ToolResult
from ir.response import Response, fold

T = "<<CALL_0a1b2c3d>>"
AUTO = ToolChoice()
TOOLS = ("lookup", "write", "Read")
VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "fixtures" / "parser-vectors.json").read_text())

Told = tuple[str, Any]


class Recorder:
    """A sink that remembers. ``raw`` is the input again, when nothing was lost."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._told: list[tuple[str, list[str]]] = []
        self._raw: list[str] = []

    @property
    def told(self) -> list[Told]:
        """Neighbouring texts are one."""
        return [(kind, tuple(pieces) if kind == "call" else "".join(pieces)) for kind, pieces in self._told]

    @property
    def raw(self) -> str:
        return "".join(self._raw)

    def text(self, text: str) -> None:
        self._tell("text", text)

    def thinking(self, text: str) -> None:
        self._tell("thinking", text)

    def thinking_opened(self) -> None:
        self._raw.append("<thinking>")

    def thinking_closed(self) -> None:
        self._raw.append("</thinking>")

    def call(self, name: str, arguments: str, raw: str) -> None:
        self._told.append(("call", [name, arguments]))
        self._raw.append(raw)

    def note(self, note: Note) -> None:
        self.notes.append(note)

    def _tell(self, kind: str, text: str) -> None:
        assert text
        if not self._told or self._told[-1][0] != kind:
            self._told.append((kind, []))
        self._told[-1][1].append(text)
        self._raw.append(text)


def parse(pieces: Iterable[str], *, trigger: str = T, tools: Iterable[str] = TOOLS, thinking: bool = True) -> Recorder:
    recorder = Recorder()
    parser = Parser(recorder, trigger, tools, thinking=thinking)
    for piece in pieces:
        parser.feed(piece)
    parser.close()
    return recorder


def calls(name: str, arguments: str = '{"q":"a"}', trigger: str = T) -> str:
    return f'{trigger}\n<invoke name="{name}">{arguments}</invoke>'


def ask(*said: str | Message, choice: ToolChoice = AUTO, tools: Sequence[str] = TOOLS, **rest: Any) -> Request:
    """A request for ``said``, user and assistant in turn."""
    messages = tuple(
        each if isinstance(each, Message) else Message("assistant" if index % 2 else "user", (Text(each),))
        for index, each in enumerate(said or ("hi",))
    )
    offered = tuple(Tool(name, f"To {name}.", {"type": "object"}) for name in tools)
    return Request("m", messages, tools=offered, tool_choice=choice, **rest)


def history() -> tuple[Message, Message, Message]:
    """A question, a call, and its result."""
    return (
        Message("user", (Text("look it up"),)),
        Message("assistant", (ToolCall("call_1", "lookup", '{"q":"a"}'),)),
        Message("user", (ToolResult("call_1", "Found result"),)),
    )


def stop(unified: Unified = Unified.STOP) -> Finish:
    return Finish(FinishReason(unified, "end"))


class Played(Struct):
    """What the caller got, and what it took. ``prompts``: the request of each attempt; ``sent_before_end``: events
    that went out while the last attempt was still running."""

    events: list[Event]
    prompts: list[Request]
    cancelled: bool = False
    unsatisfied: bool = False
    sent_before_end: int = 0
    notes: tuple[Note, ...] = ()

    @property
    def response(self) -> Response:
        return fold(self.events)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.response.of(PartKind.TEXT))

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(part.name, part.text) for part in self.response.of(PartKind.TOOL_CALL)]

    @property
    def finish(self) -> Unified:
        return self.response.finish.unified


def play(
    request: Request,
    *answers: str | Fault,
    policy: Policy = DEFAULT_POLICY,
    exposed: bool = False,
    thinking: bool = False,
    end: Finish | None = None,
) -> Played:
    """Lets each attempt answer in turn, ``T`` standing for its trigger. Raises the last ``Fault`` if nothing helped."""
    tries = Tries(request, policy)
    played = Played([], [])
    for index, answer in enumerate(answers):
        trigger = f"<<CALL_{index:08x}>>"
        played.prompts.append(tries.request)
        bridge = Bridge(tries.request, trigger, policy, thinking=thinking, exposed=exposed)
        heard: list[Event] = []
        try:
            _attempt(answer, trigger, bridge, Gate(tries.request, exposed), end or stop(), heard, played)
        except Fault as fault:
            assert not played.events, "an attempt failed after something went out"
            if tries.missed(fault.reason, heard):
                continue
            outcome = tries.outcome()
            if outcome is None:
                raise
            played.events, played.unsatisfied = list(outcome), True
        else:
            played.events = list(tries.charge(played.events))
        played.notes = tuple(bridge.notes)
        break
    check(played.events)
    assert len(played.prompts) == len(answers), "an attempt was never asked for"
    return played


def _attempt(
    answer: str | Fault, trigger: str, bridge: Bridge, gate: Gate, end: Finish, heard: list[Event], played: Played
) -> None:
    if isinstance(answer, Fault):
        raise answer
    for sign in answer.replace(T, trigger):
        if bridge.done:
            break
        fresh = bridge.feed(sign)
        heard += fresh
        played.events += gate.see(fresh)
    played.cancelled, played.sent_before_end = bridge.done, len(played.events)
    fresh = bridge.close(end)
    heard += fresh
    played.events += gate.see(fresh)
