"""Hypothesis strategies for the vocabulary: requests in normal form, answers, and legal event streams of answers."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import strategies as st

from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import (
    Content,
    Image,
    Message,
    OutputFormat,
    Reasoning,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
)
from ir.response import Part, Response
from ir.usage import Usage

WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
names = st.text(WORD, min_size=1, max_size=64)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts | st.just("")
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
json_objects = st.dictionaries(texts, json_values, max_size=3)


def compact(value: object) -> str:
    """JSON as the house writes it, down to the form of its floats: what is read and written again stays the same."""
    return orjson.dumps(value).decode()


arguments = json_objects.map(compact)
pixels = st.binary(min_size=1, max_size=30)
images = st.builds(
    lambda media_type, data: Image(media_type, base64.b64encode(data).decode()),
    st.sampled_from(["image/png", "image/jpeg", "image/gif", "image/webp"]),
    pixels,
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(names, st.just({"type": "string"}), max_size=3)}
)
tools = st.builds(Tool, names, texts | st.just(""), schemas, st.none() | st.booleans())
usages = st.builds(
    Usage,
    input_uncached=st.integers(0, 10**6),
    output=st.integers(0, 10**6),
    cache_read=st.none() | st.integers(0, 10**6),
    cache_write=st.none() | st.integers(0, 10**6),
)


@st.composite
def assistant_messages(draw: st.DrawFn, serial: Callable[[], str], reasoning: bool) -> Message:
    parts: list[Content] = []
    if reasoning and draw(st.booleans()):
        parts.append(Reasoning(draw(texts), draw(texts)))
    parts.extend(Text(text) for text in draw(st.lists(texts, max_size=1)))
    parts.extend(
        ToolCall(serial(), draw(names), draw(arguments)) for _ in range(draw(st.integers(0 if parts else 1, 2)))
    )
    return Message("assistant", tuple(parts))


@st.composite
def user_messages(draw: st.DrawFn, before: Message | None) -> Message:
    """Answers every call of ``before``; without calls there is at least one other part."""
    calls = [part for part in before.content if isinstance(part, ToolCall)] if before else []
    bodies = texts | st.just("") | st.lists(st.builds(Text, texts) | images, max_size=2).map(tuple)
    parts: list[Content] = [ToolResult(call.id, draw(bodies), draw(st.booleans())) for call in calls]
    parts.extend(draw(st.lists(st.builds(Text, texts) | images, min_size=0 if parts else 1, max_size=3)))
    return Message("user", tuple(parts))


@st.composite
def histories(draw: st.DrawFn, reasoning: bool = True) -> tuple[Message, ...]:
    """Alternating messages from user to user, every call answered."""
    counter = iter(range(1000))
    messages = [draw(user_messages(None))]
    for _ in range(draw(st.integers(0, 2))):
        reply = draw(assistant_messages(lambda: f"call_{next(counter)}", reasoning))
        messages.extend([reply, draw(user_messages(reply))])
    return tuple(messages)


def output_formats(param: str) -> st.SearchStrategy[OutputFormat]:
    """What OpenAI's protocols can say of a form."""
    described = st.builds(OutputFormat, st.just(param), schemas, names, st.just("") | texts, st.none() | st.booleans())
    return st.just(OutputFormat(param)) | described


@st.composite
def requests(draw: st.DrawFn, reasoning: bool = True) -> Request:
    """What every protocol can say. Each protocol's own fields are added by its tests."""
    offered = tuple(draw(st.lists(tools, max_size=3, unique_by=lambda tool: tool.name)))
    modes = [ToolMode.AUTO, ToolMode.NONE, ToolMode.REQUIRED, ToolMode.NAMED] if offered else [ToolMode.AUTO]
    mode = draw(st.sampled_from(modes))
    chosen = (draw(st.sampled_from(offered)).name,) if mode is ToolMode.NAMED else ()
    return Request(
        model=draw(names),
        messages=draw(histories(reasoning)),
        system=draw(texts | st.just("")),
        tools=offered,
        tool_choice=ToolChoice(mode, chosen),
        parallel_tool_calls=draw(st.none() | st.booleans()) if offered and mode is not ToolMode.NONE else None,
        max_output_tokens=draw(st.integers(1, 10**6)),
        stop=tuple(draw(st.lists(texts.filter(str.strip), max_size=4))),
        temperature=draw(st.none() | st.floats(0, 1)),
        top_p=draw(st.none() | st.floats(0, 1)),
        stream=draw(st.booleans()),
    )


@st.composite
def responses(draw: st.DrawFn) -> Response:
    """At least one part, none of them empty; the finish fits the parts."""
    kinds = draw(st.lists(st.sampled_from(PartKind), min_size=1, max_size=4))
    parts = []
    for number, kind in enumerate(kinds):
        if kind is PartKind.TOOL_CALL:
            parts.append(Part(kind, draw(arguments), f"call_{number}", draw(names)))
        else:
            parts.append(Part(kind, draw(texts)))
    if PartKind.TOOL_CALL in kinds:
        finish = FinishReason(Unified.TOOL_CALLS)
    else:
        finish = FinishReason(draw(st.sampled_from([Unified.STOP, Unified.LENGTH])))
    return Response(tuple(parts), finish, draw(usages))


@st.composite
def streams(draw: st.DrawFn, answers: st.SearchStrategy[Response] | None = None) -> list[Event]:
    """A legal stream of an answer, its texts cut into pieces anywhere."""
    response = draw(answers if answers is not None else responses())
    events: list[Event] = [ResponseStart()]
    for part in response.parts:
        events.append(PartStart(part.kind, part.call_id, part.name))
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(part.text) - 1)), max_size=3)))
        edges = [0, *cuts, len(part.text)]
        pieces = (part.text[start:end] for start, end in itertools.pairwise(edges))
        events.extend(PartDelta(piece) for piece in pieces if piece)
        events.append(PartEnd(part.signature))
    return [*events, Finish(response.finish, response.usage)]
