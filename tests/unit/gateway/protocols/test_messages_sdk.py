"""The real ``anthropic`` SDK against the pure server role: no socket, the SDK's transport calls our functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import orjson
import pytest

from gateway.contracts import ErrorReply, ResponseMeta
from gateway.protocols.messages import server
from ir.errors import ApiError, Kind
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Request, ToolResult
from ir.response import fold
from ir.usage import Usage

META = ResponseMeta("1", 1, "m1", expose_reasoning=True, input_tokens=5, sign=lambda text: f"signed {text}")
HELLO: list[Any] = [{"role": "user", "content": "Hi"}]


def turn(*parts: tuple[PartStart, tuple[str, ...]], end: Unified = Unified.STOP) -> list[Event]:
    middle: list[Event] = []
    for start, pieces in parts:
        middle += [start, *(PartDelta(piece) for piece in pieces), PartEnd()]
    return [ResponseStart(), *middle, Finish(FinishReason(end), Usage(9, 2))]


TEXT = (PartStart(PartKind.TEXT), ("Hel", "lo!"))
THOUGHT = (PartStart(PartKind.REASONING), ("h", "m"))
CALL = (PartStart(PartKind.TOOL_CALL, "call_1", "get_weather"), ('{"ci', 'ty":"上海"}'))


def _reply(raw: bytes, answer: Callable[[Request], list[Event]]) -> httpx2.Response:
    try:
        request = server.decode_request(orjson.loads(raw))
        events = answer(request)
    except ApiError as error:
        reply: ErrorReply = server.encode_error(error, "req_1")
        headers = {**reply.headers, "content-type": "application/json", "request-id": "req_1"}
        return httpx2.Response(reply.status, headers=headers, content=reply.body)
    if not request.stream:
        body = server.encode_response(fold(events), request, META)
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=body)
    stream = server.stream(request, META)
    frames = [piece for event in events for piece in (stream.send(event), stream.idle(alive=False))]
    if not isinstance(events[-1], Finish):
        frames.append(stream.fail(ApiError(Kind.NO_CAPACITY, "no_capacity", "every account is busy")))
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(frames))


@contextmanager
def client(
    answer: Callable[[Request], list[Event]], sent: list[Any] | None = None, **options: Any
) -> Iterator[anthropic.Anthropic]:
    """``sent`` gathers the bodies as the SDK wrote them."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        if sent is not None:
            sent.append(orjson.loads(request.content))
        return _reply(request.content, answer)

    transport = httpx2.MockTransport(handle)
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.Anthropic(api_key="k", base_url="http://gateway.test", http_client=http, **options) as sdk,
    ):
        yield sdk


def raising(kind: Kind, **extra: Any) -> Callable[[Request], list[Event]]:
    def answer(request: Request) -> list[Event]:
        raise ApiError(kind, "some_code", "what happened", **extra)

    return answer


def test_a_whole_answer() -> None:
    with client(lambda request: turn(TEXT)) as sdk:
        message = sdk.messages.create(model="m1", max_tokens=10, messages=HELLO)
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "Hello!"}]
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("end_turn", 9, 2)


def test_the_stream_helper_puts_the_same_message_together() -> None:
    answer = turn(THOUGHT, TEXT, CALL, end=Unified.TOOL_CALLS)
    with client(lambda request: answer) as sdk:
        whole = sdk.messages.create(model="m1", max_tokens=10, messages=HELLO)
        with sdk.messages.stream(model="m1", max_tokens=10, messages=HELLO) as stream:
            assert "".join(stream.text_stream) == "Hello!"
            streamed = stream.get_final_message()
    assert streamed.model_dump(exclude_none=True) == whole.model_dump(exclude_none=True)
    assert [block.type for block in streamed.content] == ["thinking", "text", "tool_use"]


def test_a_tool_loop_by_hand_with_thinking_sent_back() -> None:
    seen: list[Request] = []

    def answer(request: Request) -> list[Event]:
        seen.append(request)
        return turn(THOUGHT, CALL, end=Unified.TOOL_CALLS) if len(seen) == 1 else turn(TEXT)

    tool: Any = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
    with client(answer) as sdk:
        first = sdk.messages.create(model="m1", max_tokens=10, messages=HELLO, tools=[tool])
        result: Any = {"type": "tool_result", "tool_use_id": first.content[1].to_dict()["id"], "content": "sunny"}
        history: list[Any] = [
            *HELLO,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        ]
        last = sdk.messages.create(model="m1", max_tokens=10, messages=history, tools=[tool])
    assert last.stop_reason == "end_turn"
    assert seen[1].messages[-1].content == (ToolResult("call_1", "sunny"),)


def test_the_tool_runner_falls_back_from_a_thread_to_the_whole_history() -> None:
    def get_weather(city: str) -> str:
        """Weather of a city.

        Args:
            city: Its name.
        """
        return f"sunny in {city}"

    def answer(request: Request) -> list[Event]:
        last = request.messages[-1].content[0]
        return turn(TEXT) if isinstance(last, ToolResult) else turn(CALL, end=Unified.TOOL_CALLS)

    sent: list[Any] = []
    with client(answer, sent) as sdk:
        runner = sdk.beta.messages.tool_runner(
            model="m1", max_tokens=10, messages=HELLO, tools=[anthropic.beta_tool(get_weather)]
        )
        message = runner.until_done()
    assert message.content[0].to_dict()["text"] == "Hello!"
    assert ["thread" in body for body in sent] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.INVALID_REQUEST, anthropic.BadRequestError),
        (Kind.AUTHENTICATION, anthropic.AuthenticationError),
        (Kind.PERMISSION, anthropic.PermissionDeniedError),
        (Kind.NOT_FOUND, anthropic.NotFoundError),
        (Kind.CONFLICT, anthropic.ConflictError),
        (Kind.RATE_LIMIT, anthropic.RateLimitError),
        (Kind.UPSTREAM, anthropic.InternalServerError),
    ],
)
def test_the_sdk_raises_its_own_error_with_our_message_and_request_id(kind: Kind, expected: type[Exception]) -> None:
    with client(raising(kind), max_retries=0) as sdk, pytest.raises(expected) as caught:
        sdk.messages.create(model="m1", max_tokens=10, messages=HELLO)
    assert isinstance(caught.value, anthropic.APIStatusError)
    assert "what happened" in str(caught.value)
    assert caught.value.request_id == "req_1"


def test_the_sdk_does_not_retry_what_cannot_help() -> None:
    calls: list[Request] = []

    def answer(request: Request) -> list[Event]:
        calls.append(request)
        raise ApiError(Kind.TOO_LARGE, "prompt_too_large", "too large")

    with client(answer, max_retries=5) as sdk, pytest.raises(anthropic.APIStatusError):
        sdk.messages.create(model="m1", max_tokens=10, messages=HELLO)
    assert len(calls) == 1


def test_an_error_in_the_stream_reaches_the_reader_after_the_text() -> None:
    heard: list[str] = []
    with (
        client(lambda request: turn(TEXT)[:-2], max_retries=0) as sdk,
        sdk.messages.stream(model="m1", max_tokens=10, messages=HELLO) as stream,
        pytest.raises(anthropic.APIStatusError, match="every account is busy"),
    ):
        heard.extend(stream.text_stream)
    assert "".join(heard) == "Hello!"
