"""A turn that a caller asks for, in no protocol.

Normal form, which every ``decode_request`` produces and the pair law relies on:

* all system and developer texts are one ``system`` string, joined by a blank line, in order;
* ``messages`` alternate between user and assistant; neighbours of one role are merged;
* tool results stand in user messages, first, in the order of the calls they answer;
* an empty text part is dropped; a tool call's arguments are the JSON text of an object (``{}`` when empty);
* every call is answered before the next assistant message, and every result has its call (``ir.history``).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from ir.extras import NO_EXTRAS, Extras


class Text(Struct, frozen=True):
    text: str


class Image(Struct, frozen=True, dict=True):
    """An inline image: ``encoded`` is strict, padded Base64 as the caller sent it."""

    media_type: str
    encoded: str

    @property
    def size(self) -> int:
        """Decoded bytes, worked out from the length alone so that nothing large is decoded before its check."""
        return len(self.encoded) // 4 * 3 - self.encoded.count("=", -2)

    @cached_property
    def data(self) -> bytes:
        """The bytes. Raises ``ValueError`` when the Base64 is broken."""
        try:
            return base64.b64decode(self.encoded, validate=True)
        except binascii.Error as error:
            raise ValueError("not Base64") from error


class ToolCall(Struct, frozen=True):
    """``arguments`` is the JSON text of an object."""

    id: str
    name: str
    arguments: str


class ToolResult(Struct, frozen=True):
    """``content`` keeps string and block form apart: a string stays a string on the way through."""

    call_id: str
    content: str | tuple[Text | Image, ...]
    is_error: bool = False


class Reasoning(Struct, frozen=True):
    """Thinking that came back with the history. ``redacted`` carries opaque data in ``signature`` and no text."""

    text: str
    signature: str = ""
    redacted: bool = False


Content = Text | Image | ToolCall | ToolResult | Reasoning


class Message(Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: tuple[Content, ...]


class ToolKind(StrEnum):
    """What a caller declared that became a function on the way in."""

    FUNCTION = "function"
    CUSTOM = "custom"  # takes free text
    TOOL_SEARCH = "tool_search"
    LOCAL_SHELL = "local_shell"


class ToolOrigin(Struct, frozen=True):
    """How the caller itself names a tool, so that calls go back in its own form. ``namespace`` "" is none."""

    kind: ToolKind
    name: str
    namespace: str = ""


class Tool(Struct, frozen=True):
    """A function the caller offers. ``schema`` is a JSON Schema whose root is an object.

    ``origin`` is set when the caller declared it in another form than a plain function of this name.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    strict: bool | None = None
    origin: ToolOrigin | None = None


class ToolMode(StrEnum):
    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"
    ALLOWED = "allowed"  # a subset: ``names`` with ``forced`` telling auto from required


class ToolChoice(Struct, frozen=True):
    """``names`` holds the one name of NAMED, or the subset of ALLOWED."""

    mode: ToolMode = ToolMode.AUTO
    names: tuple[str, ...] = ()
    forced: bool = False

    @property
    def demands_call(self) -> bool:
        return self.mode in (ToolMode.REQUIRED, ToolMode.NAMED) or (self.mode is ToolMode.ALLOWED and self.forced)


class Thinking(Struct, frozen=True):
    """What the caller said about thinking; ``None`` everywhere means it said nothing.

    ``visible``: the caller asked to be shown the thinking (in protocols where that is the caller's choice);
    ``signed``: with its opaque form, to send it back.
    """

    enabled: bool | None = None
    effort: str | None = None
    budget_tokens: int | None = None
    visible: bool = False
    signed: bool = False


class OutputFormat(Struct, frozen=True):
    """JSON as the whole answer. ``schema`` is a JSON Schema, None: any object will do.

    ``param`` is the caller's field that asked for it, as errors name it.
    """

    param: str
    schema: Mapping[str, Any] | None = None
    name: str = ""
    description: str = ""
    strict: bool | None = None


class Breakpoint(Struct, frozen=True):
    """Where a caller wants its prompt cached up to: ``index`` counts tools or messages, in a system prompt characters;
    ``part`` is the one of the message. ``control`` is the caller's, for an upstream of its protocol alone."""

    place: Literal["tools", "system", "messages"]
    control: Mapping[str, Any]
    index: int
    part: int = 0


class Request(Struct, frozen=True):
    """One turn. ``ignored`` names accepted fields without effect; ``legacy_functions`` is Chat's old form of calls;
    ``dropped_tools`` holds the paths of tools that only the vendor could run (they are among the ignored, too).

    ``store``: the caller wants the answer kept, to refer to it. ``compaction``: the answer is a summary that goes back
    as one opaque item. ``session`` is what the caller says keeps the turns of a conversation together, ``follows`` the
    ``response_id`` of the answer that this turn goes on from; "" where it says nothing. ``echo`` holds what the answer
    repeats of the request, in the caller's protocol; ``extras`` what only an upstream of that protocol may know.
    """

    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    thinking: Thinking = Thinking()
    output_format: OutputFormat | None = None
    stream: bool = False
    include_usage: bool = False
    legacy_functions: bool = False
    session: str = ""
    follows: str = ""
    store: bool = False
    compaction: bool = False
    echo: Mapping[str, Any] = {}
    dropped_tools: tuple[str, ...] = ()
    extras: Extras = NO_EXTRAS
    breakpoints: tuple[Breakpoint, ...] = ()
    ignored: tuple[str, ...] = ()

    def images(self) -> tuple[Image, ...]:
        """Every image of every user message, those inside tool results included, in order."""
        found: list[Image] = []
        for message in self.messages:
            for part in message.content:
                if isinstance(part, Image):
                    found.append(part)
                elif isinstance(part, ToolResult) and not isinstance(part.content, str):
                    found.extend(item for item in part.content if isinstance(item, Image))
        return tuple(found)
