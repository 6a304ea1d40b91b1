"""The driver alone, against a server that writes a call and goes on talking."""

from __future__ import annotations

import json
import re
from asyncio import StreamReader, StreamWriter

import pytest

from core.outbound import AllowList
from gateway.contracts import Clocks, Policy, Target
from gateway.upstreams.http import Door
from gateway.upstreams.text_chat import TextChat
from ir.events import Event, PartKind
from ir.response import Response, fold
from tests.unit.gateway.textbridge.answers import ask, calls
from tests.unit.gateway.upstreams.loopback import read_request, serving

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


async def talk(reader: StreamReader, writer: StreamWriter) -> None:
    _, body = await read_request(reader)
    found = re.search(rb"<<CALL_[0-9a-f]{8}>>", body)
    assert found is not None
    writer.write(HEAD)
    for text in (calls("lookup", trigger=found[0].decode()), "\nBye"):
        data = json.dumps({"type": "text-delta", "delta": text})
        writer.write(f"data: {data}\n\n".encode())
    writer.write(b'data: {"type": "finish"}\n\ndata: [DONE]\n\n')
    await writer.drain()


async def hear(policy: Policy) -> Response:
    async with serving(talk) as (_, port):
        upstream = TextChat(Door(AllowList([f"127.0.0.1:{port}"])))
        target = Target(1, f"http://127.0.0.1:{port}", "m", {}, "key", policy=policy)
        run = await upstream.open(ask(), target, Clocks(), "a1")
        events: list[Event] = [event async for batch in run for event in batch]
        await run.close()
        await upstream.close()
    return fold(events)


@pytest.mark.parametrize(("stops", "text"), [(True, ""), (False, "Bye")])
async def test_text_after_a_call_is_heard_out_or_not_as_the_key_says(stops: bool, text: str) -> None:
    answer = await hear(Policy(stop_after_calls=stops))
    assert [part.name for part in answer.of(PartKind.TOOL_CALL)] == ["lookup"]
    assert "".join(part.text for part in answer.of(PartKind.TEXT)).strip() == text
