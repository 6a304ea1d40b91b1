"""Responses answers, byte for byte, for the acceptance criteria: ``responses/NAME.sse`` streamed, ``NAME.json`` whole.

A change of these files is a change of what every client sees. To renew them: ``python -m tests.golden.test_responses``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec import Struct
from msgspec.structs import replace
from openai.types.responses import CompactedResponse, ResponseStreamEvent
from openai.types.responses import Response as SdkResponse
from pydantic import TypeAdapter

from gateway.contracts import ResponseMeta
from gateway.protocols.responses import compact, server
from gateway.wire.sse import Reader
from ir.errors import ApiError, Kind
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Request
from ir.response import fold
from ir.usage import Usage

FOLDER = Path(__file__).parent / "responses"
EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
META = ResponseMeta("1", 1, "m1", expose_reasoning=True, sign=lambda text: "signed", seal=base64.b16encode)
USAGE = Usage(input_uncached=9, output=2)
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.*/"}


def ask(*tools: dict[str, Any], **fields: Any) -> Request:
    body = {"model": "m1", "stream": True, "input": "Hi", **({"tools": tools} if tools else {}), **fields}
    return server.decode_request(orjson.loads(orjson.dumps(body)))


def part(kind: PartKind, *pieces: str, call_id: str = "", name: str = "") -> Iterable[Event]:
    return [PartStart(kind, call_id, name), *map(PartDelta, pieces), PartEnd()]


def text(*pieces: str) -> Iterable[Event]:
    return part(PartKind.TEXT, *pieces)


def call(call_id: str, *pieces: str, name: str = "get_weather") -> Iterable[Event]:
    return part(PartKind.TOOL_CALL, *pieces, call_id=call_id, name=name)


def turn(*parts: Iterable[Event], end: Unified = Unified.STOP, usage: Usage = USAGE) -> list[Event]:
    return [ResponseStart(), *(event for item in parts for event in item), Finish(FinishReason(end), usage)]


class Case(Struct, frozen=True):
    events: list[Event]
    asked: Request
    meta: ResponseMeta = META


CALLED = Unified.TOOL_CALLS
THINKING = turn(part(PartKind.REASONING, "Hm", "m."), text("Hello!"))
NAMESPACE = {"type": "namespace", "name": "fs", "description": "Files", "tools": [{**WEATHER, "name": "read"}]}
CASES: Mapping[str, Case] = {
    "text": Case(turn(text("Hel", "lo!")), ask(instructions="Be brief.\n\nIn English.")),
    "call": Case(turn(call("call_1", '{"ci', 'ty":"上', '海"}'), end=CALLED), ask(WEATHER)),
    "calls": Case(
        turn(call("call_1", '{"city":"上海"}'), call("call_2", '{"city":"Paris"}'), end=CALLED), ask(WEATHER)
    ),
    "text-and-call": Case(turn(text("Let me check."), call("call_1", '{"city":"Rome"}'), end=CALLED), ask(WEATHER)),
    "call-without-arguments": Case(turn(call("call_1"), end=CALLED), ask(WEATHER)),
    "namespace": Case(turn(call("c2", '{"path":', '"b"}', name="fs__read"), end=CALLED), ask(NAMESPACE)),
    "custom": Case(
        turn(call("c1", '{"input":"a\\n', '\\"b\\""}', name="patch"), end=CALLED),
        ask({"type": "custom", "name": "patch", "description": "d", "format": GRAMMAR}),
    ),
    "tool-search": Case(
        turn(call("c1", '{"query":"mail"}', name="tool_search"), end=CALLED),
        ask({"type": "tool_search", "execution": "client"}),
    ),
    "local-shell": Case(
        turn(call("c1", '{"command":["ls","-l"],"timeout_ms":5}', name="local_shell"), end=CALLED),
        ask({"type": "local_shell"}),
    ),
    "thinking-shown": Case(
        THINKING,
        ask(include=["reasoning.encrypted_content"], reasoning={"effort": "low", "summary": "auto"}, store=False),
    ),
    "thinking-hidden": Case(THINKING, ask(), replace(META, expose_reasoning=False)),
    "length": Case(turn(text('"\n\u2028'), end=Unified.LENGTH), ask(max_output_tokens=5)),
    "filtered": Case(turn(text("No."), end=Unified.CONTENT_FILTER), ask()),
    "usage": Case(turn(text("x"), usage=Usage(50, 50, cache_read=20, cache_write=30, reasoning=10)), ask()),
    "usage-unknown": Case(turn(text("x"), usage=Usage()), ask(), replace(META, input_tokens=7)),
    "nothing": Case(turn(), ask()),
    "compaction": Case(
        turn(text("All is", " well.")),
        ask(input=[{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]),
    ),
}


def streamed(case: Case) -> bytes:
    stream = server.stream(case.asked, case.meta)
    return b"".join(map(stream.send, case.events))


def whole(case: Case) -> bytes:
    return server.encode_response(fold(case.events), case.asked, case.meta) + b"\n"


def compacted() -> bytes:
    body = {"model": "m1", "input": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}
    return compact.encode_response(fold(turn(text("All is well."))), compact.decode_request(body), META) + b"\n"


@pytest.mark.parametrize("name", CASES)
def test_a_streamed_answer_is_the_transcript(name: str) -> None:
    assert streamed(CASES[name]) == (FOLDER / f"{name}.sse").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_a_whole_answer_is_the_body(name: str) -> None:
    assert whole(CASES[name]) == (FOLDER / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_the_sdk_knows_every_event_and_the_last_holds_the_body(name: str) -> None:
    events = [orjson.loads(frame.data) for frame in Reader().feed((FOLDER / f"{name}.sse").read_bytes())]
    for event in events:
        EVENTS.validate_python(event)
    body = orjson.loads((FOLDER / f"{name}.json").read_bytes())
    assert events[-1]["response"] == body
    assert SdkResponse.model_validate(body).id == "resp_1"


def test_the_object_of_a_compaction_is_the_body() -> None:
    assert compacted() == (FOLDER / "compacted.json").read_bytes()
    message, item = orjson.loads(compacted())["output"]
    assert (message["role"], item["type"]) == ("user", "compaction")
    # The SDK's types know no user message in an output, though its own documentation says that they come first.
    CompactedResponse.model_validate({**orjson.loads(compacted()), "output": [item]})


def interrupted() -> bytes:
    stream = server.stream(ask(), META)
    begun: list[Event] = [ResponseStart(), PartStart(PartKind.TEXT), PartDelta("Hel")]
    sent = b"".join(map(stream.send, begun))
    return sent + stream.fail(ApiError(Kind.UPSTREAM, "upstream_cut", "the upstream stopped"))


def test_an_error_in_the_middle_is_a_failed_response() -> None:
    assert interrupted() == (FOLDER / "interrupted.sse").read_bytes()


def test_the_order_of_events_is_that_of_the_second_criterion() -> None:
    """Criterion 2: types in order, sequence 0 to 9."""
    events = [orjson.loads(frame.data) for frame in Reader().feed((FOLDER / "text.sse").read_bytes())]
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(10))


def test_a_second_start_gives_nothing_and_a_keepalive_is_a_comment() -> None:
    stream = server.stream(ask(), META)
    assert stream.send(ResponseStart())
    assert stream.send(ResponseStart()) == b"", "another attempt took over"
    assert stream.idle(alive=True) == stream.idle(alive=False) == b": keepalive\n\n"


def _renew() -> None:
    for name, case in CASES.items():
        (FOLDER / f"{name}.sse").write_bytes(streamed(case))
        (FOLDER / f"{name}.json").write_bytes(whole(case))
    (FOLDER / "compacted.json").write_bytes(compacted())
    (FOLDER / "interrupted.sse").write_bytes(interrupted())


if __name__ == "__main__":
    _renew()
