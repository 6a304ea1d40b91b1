"""The real ``openai`` SDK against the pure server role: no socket, the SDK's transport calls our functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai
import orjson
import pytest

from gateway.contracts import ErrorReply, ResponseMeta
from gateway.protocols.responses import compact, server
from ir.errors import ApiError, Kind
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Image, Request, Text, ToolResult
from ir.response import fold
from ir.usage import Usage

META = ResponseMeta(
    "1", 1, "m1", expose_reasoning=True, sign=lambda text: f"signed {text}", seal=lambda data: data[::-1]
)
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}

TEXT = (PartStart(PartKind.TEXT), ("Hel", "lo!"))
THOUGHT = (PartStart(PartKind.REASONING), ("h", "m"))
CALL = (PartStart(PartKind.TOOL_CALL, "call_1", "get_weather"), ('{"ci', 'ty":"上海"}'))
OTHER = (PartStart(PartKind.TOOL_CALL, "call_2", "get_weather"), ("{}",))


def turn(*parts: tuple[PartStart, tuple[str, ...]], end: Unified = Unified.STOP) -> list[Event]:
    middle: list[Event] = []
    for start, pieces in parts:
        middle += [start, *(PartDelta(piece) for piece in pieces), PartEnd()]
    return [ResponseStart(), *middle, Finish(FinishReason(end), Usage(9, 2))]


Answer = Callable[[Request], list[Event]]


def _reply(asked: httpx2.Request, answer: Answer) -> httpx2.Response:
    role: Any = compact if asked.url.path.endswith("/compact") else server
    try:
        body = orjson.loads(asked.content)
        if role.references(body):
            body = role.expand(body, [], {}, lambda data: data[::-1])
        request = role.decode_request(body)
        events = answer(request)
    except ApiError as error:
        reply: ErrorReply = role.encode_error(error, "req_1")
        headers = {**reply.headers, "content-type": "application/json", "x-request-id": "req_1"}
        return httpx2.Response(reply.status, headers=headers, content=reply.body)
    if not request.stream:
        whole = role.encode_response(fold(events), request, META)
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=whole)
    stream = role.stream(request, META)
    frames = [piece for event in events for piece in (stream.send(event), stream.idle(alive=False))]
    if not isinstance(events[-1], Finish):
        frames.append(stream.fail(ApiError(Kind.NO_CAPACITY, "no_capacity", "every account is busy")))
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(frames))


@contextmanager
def client(answer: Answer, **options: Any) -> Iterator[openai.OpenAI]:
    transport = httpx2.MockTransport(lambda asked: _reply(asked, answer))
    with (
        httpx2.Client(transport=transport) as http,
        openai.OpenAI(api_key="k", base_url="http://gateway.test/v1", http_client=http, **options) as sdk,
    ):
        yield sdk


def test_a_whole_answer() -> None:
    with client(lambda request: turn(TEXT)) as sdk:
        response = sdk.responses.create(model="m1", input="Hi")
    assert (response.output_text, response.status) == ("Hello!", "completed")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.total_tokens) == (9, 11)


@pytest.mark.parametrize(
    "answer",
    [turn(TEXT), turn(THOUGHT, TEXT, CALL, end=Unified.TOOL_CALLS), turn(CALL, OTHER, end=Unified.TOOL_CALLS), turn()],
)
def test_the_stream_helper_puts_the_same_response_together(answer: list[Event]) -> None:
    asked: dict[str, Any] = {"model": "m1", "input": "Hi", "tools": [WEATHER], "reasoning": {"summary": "auto"}}
    with client(lambda request: answer) as sdk:
        whole = sdk.responses.create(**asked)
        with sdk.responses.stream(**asked) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    dumped = streamed.model_dump(exclude_none=True, warnings=False)
    assert [_plain(item) for item in dumped["output"]] == whole.model_dump(exclude_none=True)["output"]
    assert (streamed.id, streamed.output_text) == (whole.id, whole.output_text)


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """The helper adds what it parsed."""
    item = {name: value for name, value in item.items() if not name.startswith("parsed")}
    if "content" in item:
        item["content"] = [_plain(part) for part in item["content"]]
    return item


def test_a_tool_loop_with_the_output_sent_back_as_input() -> None:
    seen: list[Request] = []

    def answer(request: Request) -> list[Event]:
        seen.append(request)
        return turn(THOUGHT, CALL, end=Unified.TOOL_CALLS) if len(seen) == 1 else turn(TEXT)

    with client(answer) as sdk:
        asked: Any = [{"role": "user", "content": "Weather?"}]
        first = sdk.responses.create(
            model="m1",
            input=asked,
            tools=[WEATHER],
            include=["reasoning.encrypted_content"],
            reasoning={"summary": "auto"},
        )
        picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0K", "detail": "auto"}
        output: Any = {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_text", "text": "26"}, picture],
        }
        history: Any = [*asked, *first.output, output]
        last = sdk.responses.create(model="m1", input=history, tools=[WEATHER])
    assert last.output_text == "Hello!"
    (result,) = seen[1].messages[-1].content
    assert result == ToolResult("call_1", (Text("26"), Image("image/png", "iVBORw0K")))


def test_a_custom_tool_is_called_and_answered_in_its_own_form() -> None:
    call = (PartStart(PartKind.TOOL_CALL, "c1", "patch"), ('{"input":"a', '\\nb"}'))
    custom: Any = {"type": "custom", "name": "patch"}
    with (
        client(lambda request: turn(call, end=Unified.TOOL_CALLS)) as sdk,
        sdk.responses.stream(model="m1", input="x", tools=[custom]) as stream,
    ):
        events = list(stream)
        (item,) = stream.get_final_response().output
    assert [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"] == ["a\nb"]
    assert item.type == "custom_tool_call"
    assert (item.name, item.input, item.call_id) == ("patch", "a\nb", "c1")


def test_an_answer_that_was_cut_short_says_why() -> None:
    with client(lambda request: turn(TEXT, end=Unified.LENGTH)) as sdk:
        response = sdk.responses.create(model="m1", input="Hi", max_output_tokens=1)
        kinds = [event.type for event in sdk.responses.create(model="m1", input="Hi", stream=True)]
    assert response.incomplete_details is not None
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert kinds[-1] == "response.incomplete"


def test_a_compacted_conversation_goes_on_from_its_item() -> None:
    seen: list[Request] = []

    def answer(request: Request) -> list[Event]:
        seen.append(request)
        return turn(TEXT)

    with client(answer) as sdk:
        compacted = sdk.responses.compact(
            model="m1", input=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
        )
        again: Any = [*(item.model_dump(exclude_none=True, warnings=False) for item in compacted.output)]
        sdk.responses.create(model="m1", input=[*again, {"role": "user", "content": "Go on"}])
    assert compacted.object == "response.compaction"
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    (message,) = seen[1].messages
    texts = [part.text for part in message.content if isinstance(part, Text)]
    assert (texts[0], texts[1].endswith("Hello!"), texts[2]) == ("Hi", True, "Go on")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.INVALID_REQUEST, openai.BadRequestError),
        (Kind.AUTHENTICATION, openai.AuthenticationError),
        (Kind.NOT_FOUND, openai.NotFoundError),
        (Kind.RATE_LIMIT, openai.RateLimitError),
        (Kind.UPSTREAM, openai.InternalServerError),
    ],
)
def test_the_sdk_raises_its_own_error_with_our_code(kind: Kind, expected: type[openai.APIStatusError]) -> None:
    def answer(request: Request) -> list[Event]:
        raise ApiError(kind, "some_code", "what happened")

    with client(answer, max_retries=0) as sdk, pytest.raises(expected) as caught:
        sdk.responses.create(model="m1", input="Hi", stream=True)
    assert (caught.value.code, caught.value.request_id) == ("some_code", "req_1")


def test_a_failure_in_the_stream_comes_after_the_text_and_is_no_completed_response() -> None:
    with (
        client(lambda request: turn(TEXT)[:-2]) as sdk,
        sdk.responses.stream(model="m1", input="Hi") as stream,
    ):
        events = list(stream)
        with pytest.raises(RuntimeError, match=r"response\.completed"):
            stream.get_final_response()
    failed = events[-1]
    assert failed.type == "response.failed"
    assert failed.response.error is not None
    assert failed.response.error.message == "every account is busy"
