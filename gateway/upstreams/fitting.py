"""Names of tools and ids of calls, made to fit what a provider takes, and what the caller has. Pure.

A name that is too long or holds other characters is shortened and ends in a hash of itself, so that equal names stay
equal in every turn, and comes back as the caller's own. Ids of the history need no way back.

Some servers begin to count their calls anew in every answer (``call_0``). The id of a call that the conversation has
already is made another, or the caller's next request would hold two calls of one id, and nobody would take it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from msgspec import structs

from ir.events import Event, PartStart
from ir.request import Content, Message, Request, ToolCall, ToolResult

LONGEST_ID = 40
LONGEST_OWN = 64  # of an id that is made here: the most that the vendors take

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class Fitting:
    """For one request: ``request`` is what goes out, ``callers`` gives a call its own name back."""

    def __init__(self, request: Request, longest_name: int) -> None:
        self._longest = longest_name
        names = {tool.name: self._name(tool.name) for tool in request.tools}
        self._callers = {fitted: name for name, fitted in names.items() if fitted != name}
        self._history = request.messages
        self._taken: set[str] | None = None  # ids of calls, looked up for the first call of the answer
        history = tuple(self._message(message) for message in request.messages)
        if self._callers or any(new is not old for new, old in zip(history, request.messages, strict=True)):
            request = self._fit(request, history)
        self.request = request

    def callers(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events, with every call under the name that the caller gave the tool, and an id of its own."""
        if not any(isinstance(event, PartStart) and event.name for event in events):
            return events
        return [self._call(event) if isinstance(event, PartStart) and event.name else event for event in events]

    def _call(self, start: PartStart) -> PartStart:
        name = self._callers.get(start.name, start.name)
        call_id = self._own_id(start.call_id)
        if name == start.name and call_id == start.call_id:
            return start
        return structs.replace(start, name=name, call_id=call_id)

    def _own_id(self, given: str) -> str:
        if self._taken is None:
            self._taken = {
                part.id for message in self._history for part in message.content if isinstance(part, ToolCall)
            }
        number, call_id = len(self._taken), given
        while call_id in self._taken:
            digest = hashlib.sha256(f"{number}:{given}".encode()).hexdigest()
            call_id, number = f"tc_{digest[:12]}_{given}", number + 1
            if len(call_id) > LONGEST_OWN:
                call_id = f"tc_{digest[: LONGEST_ID - 3]}"
        self._taken.add(call_id)
        return call_id

    def _fit(self, request: Request, history: tuple[Message, ...]) -> Request:
        choice = structs.replace(request.tool_choice, names=tuple(map(self._name, request.tool_choice.names)))
        tools = tuple(structs.replace(tool, name=self._name(tool.name)) for tool in request.tools)
        return structs.replace(request, messages=history, tools=tools, tool_choice=choice)

    def _message(self, message: Message) -> Message:
        parts = tuple(self._part(part) for part in message.content)
        if all(new is old for new, old in zip(parts, message.content, strict=True)):
            return message
        return Message(message.role, parts)

    def _part(self, part: Content) -> Content:
        match part:
            case ToolCall():
                call_id, name = fit_id(part.id), self._name(part.name)
                if call_id != part.id or name != part.name:
                    return ToolCall(call_id, name, part.arguments)
            case ToolResult():
                call_id = fit_id(part.call_id)
                if call_id != part.call_id:
                    return structs.replace(part, call_id=call_id)
            case _:
                pass
        return part

    def _name(self, name: str) -> str:
        if len(name) <= self._longest and _PLAIN.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        return f"{_OTHER.sub('_', name)[: self._longest - 9]}_{digest}"


def fit_id(call_id: str) -> str:
    if len(call_id) <= LONGEST_ID and _PLAIN.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"
