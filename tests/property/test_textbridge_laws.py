"""Laws of the text bridge: nothing is lost, nothing is made up, however the text is cut and whatever it says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from gateway.contracts import Policy, UnclosedThinking
from gateway.textbridge.assembler import Bridge
from gateway.textbridge.prompt import NO_OUTPUT, Line, render
from gateway.textbridge.quoting import Quoter
from ir.events import Event, PartKind, Unified
from ir.grammar import check
from ir.request import Content, Image, Message, Request, Text, ToolCall, ToolChoice, ToolMode, ToolResult
from ir.response import Part, Response, fold
from tests.strategies import arguments, compact, json_objects, requests
from tests.unit.gateway.textbridge.answers import TOOLS, T, Told, ask, calls, parse, stop

FRAGMENTS = [
    T, "<<CALL_ffffffff>>", "<<CALL_0a1b2c3", "<thinking>", "</thinking>", '<invoke name="lookup">', "<invoke>",
    "<invoke name='read'>", '<invoke name="nope" id="1">', "</invoke>", '<parameter name="q">', "</parameter>",
    '{"q":"a"}', "{", "}", "[", "]", '"', "'", "\\", ":", ",", "<", ">", " ", "\n", "\t" * 70, "a", "é😀",
    "<tool_result>", "</tool_result>", "&lt;",
]  # fmt: skip
documents = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=30).map("".join)


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    at = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]


plain = st.text(st.characters(exclude_characters="<§"), min_size=1, max_size=12).filter(str.strip)
thoughts = plain.map(lambda text: f"§{text}§")
segments = st.one_of(
    plain.map(lambda text: ("text", text)),
    thoughts.map(lambda text: ("thinking", text)),
    st.tuples(st.just("call"), st.tuples(st.sampled_from(TOOLS), json_objects)),
)


def write(segment: tuple[str, Any]) -> str:
    kind, value = segment
    match kind:
        case "thinking":
            return f"<thinking>{value}</thinking>"
        case "call":
            return calls(value[0], json.dumps(value[1]))
        case _:
            return str(value)


def normal(text: str) -> str:
    """JSON in one spelling of its numbers."""
    return compact(json.loads(text))


def told_by(text: str) -> list[Told]:
    told = parse([text]).told
    return [(kind, (value[0], normal(value[1])) if kind == "call" else value) for kind, value in told]


def expect(document: Sequence[tuple[str, Any]]) -> list[Told]:
    told: list[Told] = []
    for kind, value in document:
        if kind == "call":
            told.append((kind, (value[0], compact(value[1]))))
        elif told and told[-1][0] == kind:
            told[-1] = (kind, told[-1][1] + value)
        else:
            told.append((kind, value))
    return told


@given(st.data(), documents, st.booleans())
def test_the_result_does_not_depend_on_the_cut_and_nothing_is_lost(
    data: st.DataObject, text: str, thinking: bool
) -> None:
    whole = parse([text], thinking=thinking)
    pieces = parse(data.draw(cuts(text)), thinking=thinking)
    signs = parse(text, thinking=thinking)
    assert whole.told == pieces.told == signs.told
    assert whole.notes == pieces.notes == signs.notes
    assert whole.raw == pieces.raw == signs.raw == text


@given(st.lists(segments, max_size=8))
@example([("call", ("lookup", {"a": "</invoke>" + T})), ("text", "."), ("thinking", "§b§")])
def test_what_is_well_written_is_well_read(document: list[tuple[str, Any]]) -> None:
    assert told_by("".join(map(write, document))) == expect(document)


@given(documents)
def test_without_a_trigger_a_text_stays_as_it_is(text: str) -> None:
    text = text.replace(T, "<<CALL_0a1b2c3e>>")
    assert parse(text, thinking=False).told == ([("text", text)] if text else [])


policies = st.builds(
    Policy,
    kilo_tool_strict=st.booleans(),
    stop_after_calls=st.none() | st.booleans(),
    unclosed_thinking=st.sampled_from(UnclosedThinking),
)
choices = st.sampled_from(
    [
        ToolChoice(),
        ToolChoice(ToolMode.NONE),
        ToolChoice(ToolMode.REQUIRED),
        ToolChoice(ToolMode.NAMED, ("write",)),
        ToolChoice(ToolMode.ALLOWED, ("lookup", "Read")),
    ]
)
asked = st.builds(
    lambda choice, parallel: ask(choice=choice, parallel_tool_calls=parallel), choices, st.none() | st.booleans()
)


def answer(request: Request, policy: Policy, pieces: Sequence[str], *, thinking: bool, exposed: bool) -> Response:
    bridge = Bridge(request, T, policy, thinking=thinking, exposed=exposed)
    events: list[Event] = []
    for piece in pieces:
        events += bridge.feed(piece)
    events += bridge.close(stop())
    check(events)
    return fold(events)


@given(st.data(), asked, policies, documents, st.booleans(), st.booleans())
def test_events_are_legal_and_do_not_depend_on_the_cut(
    data: st.DataObject, request: Request, policy: Policy, text: str, thinking: bool, exposed: bool
) -> None:
    whole = answer(request, policy, [text], thinking=thinking, exposed=exposed)
    pieces = answer(request, policy, data.draw(cuts(text)), thinking=thinking, exposed=exposed)
    assert whole.parts == pieces.parts
    assert whole.finish.unified == pieces.finish.unified
    assert (whole.finish.unified is Unified.TOOL_CALLS) is bool(whole.of(PartKind.TOOL_CALL))
    assert all(part.text.strip(" \t\r\n") for part in whole.of(PartKind.TEXT))


@given(asked, policies, st.lists(segments, max_size=8))
def test_closed_thinking_is_never_text(request: Request, policy: Policy, document: list[tuple[str, Any]]) -> None:
    pieces = list(map(write, document))
    response = answer(request, policy, pieces, thinking=True, exposed=False)
    assert not any("§" in part.text for part in response.of(PartKind.TEXT))


@given(st.lists(segments, max_size=8))
def test_every_text_and_call_reaches_the_caller(document: list[tuple[str, Any]]) -> None:
    response = answer(ask(), Policy(), list(map(write, document)), thinking=True, exposed=True)
    for kind, part_kind in (("text", PartKind.TEXT), ("thinking", PartKind.REASONING)):
        said = "".join(value for each, value in document if each == kind)
        assert _bare("".join(part.text for part in response.of(part_kind))) == _bare(said)
    wanted = [(value[0], compact(value[1])) for kind, value in document if kind == "call"]
    assert [(part.name, normal(part.text)) for part in response.of(PartKind.TOOL_CALL)] == wanted


@given(st.text(max_size=40))
def test_a_text_answer_comes_out_unchanged(text: str) -> None:
    parts = answer(ask(tools=()), Policy(), list(text), thinking=False, exposed=False).parts
    assert parts == ((Part(PartKind.TEXT, text),) if text.strip(" \t\r\n") else ())


def _bare(text: str) -> str:
    return re.sub(r"[ \t\r\n]", "", text)


# Escaping: a reader of the transcript finds exactly the calls and results that the history holds

QUOTED = [
    *FRAGMENTS,
    "&amp;lt;/tool_result>",
    "&lt;tool_result",
    "<TOOL_RESULT>",
    '<tool_result id="call_0" name="x">',
    "&",
]
hostile = st.lists(st.sampled_from(QUOTED), min_size=1, max_size=8).map("".join)
RESULT = re.compile(r'<tool_result id="([^"]*)" name="([^"]*)"( is_error="true")?>(.*?)</tool_result>', re.DOTALL)


def unquote(text: str) -> str:
    """Both signs in one pass, as they were written."""
    tag = r"/?tool_result\b"
    pattern = re.compile(rf"&lt;(?={tag})|&amp;(?=(?:amp;)*lt;{tag})", re.IGNORECASE)
    return pattern.sub(lambda sign: "<" if sign.group() == "&lt;" else "&", text)


@given(hostile)
def test_quoting_can_be_undone_and_leaves_no_tag(text: str) -> None:
    quoted = Quoter("tool_result").quote(text)
    assert "<tool_result" not in quoted.lower()
    assert "</tool_result" not in quoted.lower()
    assert unquote(quoted) == text


@st.composite
def hostile_histories(draw: st.DrawFn) -> tuple[Message, ...]:
    count = draw(st.integers(0, 2))
    made = tuple(
        ToolCall(f"call_{index}", draw(st.sampled_from(TOOLS)), draw(hostile_arguments)) for index in range(count)
    )
    texts = tuple(Text(draw(hostile)) for _ in range(draw(st.integers(0 if made else 1, 2))))
    order: list[Content] = draw(st.permutations([*texts, *made]))
    results = tuple(ToolResult(call.id, draw(hostile)) for call in made)
    return (
        Message("user", (Text(draw(hostile)),)),
        Message("assistant", tuple(order)),
        Message("user", (*results, Text(draw(hostile)))),
    )


hostile_arguments = arguments | hostile.map(lambda text: compact({"a": text, text: [text]}))


@given(hostile_histories(), st.booleans())
def test_content_of_the_history_is_never_read_as_structure(messages: tuple[Message, ...], thinking: bool) -> None:
    lines = render(ask(*messages), T, thinking=thinking).lines
    told = [each for line in lines if line.role == "assistant" for each in told_by(line.text)]
    made = [part for part in messages[1].content if isinstance(part, ToolCall)]
    assert [value for kind, value in told if kind == "call"] == [(call.name, normal(call.arguments)) for call in made]
    assert all(kind != "thinking" for kind, _ in told)
    names = {call.id: call.name for call in made}
    results = [part for part in messages[2].content if isinstance(part, ToolResult)]
    assert _read_results(lines) == [(part.call_id, names[part.call_id], part.content) for part in results]


def _read_results(lines: Sequence[Line]) -> list[tuple[str, str, str]]:
    found = [match for line in lines if line.role == "user" for match in RESULT.finditer(line.text)]
    trigger = "&lt;&lt;CALL_0a1b2c3d&gt;&gt;"
    return [(match[1], match[2], unquote(match[4].replace(trigger, T))) for match in found]


@given(requests(), st.booleans(), policies)
def test_every_request_can_be_told_in_both_shapes(request: Request, thinking: bool, policy: Policy) -> None:
    rendered = render(request, T, policy, thinking=thinking, most_images=100)
    flat = rendered.flat()
    assert len(rendered.images) == len(request.images())
    assert flat.count("\n<turn role=") == (len(rendered.lines) if "<conversation>" in flat else 0)
    for message in request.messages:
        for part in message.content:
            if isinstance(part, ToolResult) and not part.content:
                assert NO_OUTPUT in flat
            elif isinstance(part, Image):
                assert "[image 1]" in flat


@given(requests())
def test_telling_does_not_depend_on_what_the_model_never_sees(request: Request) -> None:
    other = structs.replace(request, temperature=0.5, stop=("x",), max_output_tokens=1, stream=not request.stream)
    assert render(request, T, most_images=100) == render(other, T, most_images=100)
