"""Chat answers, byte for byte, for the acceptance criteria: ``chat/NAME.sse`` streamed and ``chat/NAME.json`` whole.

A change of these files is a change of what every client sees. To renew them: ``python -m tests.golden.test_chat``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson
import pytest
from msgspec import Struct
from msgspec.structs import replace
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageToolCallUnion

from gateway.contracts import ResponseMeta
from gateway.protocols.chat import server
from ir.errors import ApiError, Kind
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Message, Request, Text
from ir.response import fold
from ir.usage import Usage

FOLDER = Path(__file__).parent / "chat"
ASKED = Request(model="m1", messages=(Message("user", (Text("Hi"),)),), stream=True)
META = ResponseMeta(response_id="1", created=1, model="m1")
USAGE = Usage(input_uncached=9, output=2)


class Case(Struct, frozen=True):
    events: list[Event]
    asked: Request = ASKED
    meta: ResponseMeta = META


def part(kind: PartKind, *pieces: str, call_id: str = "", name: str = "") -> Iterable[Event]:
    return [PartStart(kind, call_id, name), *map(PartDelta, pieces), PartEnd()]


def text(*pieces: str) -> Iterable[Event]:
    return part(PartKind.TEXT, *pieces)


def call(call_id: str, *pieces: str) -> Iterable[Event]:
    return part(PartKind.TOOL_CALL, *pieces, call_id=call_id, name="get_weather")


def turn(*parts: Iterable[Event], unified: Unified = Unified.STOP, usage: Usage = USAGE) -> list[Event]:
    return [ResponseStart(), *(event for item in parts for event in item), Finish(FinishReason(unified), usage)]


THINKING = turn(part(PartKind.REASONING, "Hm", "m."), text("Hello!"))
KNOWN = Usage(input_uncached=50, cache_read=20, cache_write=30, output=50, reasoning=10)
PARALLEL = turn(call("call_1", '{"city":"上海"}'), call("call_2", '{"city":', '"Paris"}'), unified=Unified.TOOL_CALLS)

CASES: Mapping[str, Case] = {
    "text": Case(turn(text("Hel", "lo!"))),
    "call": Case(turn(call("call_1", '{"ci', 'ty":"上', '海"}'), unified=Unified.TOOL_CALLS)),
    "calls": Case(PARALLEL),
    "text-and-call": Case(turn(text("Let me check."), call("call_1", '{"city":"Rome"}'), unified=Unified.TOOL_CALLS)),
    "call-without-arguments": Case(turn(call("call_1"), unified=Unified.TOOL_CALLS)),
    "usage": Case(turn(text("Hello!"), usage=KNOWN), asked=replace(ASKED, include_usage=True)),
    "usage-unknown": Case(
        turn(text("Hello!"), usage=Usage()),
        asked=replace(ASKED, include_usage=True),
        meta=ResponseMeta(response_id="1", created=1, model="m1", input_tokens=7),
    ),
    "thinking-hidden": Case(THINKING),
    "thinking-exposed": Case(
        THINKING, meta=ResponseMeta(response_id="1", created=1, model="m1", expose_reasoning=True)
    ),
    "legacy-call": Case(PARALLEL, asked=replace(ASKED, legacy_functions=True)),
    "length": Case(turn(text('"\n\u2028'), unified=Unified.LENGTH)),
    "nothing": Case(turn()),
}


def streamed(case: Case) -> bytes:
    stream = server.stream(case.asked, case.meta)
    return b"".join(map(stream.send, case.events))


def whole(case: Case) -> bytes:
    return server.encode_response(fold(case.events), case.asked, case.meta) + b"\n"


@pytest.mark.parametrize("name", CASES)
def test_a_streamed_answer_is_the_transcript(name: str) -> None:
    assert streamed(CASES[name]) == (FOLDER / f"{name}.sse").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_a_whole_answer_is_the_body(name: str) -> None:
    assert whole(CASES[name]) == (FOLDER / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_the_sdk_reads_every_answer(name: str) -> None:
    completion = ChatCompletion.model_validate(orjson.loads(whole(CASES[name])))
    lines = (FOLDER / f"{name}.sse").read_text().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [ChatCompletionChunk.model_validate(orjson.loads(line.removeprefix("data: "))) for line in lines[:-2]]
    assert {(chunk.id, chunk.model, chunk.created) for chunk in chunks} == {(completion.id, "m1", 1)}
    first, *_, finish = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert (first.delta.role, first.delta.content) == ("assistant", "")
    assert finish.delta.model_dump(exclude_none=True) == {}
    assert finish.finish_reason == completion.choices[0].finish_reason


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.asked.legacy_functions])
def test_the_stream_helper_of_the_sdk_puts_the_whole_answer_together(name: str) -> None:
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for line in (FOLDER / f"{name}.sse").read_text().split("\n\n")[:-2]:
        state.handle_chunk(ChatCompletionChunk.model_validate(orjson.loads(line.removeprefix("data: "))))
    (helped,) = state.current_completion_snapshot.choices
    (plain,) = ChatCompletion.model_validate(orjson.loads(whole(CASES[name]))).choices
    assert (helped.message.content or None, helped.finish_reason) == (
        plain.message.content or None,
        plain.finish_reason,
    )
    assert _functions(helped.message.tool_calls) == _functions(plain.message.tool_calls)


def _functions(calls: Sequence[ChatCompletionMessageToolCallUnion] | None) -> list[tuple[str, str, str]]:
    return [(call.id, call.function.name, call.function.arguments) for call in calls or () if call.type == "function"]


def test_an_error_in_the_middle_is_one_frame_without_an_end() -> None:
    stream = server.stream(ASKED, META)
    sent = stream.send(ResponseStart()) + stream.send(PartStart(PartKind.TEXT)) + stream.send(PartDelta("Hel"))
    sent += stream.fail(ApiError(Kind.UPSTREAM, "upstream_cut", "the upstream stopped"))
    assert sent == (FOLDER / "interrupted.sse").read_bytes()


def test_nothing_is_sent_before_the_first_part() -> None:
    stream = server.stream(ASKED, META)
    assert stream.send(ResponseStart()) == b""
    assert stream.send(ResponseStart()) == b"", "a second attempt may start before anything was shown"


def test_a_keepalive_is_a_comment() -> None:
    stream = server.stream(ASKED, META)
    assert stream.idle(alive=True) == stream.idle(alive=False) == b": keepalive\n\n"


def _renew() -> None:
    for name, case in CASES.items():
        (FOLDER / f"{name}.sse").write_bytes(streamed(case))
        (FOLDER / f"{name}.json").write_bytes(whole(case))


if __name__ == "__main__":
    _renew()
