"""A request → what is sent to an upstream that only takes text.

Two shapes: a system text with messages in the two roles, or one flat text with the messages as ``<turn>`` elements.
Calls of the history are told in the form in which new ones are asked for, with the trigger of this attempt; results are
user messages of their own, ``<tool_result id="…" name="…">…</tool_result>``. Content can fake neither (``quoting``).
Thinking of earlier turns is not told. An image stands in the text as a mark; the image itself goes beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
import orjson
from msgspec import Struct

from gateway.contracts import DEFAULT_POLICY, Policy
from gateway.textbridge import plan, wording
from gateway.textbridge.plan import Plan
from gateway.textbridge.quoting import Quoter, attribute, quote_trigger
from gateway.wire import json
from ir.errors import invalid
from ir.request import Image, Message, Request, Text, Tool, ToolCall, ToolResult

NO_OUTPUT = "(no output)"

_RESULT = Quoter("tool_result")
_ANSWER = Quoter("tool_result", "invoke", "thinking")
_LISTED = Quoter("function", "function_list")
_FLAT = Quoter("turn", "instructions", "conversation")


class Line(Struct, frozen=True):
    role: Literal["user", "assistant"]
    text: str


class Rendered(Struct, frozen=True):
    """``system`` is "" when there is nothing to say; neighbours in ``lines`` may have one role; images in order."""

    system: str
    lines: tuple[Line, ...]
    images: tuple[Image, ...] = ()

    def flat(self) -> str:
        """One text for an upstream that takes no roles."""
        if not self.system and len(self.lines) == 1 and self.lines[0].role == "user":
            return self.lines[0].text
        turns = [f'<turn role="{line.role}">\n{_FLAT.quote(line.text)}\n</turn>' for line in self.lines]
        return "\n\n".join(
            [
                *([f"<instructions>\n{_FLAT.quote(self.system)}\n</instructions>"] if self.system else []),
                "\n".join(["<conversation>", *turns, "</conversation>"]),
                wording.FLAT_END,
            ]
        )


def is_free(request: Request, trigger: str) -> bool:
    """Whether nothing in the request holds this trigger; else another must be drawn."""
    said = (request.system, request.tools, request.messages)
    return trigger.encode() not in msgspec.json.encode(said)


def render(
    request: Request,
    trigger: str,
    policy: Policy = DEFAULT_POLICY,
    *,
    thinking: bool = False,
    inject: str = "",
    most_images: int = 0,
) -> Rendered:
    """``trigger`` is new for each attempt and free in the request; ``inject`` is the operator's addition to every
    system text; ``most_images`` is how many the upstream takes beside the text.

    Raises a 400 ``unsupported_content_type`` or ``too_many_images``.
    """
    images = request.images()
    _check_images(images, most_images)
    request = plan.demand(request, policy)
    made = plan.make(request, policy)
    teller = _Teller(request, trigger if made.listens else "", thinking)
    lines = tuple(line for message in request.messages for line in teller.tell(message))
    system = [request.system, inject, _protocol(made, trigger, thinking), wording.THINKING if thinking else ""]
    return Rendered("\n\n".join(filter(None, system)), lines, images)


def _check_images(images: tuple[Image, ...], most: int) -> None:
    if images and not most:
        raise invalid(
            "unsupported_content_type", "the model takes no images: its upstream reads text alone", "messages"
        )
    if len(images) > most:
        raise invalid("too_many_images", f"{len(images)} images, {most} maximum for this model", "messages")


def _protocol(made: Plan, trigger: str, thinking: bool) -> str:
    if not made.listens:
        return ""
    if not made.offered:
        return wording.HISTORY.format(trigger=trigger)
    several = (wording.ONE if made.single else wording.SEVERAL).format(trigger=trigger)
    if thinking:
        several = f"{several} {wording.OUTSIDE_THINKING}"
    parts = [
        wording.TOOLS.format(trigger=trigger, several=several),
        "\n".join(["<function_list>", *map(_function, made.offered), "</function_list>"]),
    ]
    if made.demanded:
        parts.append(wording.demand(sorted(made.counted)))
    return "\n\n".join(parts)


def _function(tool: Tool) -> str:
    schema = json.dump(tool.schema or {}, option=orjson.OPT_INDENT_2).decode().replace("</", "<\\/")
    lines = [f"<function name={attribute(tool.name)}>", "JSON Schema of the arguments:", schema, "</function>"]
    if tool.description:
        lines.insert(1, _LISTED.quote(tool.description))
    return "\n".join(lines)


class _Teller:
    """Messages of one request as lines. Without a trigger there is no structure, and texts are told as they are."""

    def __init__(self, request: Request, trigger: str, thinking: bool) -> None:
        self._trigger = trigger
        self._hint = wording.THINKING_HINT if thinking else ""
        self._names: Mapping[str, str] = {
            part.id: part.name for message in request.messages for part in message.content if isinstance(part, ToolCall)
        }
        self._images = 0

    def tell(self, message: Message) -> Iterator[Line]:
        """None for a message that has nothing to tell."""
        if message.role == "assistant":
            text = "\n\n".join(self._answer(message))
            if text:
                yield Line("assistant", text)
            return
        results = [part for part in message.content if isinstance(part, ToolResult)]
        for result in results:
            yield Line("user", self._result(result))
        said = [self._content(part) for part in message.content if isinstance(part, Text | Image)]
        if self._hint and (said or not results):
            said.append(self._hint)
        if said:
            yield Line("user", "\n\n".join(said))

    def _answer(self, message: Message) -> Iterator[str]:
        for part in message.content:
            if isinstance(part, Text):
                text = quote_trigger(_ANSWER.quote(part.text.strip()), self._trigger) if self._trigger else part.text
                if text:
                    yield text
            elif isinstance(part, ToolCall):
                name, identity = attribute(part.name), attribute(part.id)
                yield f"{self._trigger}\n<invoke name={name} id={identity}>{part.arguments}</invoke>"

    def _result(self, result: ToolResult) -> str:
        if isinstance(result.content, str):
            content = self._quoted(result.content)
        else:
            content = "\n".join(map(self._content, result.content))
        error = ' is_error="true"' if result.is_error else ""
        name, identity = attribute(self._names[result.call_id]), attribute(result.call_id)
        return f"<tool_result id={identity} name={name}{error}>{content or NO_OUTPUT}</tool_result>"

    def _content(self, part: Text | Image) -> str:
        if isinstance(part, Text):
            return self._quoted(part.text)
        self._images += 1
        return f"[image {self._images}]"

    def _quoted(self, text: str) -> str:
        return quote_trigger(_RESULT.quote(text), self._trigger) if self._trigger else text
