"""Laws over all pairs of protocols: what one server understood, another client may say, and nothing changes.

The common subset: no thinking in the history (it is never sent on), no ``is_error``, no images in results, no stop
sequences, efforts and limits that every protocol has a word for.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.contracts import ResponseMeta
from gateway.protocols.chat import client as chat_client
from gateway.protocols.chat import server as chat_server
from gateway.protocols.messages import client as messages_client
from gateway.protocols.messages import server as messages_server
from gateway.protocols.responses import client as responses_client
from gateway.protocols.responses import server as responses_server
from ir.events import Event, FinishReason
from ir.grammar import check
from ir.request import Content, Image, Message, Request, Text, ToolResult
from ir.response import Part, Response, fold
from ir.usage import Usage
from tests import strategies

META = ResponseMeta(response_id="r1", created=1, model="m", expose_reasoning=True)
ASKED = Request(model="m", messages=(Message("user", (Text("Hi"),)),), stream=True, include_usage=True)


class Protocol(NamedTuple):
    server: Any
    client: Any


PROTOCOLS = {
    "chat": Protocol(chat_server, chat_client),
    "responses": Protocol(responses_server, responses_client),
    "messages": Protocol(messages_server, messages_client),
}
PAIRS = list(itertools.product(PROTOCOLS, PROTOCOLS))


@st.composite
def common_requests(draw: st.DrawFn) -> Request:
    request = draw(strategies.requests(reasoning=False))
    messages = tuple(Message(item.role, _common_parts(item)) for item in request.messages)
    return replace(request, messages=messages, stop=())


def _common_parts(message: Message) -> tuple[Content, ...]:
    """Texts before calls, since Chat has no other order."""
    parts = [_common(part) for part in message.content]
    if message.role == "user":
        return tuple(parts)
    return tuple(sorted(parts, key=lambda part: not isinstance(part, Text)))


def _common(part: Content) -> Content:
    if not isinstance(part, ToolResult):
        return part
    if isinstance(part.content, str):
        return ToolResult(part.call_id, part.content)
    return ToolResult(part.call_id, tuple(item for item in part.content if not isinstance(item, Image)) or "")


def _through(name: str, request: Request) -> Request:
    body = PROTOCOLS[name].client.encode_request(request, request.model)
    decoded: Request = PROTOCOLS[name].server.decode_request(orjson.loads(body))
    return decoded


def _core(request: Request) -> Request:
    """What is said about the turn itself, in the one form that all have."""
    tools = tuple(replace(tool, strict=None, origin=None) for tool in request.tools)
    return replace(request, tools=tools, echo={}, ignored=(), include_usage=False, store=False, stream=True)


@pytest.mark.parametrize(("first", "second"), PAIRS)
@settings(max_examples=30)
@given(common_requests())
def test_a_request_is_the_same_after_any_two_protocols(first: str, second: str, request: Request) -> None:
    assert _core(_through(second, _through(first, request))) == _core(request)


def _relay(name: str, events: list[Event]) -> list[Event]:
    protocol = PROTOCOLS[name]
    encoder, decoder = protocol.server.stream(ASKED, META), protocol.client.stream()
    wire = b"".join(encoder.send(event) for event in events)
    heard = [*decoder.feed(wire), *decoder.close()]
    check(heard)
    return heard


def _spoken(response: Response) -> Response:
    """Neighbouring texts are one, signatures, raw words and unknown counts are nothing."""
    parts: list[Part] = []
    for part in response.parts:
        if parts and parts[-1].kind is part.kind and not part.call_id:
            parts[-1] = Part(part.kind, parts[-1].text + part.text)
        else:
            parts.append(Part(part.kind, part.text, part.call_id, part.name))
    usage = response.usage
    counts = Usage(usage.input_total, usage.output)
    return Response(tuple(parts), FinishReason(response.finish.unified), counts)


@pytest.mark.parametrize(("first", "second"), PAIRS)
@settings(max_examples=30)
@given(strategies.streams())
def test_an_answer_is_the_same_after_any_two_protocols(first: str, second: str, events: list[Event]) -> None:
    assert _spoken(fold(_relay(second, _relay(first, events)))) == _spoken(fold(events))
