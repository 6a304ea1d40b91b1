"""Laws of Gemini: any body is a request or a named refusal, and a stream adds up to the whole answer."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.contracts import ResponseMeta
from gateway.protocols.gemini.decode import decode_request
from gateway.protocols.gemini.encode import GeminiStream, encode_response
from gateway.protocols.gemini.errors import encode_error
from gateway.protocols.gemini.paths import Call, is_gemini, parse, read_parameter
from ir.errors import ApiError, Kind
from ir.events import Event, Finish, PartKind, PartStart, ResponseStart
from ir.request import Message, Request, Text
from ir.response import fold
from tests import strategies

CALL = Call("m", "streamGenerateContent", stream=True, sse=True)
ASKED = Request(model="m", messages=(Message("user", (Text("Hi"),)),), stream=True)
HIDDEN = ResponseMeta(response_id="r1", created=1, model="m", input_tokens=3)
SHOWN = replace(HIDDEN, expose_reasoning=True)

values: st.SearchStrategy[Any] = strategies.json_values | st.sampled_from([[], {}, 1, True, "user", "model", "NONE"])


def objects(*names: str, inner: st.SearchStrategy[Any] = values) -> st.SearchStrategy[Any]:
    return values | st.dictionaries(st.sampled_from(names), inner, max_size=4)


parts = objects("text", "thought", "thoughtSignature", "thought_signature", "inlineData", "partMetadata")
contents = objects("role", "parts", inner=values | st.lists(parts, max_size=2) | st.just([{"text": "x"}]))
thinking = objects("includeThoughts", "thinkingBudget", "thinking_level")
configs = objects(
    "candidateCount", "maxOutputTokens", "max_output_tokens", "stopSequences", "thinkingConfig", "responseMimeType",
    "responseModalities", "responseLogprobs", "logprobs", "temperature", "topK", "seed",
    inner=values | thinking,
)  # fmt: skip
tools = objects("functionDeclarations", "googleSearch", "function_declarations")
wild_bodies = st.fixed_dictionaries(
    {"contents": values | st.lists(contents, max_size=3)},
    optional={
        "systemInstruction": contents,
        "system_instruction": contents,
        "generationConfig": configs,
        "tools": values | st.lists(tools, max_size=2),
        "toolConfig": objects("functionCallingConfig", "retrievalConfig", inner=objects("mode")),
        "safetySettings": values,
        "model": values,
    },
)


@given(wild_bodies | values)
def test_any_json_is_a_request_in_normal_form_or_a_named_refusal(body: object) -> None:
    try:
        request = decode_request(body, CALL)
    except ApiError as error:
        refusal = (error.kind, bool(error.code), encode_error(error, "r").status)
    else:
        assert_normal(request)
        return
    assert refusal == (Kind.INVALID_REQUEST, True, 400)


def assert_normal(request: Request) -> None:
    roles = [message.role for message in request.messages]
    assert roles[-1] == "user"
    assert all(first != second for first, second in itertools.pairwise(roles))
    assert all(isinstance(part, Text) and part.text for message in request.messages for part in message.content)
    assert request.stream


@given(st.sampled_from(["GET", "POST", "PUT"]), st.text() | st.text().map("/v1beta/models/{}".format), st.binary())
def test_any_url_is_a_call_or_a_named_refusal(method: str, path: str, query: bytes) -> None:
    is_gemini(method, path, {})
    read_parameter(query, "key")
    try:
        call = parse(method, path, query)
    except ApiError as error:
        refusal = error
    else:
        assert method == "POST"
        assert path.endswith(f":{call.action}")
        return
    assert refusal.kind in (Kind.NOT_FOUND, Kind.METHOD_NOT_ALLOWED)
    assert refusal.message.isascii()


def encode(events: list[Event], meta: ResponseMeta) -> bytes:
    stream = GeminiStream(meta)
    return b"".join(stream.send(event) + stream.idle(alive=True) for event in events)


def read(wire: bytes) -> list[Any]:
    """The chunks, read as the strictest client does, which also takes Unicode's line ends for line ends."""
    lines = wire.decode().splitlines()
    assert lines[1::2] == [""] * (len(lines) // 2)
    return [orjson.loads(line.removeprefix("data: ")) for line in lines[::2]]


def add_up(chunks: list[Any]) -> dict[str, Any]:
    """What a plain client makes of a stream: neighbouring parts of one kind are one."""
    added: dict[str, Any] = {"parts": []}
    for chunk in chunks:
        (candidate,) = chunk["candidates"]
        for part in candidate.get("content", {}).get("parts", ()):
            last = added["parts"][-1] if added["parts"] else None
            if last is not None and last.get("thought") == part.get("thought"):
                last["text"] += part["text"]
            else:
                added["parts"].append(dict(part))
        added |= {name: candidate[name] for name in ("finishReason", "index") if name in candidate}
        added |= {name: value for name, value in chunk.items() if name != "candidates"}
    return added


@given(strategies.streams(), st.sampled_from([HIDDEN, SHOWN]))
def test_the_stream_adds_up_to_the_whole_answer(events: list[Event], meta: ResponseMeta) -> None:
    whole = orjson.loads(encode_response(fold(events), ASKED, meta))
    assert add_up(read(encode(events, meta))) == add_up([whole])


@given(strategies.streams(), st.sampled_from([HIDDEN, SHOWN]))
def test_the_reason_comes_once_and_last(events: list[Event], meta: ResponseMeta) -> None:
    chunks = read(encode(events, meta))
    ends = ["finishReason" in chunk["candidates"][0] for chunk in chunks]
    assert ends == [False] * (len(chunks) - 1) + [True]
    assert ["usageMetadata" in chunk for chunk in chunks] == ends


@given(strategies.streams(), st.data())
def test_a_stream_cut_before_its_finish_never_has_a_reason(events: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events) - 1))
    stream = GeminiStream(SHOWN)
    wire = b"".join(map(stream.send, events[:cut])) + stream.fail(ApiError(Kind.UPSTREAM, "upstream_cut", "cut"))
    *chunks, last = read(wire)
    assert all("finishReason" not in chunk["candidates"][0] for chunk in chunks)
    assert last["error"]["code"] == 502


@given(strategies.streams())
def test_hidden_thinking_leaves_no_trace(events: list[Event]) -> None:
    kept: list[Event] = []
    hidden = False
    for event in events:
        if isinstance(event, PartStart):
            hidden = event.kind is PartKind.REASONING
        if not hidden or isinstance(event, ResponseStart | Finish):
            kept.append(event)
    assert encode(events, HIDDEN) == encode(kept, HIDDEN)
    assert encode_response(fold(events), ASKED, HIDDEN) == encode_response(fold(kept), ASKED, HIDDEN)
