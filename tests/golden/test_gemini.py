"""Gemini answers, byte for byte: ``gemini/NAME.sse`` streamed and ``gemini/NAME.json`` whole.

A change of these files is a change of what every client sees. To renew them: ``python -m tests.golden.test_gemini``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson
import pytest
from google.genai.types import FinishReason as GoogleReason
from google.genai.types import GenerateContentResponse
from msgspec import Struct
from msgspec.structs import replace

from gateway.contracts import ResponseMeta
from gateway.protocols.gemini.encode import FINISH_REASONS, GeminiStream, encode_response
from ir.errors import ApiError, Kind
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Message, Request, Text
from ir.response import fold
from ir.usage import Usage

FOLDER = Path(__file__).parent / "gemini"
ASKED = Request(model="gemini-2.5-flash", messages=(Message("user", (Text("Hi"),)),), stream=True)
META = ResponseMeta(response_id="r1", created=1, model="gemini-2.5-flash", input_tokens=7)
SHOWN = replace(META, expose_reasoning=True)

USAGE = Usage(input_uncached=12, output=8)


class Case(Struct, frozen=True):
    events: list[Event]
    meta: ResponseMeta = META


def part(kind: PartKind, *pieces: str, call_id: str = "", name: str = "") -> Iterable[Event]:
    return [PartStart(kind, call_id, name), *map(PartDelta, pieces), PartEnd()]


def turn(*parts: Iterable[Event], unified: Unified = Unified.STOP, usage: Usage = USAGE) -> list[Event]:
    return [ResponseStart(), *(event for item in parts for event in item), Finish(FinishReason(unified), usage)]


THINKING = turn(
    part(PartKind.REASONING, "Hm", "m."), part(PartKind.TEXT, "Hello!"), usage=Usage(50, 50, 20, 30, reasoning=10)
)

CASES: Mapping[str, Case] = {
    "text": Case(turn(part(PartKind.TEXT, "SSE is one-way", " push over HTTP."))),
    "length": Case(turn(part(PartKind.TEXT, '上海"\n\u2028\x85'), unified=Unified.LENGTH)),
    "usage-unknown": Case(turn(part(PartKind.TEXT, "Hello!"), usage=Usage())),
    "thinking-hidden": Case(THINKING),
    "thinking-shown": Case(THINKING, SHOWN),
    "nothing": Case(turn(part(PartKind.TEXT), unified=Unified.CONTENT_FILTER)),
    "unexpected-call": Case(
        turn(
            part(PartKind.TEXT, "Let me check."),
            part(PartKind.TOOL_CALL, "{}", call_id="call_1", name="get_weather"),
            unified=Unified.TOOL_CALLS,
        )
    ),
}


def streamed(case: Case) -> bytes:
    stream = GeminiStream(case.meta)
    return b"".join(map(stream.send, case.events))


def whole(case: Case) -> bytes:
    return encode_response(fold(case.events), ASKED, case.meta) + b"\n"


@pytest.mark.parametrize("name", CASES)
def test_a_streamed_answer_is_the_transcript(name: str) -> None:
    assert streamed(CASES[name]) == (FOLDER / f"{name}.sse").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_a_whole_answer_is_the_body(name: str) -> None:
    assert whole(CASES[name]) == (FOLDER / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_a_stream_is_data_lines_alone_and_the_sdk_reads_each(name: str) -> None:
    frames = (FOLDER / f"{name}.sse").read_bytes().decode().removesuffix("\n\n").split("\n\n")
    assert all(frame.startswith("data: {") and "\n" not in frame for frame in frames)
    chunks = [GenerateContentResponse.model_validate(orjson.loads(frame.removeprefix("data: "))) for frame in frames]
    body = GenerateContentResponse.model_validate(orjson.loads(whole(CASES[name])))
    assert "".join(chunk.text or "" for chunk in chunks) == (body.text or "")
    assert chunks[-1].usage_metadata == body.usage_metadata
    assert {(chunk.response_id, chunk.model_version) for chunk in chunks} == {("r1", "gemini-2.5-flash")}


@pytest.mark.parametrize("name", CASES)
def test_the_last_chunk_has_reason_and_usage_only_and_no_other_has_them(name: str) -> None:
    frames = (FOLDER / f"{name}.sse").read_bytes().decode().removesuffix("\n\n").split("\n\n")
    *chunks, last = [orjson.loads(frame.removeprefix("data: ")) for frame in frames]
    assert last.keys() == {"candidates", "usageMetadata", "modelVersion", "responseId"}
    assert last["candidates"][0].keys() == {"finishReason", "index"}
    assert all(chunk.keys() == {"candidates", "modelVersion", "responseId"} for chunk in chunks)
    assert all(chunk["candidates"][0].keys() == {"content", "index"} for chunk in chunks)


def test_the_sample_of_the_seed_is_what_we_send() -> None:
    assert whole(Case(turn(part(PartKind.TEXT, "SSE is one-way push over HTTP.")))) == (
        b'{"candidates":[{"content":{"parts":[{"text":"SSE is one-way push over HTTP."}],"role":"model"},'
        b'"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":8,'
        b'"totalTokenCount":20},"modelVersion":"gemini-2.5-flash","responseId":"r1"}\n'
    )


def test_every_end_of_a_turn_has_a_reason_that_google_knows() -> None:
    assert set(FINISH_REASONS) == set(Unified)
    assert {reason for reason in FINISH_REASONS.values() if reason not in GoogleReason.__members__} == set()


@pytest.mark.parametrize(
    ("unified", "reason"),
    [
        (Unified.STOP, "STOP"),
        (Unified.STOP_SEQUENCE, "STOP"),
        (Unified.LENGTH, "MAX_TOKENS"),
        (Unified.CONTEXT_FULL, "MAX_TOKENS"),
        (Unified.CONTENT_FILTER, "SAFETY"),
        (Unified.REFUSAL, "SAFETY"),
        (Unified.PAUSE, "OTHER"),
    ],
)
def test_t7_stop_reasons(unified: Unified, reason: str) -> None:
    case = Case(turn(part(PartKind.TEXT, "x"), unified=unified))
    assert orjson.loads(whole(case))["candidates"][0]["finishReason"] == reason


def test_t8_usage_counts_thoughts_apart_and_the_cache_within_the_prompt() -> None:
    assert orjson.loads(whole(Case(THINKING)))["usageMetadata"] == {
        "promptTokenCount": 100,
        "candidatesTokenCount": 40,
        "thoughtsTokenCount": 10,
        "cachedContentTokenCount": 20,
        "totalTokenCount": 150,
    }


def test_an_error_in_the_middle_is_one_data_line_without_an_end() -> None:
    stream = GeminiStream(META)
    sent = stream.send(ResponseStart()) + stream.send(PartStart(PartKind.TEXT)) + stream.send(PartDelta("Hel"))
    sent += stream.fail(ApiError(Kind.UPSTREAM, "upstream_cut", "the upstream stopped"))
    assert sent == (FOLDER / "interrupted.sse").read_bytes()


def test_silence_stays_silence() -> None:
    stream = GeminiStream(META)
    assert stream.send(ResponseStart()) == b""
    assert stream.idle(alive=True) == stream.idle(alive=False) == b""


def _renew() -> None:
    for name, case in CASES.items():
        (FOLDER / f"{name}.sse").write_bytes(streamed(case))
        (FOLDER / f"{name}.json").write_bytes(whole(case))


if __name__ == "__main__":
    _renew()
