"""The driver alone, against a server of a few lines."""

from __future__ import annotations

import asyncio
import json
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from core.outbound import AllowList
from gateway.contracts import Clocks, Policy, Target
from gateway.upstreams.http import Door
from gateway.upstreams.text_chat import TextChat
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartKind
from ir.request import Message, Request, Text
from ir.response import Response, fold
from tests.unit.gateway.textbridge.answers import ask, calls
from tests.unit.gateway.upstreams.loopback import Server, read_request, serving

CLOCKS = Clocks(connect=1, first_token=0.5, idle=0.2, total=5)
REQUEST = Request("m", (Message("user", (Text("Hi"),)),), system="Be brief.")
HELLO = (b'data: {"type":"text-delta","delta":"Hello"}\n\n', b'data: {"type":"finish"}\n\ndata: [DONE]\n\n')


class Upstream:
    """``steps``: bytes of the stream, or seconds to wait."""

    def __init__(self, *steps: bytes | float, head: bytes = b"200 OK\r\ncontent-type: text/event-stream") -> None:
        self.steps = steps
        self.head = head
        self.heads: list[str] = []
        self.bodies: list[dict[str, object]] = []

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            if not head:
                return
            self.heads.append(head.decode())
            self.bodies.append(json.loads(body))
            writer.write(b"HTTP/1.1 " + self.head + b"\r\ntransfer-encoding: chunked\r\n\r\n")
            for step in self.steps:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    writer.write(b"%x\r\n" % len(step) + step + b"\r\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()


@asynccontextmanager
async def connected(upstream: Upstream) -> AsyncIterator[tuple[TextChat, Server, Target]]:
    async with serving(upstream.serve) as (server, port):
        chat = TextChat(Door(AllowList([f"127.0.0.1:{port}"])))
        try:
            yield chat, server, Target(1, f"http://127.0.0.1:{port}/models", "m", {}, "word")
        finally:
            await chat.close()


async def whole(chat: TextChat, target: Target, request: Request = REQUEST) -> Response:
    events: list[Event] = []
    run = await chat.open(request, target, CLOCKS, "a1")
    try:
        async for some in run:
            events += some
    finally:
        await run.close()
    return fold(events)


async def fault_of(upstream: Upstream) -> Fault:
    async with connected(upstream) as (chat, _, target):
        with pytest.raises(Fault) as caught:
            await whole(chat, target)
    return caught.value


async def test_a_turn_is_one_post_below_the_base_url() -> None:
    upstream = Upstream(*HELLO)
    async with connected(upstream) as (chat, server, target):
        assert (await whole(chat, target)).parts[0].text == "Hello"
        assert (await whole(chat, target)).parts[0].text == "Hello"
        assert server.connections == 1
    head = upstream.heads[0].lower()
    assert head.startswith("post /models/api/chat ")
    assert "authorization: bearer word" in head
    assert upstream.bodies[0]["id"] != upstream.bodies[1]["id"]


@pytest.mark.parametrize("host", ["cursor.com", "www.cursor.com", "api2.cursor.sh"])
async def test_cursors_hosts_are_not_called_even_when_the_list_names_them(host: str) -> None:
    chat = TextChat(Door(AllowList([host])))
    with pytest.raises(Fault) as caught:
        await chat.open(REQUEST, Target(1, f"https://{host}", "m", {}, "word"), CLOCKS, "a1")
    assert (caught.value.reason, caught.value.upstream_code) == (Reason.INTERNAL, "address_refused")
    await chat.close()


@pytest.mark.parametrize(
    ("upstream", "reason", "stage"),
    [
        (Upstream(b"{}", head=b"429 X\r\ncontent-type: application/json"), Reason.RATE_LIMIT, Stage.HEADERS),
        (Upstream(b"<html>", head=b"403 X\r\ncontent-type: text/html"), Reason.EGRESS, Stage.HEADERS),
        (Upstream(b"{}", head=b"200 OK\r\ncontent-type: application/json"), Reason.PROTOCOL, Stage.HEADERS),
        (Upstream(2.0), Reason.TIMEOUT, Stage.PREAMBLE),
        (Upstream(HELLO[0], 2.0), Reason.TIMEOUT, Stage.CONTENT),
        (Upstream(HELLO[0]), Reason.CUT, Stage.CONTENT),
        (Upstream(HELLO[0] + b'data: {"type":"error","errorText":"x"}\n\n'), Reason.TRANSIENT, Stage.CONTENT),
    ],
)
async def test_whatever_goes_wrong_is_a_fault(upstream: Upstream, reason: Reason, stage: Stage) -> None:
    fault = await fault_of(upstream)
    assert (fault.reason, fault.stage) == (reason, stage)


async def test_thinking_is_asked_for_in_words_and_read_out_of_the_text() -> None:
    upstream = Upstream(b'data: {"type":"text-delta","delta":"<thinking>Hm</thinking>Hello"}\n\n', HELLO[1])
    async with connected(upstream) as (chat, _, target):
        answer = await whole(chat, structs.replace(target, parameters={"thinking": "true"}))
    assert [(part.kind.value, part.text) for part in answer.parts] == [("reasoning", "Hm"), ("text", "Hello")]
    assert "<thinking>" in json.dumps(upstream.bodies[0])


async def test_a_run_that_is_closed_drops_its_connection() -> None:
    async with connected(Upstream(HELLO[0], 5.0)) as (chat, server, target):
        run = await chat.open(REQUEST, target, CLOCKS, "a1")
        async for _ in run:
            break
        await run.close()
        await server.clients_left()


class Talker(Upstream):
    """Makes a call as it was told to, and goes on talking."""

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        _, body = await read_request(reader)
        trigger = re.search(rb"<<CALL_[0-9a-f]{8}>>", body)
        assert trigger is not None
        writer.write(b"HTTP/1.1 " + self.head + b"\r\nconnection: close\r\n\r\n")
        for text in (calls("lookup", trigger=trigger[0].decode()), "\nBye"):
            writer.write(b"data: " + json.dumps({"type": "text-delta", "delta": text}).encode() + b"\n\n")
        writer.write(HELLO[1])
        await writer.drain()


@pytest.mark.parametrize(("stops", "said"), [(True, ""), (False, "Bye")])
async def test_text_after_a_call_is_heard_out_or_not_as_the_key_says(stops: bool, said: str) -> None:
    async with connected(Talker()) as (chat, _, target):
        answer = await whole(chat, structs.replace(target, policy=Policy(stop_after_calls=stops)), ask())
    assert [part.name for part in answer.of(PartKind.TOOL_CALL)] == ["lookup"]
    assert "".join(part.text for part in answer.of(PartKind.TEXT)).strip() == said
