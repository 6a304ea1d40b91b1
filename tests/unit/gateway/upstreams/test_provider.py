"""The three provider wires against a server that says what a test tells it to."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import orjson
import pytest

from accounts.channels import ChannelView
from accounts.kinds import Transport
from core.outbound import ProviderHosts
from gateway.contracts import Clocks, Target
from gateway.upstreams.asking import WIRES
from gateway.upstreams.http import Door
from gateway.upstreams.provider import Provider, ProviderRun
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartDelta, PartStart, Unified
from ir.request import Message, Request, Text, Tool
from ir.response import fold
from tests.unit.gateway.upstreams.loopback import Server, read_request, serving

CHAT, RESPONSES, MESSAGES = Transport.OPENAI_CHAT, Transport.OPENAI_RESPONSES, Transport.ANTHROPIC_MESSAGES
BY_WIRE = {wire.transport: wire for wire in WIRES}
HI = Request(model="m", messages=(Message("user", (Text("Hi"),)),), stream=True)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PATHS = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses", MESSAGES: "/v1/messages"}


def frame(event: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    return frame({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


DONE = b"data: [DONE]\n\n"
ENDS = {
    CHAT: chunk("stop") + DONE,
    RESPONSES: frame({"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": []}}),
    MESSAGES: frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + frame({"type": "message_stop"}),
}
STARTS = {
    CHAT: chunk(role="assistant", content=""),
    RESPONSES: frame({"type": "response.created", "response": {"id": "r1"}}),
    MESSAGES: frame({"type": "message_start", "message": {"id": "m1"}}),
}
PINGS = {CHAT: b": ping\n\n", RESPONSES: b": ping\n\n", MESSAGES: frame({"type": "ping"})}


def says(wire: Transport, text: str) -> bytes:
    return {
        CHAT: chunk(content=text),
        RESPONSES: frame({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text}),
        MESSAGES: frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
    }[wire]


class Vendor:
    """Answers every request with ``answer``: bytes are sent as they are (chunked once ``STREAM`` went out), numbers
    are seconds to wait, and ``None`` keeps the connection without a word."""

    def __init__(self, *answer: bytes | float | None) -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.bodies: list[Any] = []

    async def __call__(self, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            if not head:
                return
            self.heads.append(head)
            self.bodies.append(orjson.loads(body))
            if await self._say(writer):
                return

    async def _say(self, writer: StreamWriter) -> bool:
        chunked = False
        for piece in self.answer:
            if piece is None:
                await asyncio.sleep(60)
            elif isinstance(piece, bytes):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked and piece else piece)
                chunked = chunked or piece is STREAM
                await writer.drain()
            else:
                await asyncio.sleep(piece)
        if chunked and self.answer[-1] != b"":
            writer.write(b"0\r\n\r\n")
        return not chunked or self.answer[-1] == b""


@asynccontextmanager
async def asked(
    wire: Transport, vendor: Vendor, request: Request = HI, *, clocks: Clocks | None = None, **channel: Any
) -> AsyncIterator[tuple[ProviderRun, Server]]:
    async with serving(vendor) as (server, port):
        door = Door(ProviderHosts([f"127.0.0.1:{port}"]))
        url = f"http://127.0.0.1:{port}{PATHS[wire]}"
        view = ChannelView("0" * 16, url, {"m": "up-1"}, **channel)
        target = Target(1, url, "up-1", {}, "sk-secret", channel=view)
        upstream = Provider(door, BY_WIRE[wire])
        try:
            async with asyncio.timeout(10):
                run = await upstream.open(request, target, clocks or Clocks(), "req_1-0")
                try:
                    yield run, server
                finally:
                    await run.close()
        finally:
            await upstream.close()


async def collect(run: ProviderRun) -> list[Event]:
    events: list[Event] = []
    async with aclosing(aiter(run)) as batches:  # type: ignore[type-var]
        async for batch in batches:
            assert batch
            events.extend(batch)
    return events


async def answer_of(wire: Transport, *answer: bytes | float | None, **more: Any) -> list[Event]:
    async with asked(wire, Vendor(*answer), **more) as (run, _):
        return await collect(run)


async def fault_of(wire: Transport, *answer: bytes | float | None, **more: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        await answer_of(wire, *answer, **more)
    return caught.value


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, PartDelta))


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_an_answer_is_read_to_its_end_and_the_connection_kept(wire: Transport) -> None:
    vendor = Vendor(STREAM, STARTS[wire], says(wire, "one "), says(wire, "two"), ENDS[wire])
    async with asked(wire, vendor) as (run, server):
        response = fold(await collect(run))
        assert response.parts[0].text == "one two"
        assert response.finish.unified is Unified.STOP
        await asyncio.sleep(0.05)
        assert server.open == 1


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_the_key_goes_where_the_vendor_looks_for_it(wire: Transport) -> None:
    vendor = Vendor(STREAM, STARTS[wire], says(wire, "x"), ENDS[wire])
    async with asked(wire, vendor, headers={"x-title": "pool", "user-agent": "ours"}) as (run, _):
        await collect(run)
    head = vendor.heads[0].decode()
    assert f"POST {PATHS[wire]} HTTP/1.1\r\n" in head
    assert "x-title: pool\r\n" in head
    assert head.count("user-agent:") == 1
    assert ("x-api-key: sk-secret" in head) == ("anthropic-version" in head) == (wire is MESSAGES)
    assert ("authorization: Bearer sk-secret" in head) == (wire is not MESSAGES)
    assert vendor.bodies[0]["model"] == "up-1"
    assert vendor.bodies[0]["stream"] is True


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_what_follows_the_end_is_not_read(wire: Transport) -> None:
    late = frame({"type": "error", "error": {"type": "api_error", "message": "late"}})
    for extra in (ENDS[wire], late, b"data: {broken\n\n"):
        events = await answer_of(wire, STREAM, STARTS[wire], says(wire, "x"), ENDS[wire], extra)
        assert text_of(events) == "x"
        assert fold(events).finish.unified is Unified.STOP


@pytest.mark.parametrize("wire", BY_WIRE)
@pytest.mark.parametrize("pieces", [[], [b": ping\n\n"], [b"\n"], [DONE]])
async def test_a_200_without_an_answer_is_empty(wire: Transport, pieces: list[bytes]) -> None:
    fault = await fault_of(wire, STREAM, *pieces)
    assert (fault.reason, fault.stage) == (Reason.EMPTY, Stage.PREAMBLE)


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_a_200_without_a_body_is_empty_in_json_too(wire: Transport) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n"
    assert (await fault_of(wire, head)).reason is Reason.EMPTY


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_an_error_inside_a_200_is_that_error(wire: Transport) -> None:
    for kind, reason in (("rate_limit_error", Reason.RATE_LIMIT), ("unheard_of", Reason.TRANSIENT)):
        body = orjson.dumps({"error": {"type": kind, "message": "no"}}, option=orjson.OPT_INDENT_2)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        fault = await fault_of(wire, head + body)
        assert (fault.reason, fault.stage) == (reason, Stage.PREAMBLE)


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (b"text/html", b"<html>", Reason.EGRESS),
        (b"application/json", b"{}", Reason.PROTOCOL),
        (b"application/json", b"nonsense", Reason.PROTOCOL),
    ],
)
async def test_a_200_that_is_no_stream_is_no_answer(kind: bytes, body: bytes, reason: Reason) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(body))
    assert (await fault_of(CHAT, head + body)).reason is reason


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_an_error_before_the_answer_is_classified(wire: Transport) -> None:
    body = orjson.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}})
    head = b"HTTP/1.1 429 No\r\ncontent-type: application/json\r\nretry-after: 7\r\ncontent-length: %d\r\n\r\n"
    fault = await fault_of(wire, head % len(body) + body)
    assert (fault.reason, fault.stage, fault.retry_after) == (Reason.RATE_LIMIT, Stage.HEADERS, 7.0)


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_a_redirect_is_not_followed(wire: Transport) -> None:
    vendor = Vendor(b"HTTP/1.1 307 Go\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(Fault) as caught:
        async with asked(wire, vendor):
            pass
    assert (caught.value.reason, caught.value.upstream_code) == (Reason.EGRESS, "http_307")
    assert len(vendor.heads) == 1


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_an_error_after_text_is_a_fault_of_that_stage(wire: Transport) -> None:
    error = frame({"type": "error", "error": {"type": "overloaded_error", "message": "no"}})
    fault = await fault_of(wire, STREAM, STARTS[wire], says(wire, "x"), 0.05, error)
    assert (fault.reason, fault.stage) == (Reason.CAPACITY, Stage.CONTENT)


@pytest.mark.parametrize("wire", BY_WIRE)
@pytest.mark.parametrize("end", [0.0, b""])
async def test_an_answer_that_stops_is_cut(wire: Transport, end: bytes | float) -> None:
    """By the end of the body, or by the end of the connection."""
    begun = await fault_of(wire, STREAM, STARTS[wire], 0.05, end)
    assert (begun.reason, begun.stage) == (Reason.CUT, Stage.PREAMBLE)
    spoken = await fault_of(wire, STREAM, STARTS[wire], says(wire, "x"), 0.05, end)
    assert (spoken.reason, spoken.stage) == (Reason.CUT, Stage.CONTENT)


async def test_a_blank_finish_reason_is_none() -> None:
    events = await answer_of(CHAT, STREAM, chunk("", content="a"), chunk("", content="b"), chunk("stop"), DONE)
    assert text_of(events) == "ab"
    fault = await fault_of(CHAT, STREAM, chunk("", content="a"), DONE)
    assert fault.reason is Reason.CUT


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_no_headers_in_time_is_a_timeout(wire: Transport) -> None:
    fault = await fault_of(wire, None, clocks=Clocks(first_token=0.1))
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.HEADERS)


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_silence_before_the_first_token_is_a_timeout(wire: Transport) -> None:
    fault = await fault_of(wire, STREAM, None, clocks=Clocks(first_token=0.1), idle_timeout=5.0)
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.PREAMBLE)


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_a_provider_that_shows_life_may_think_longer(wire: Transport) -> None:
    answer = (STREAM, STARTS[wire], 0.3, says(wire, "x"), ENDS[wire])
    assert text_of(await answer_of(wire, *answer, clocks=Clocks(first_token=0.1), idle_timeout=5.0)) == "x"


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_pings_do_not_stand_in_for_content(wire: Transport) -> None:
    pings = [piece for _ in range(40) for piece in (PINGS[wire], 0.02)]
    for said, stage in (((), Stage.PREAMBLE), ((says(wire, "x"),), Stage.CONTENT)):
        fault = await fault_of(
            wire, STREAM, STARTS[wire], *said, *pings, None, clocks=Clocks(first_token=0.1), idle_timeout=0.2
        )
        assert (fault.reason, fault.stage) == (Reason.TIMEOUT, stage)


async def test_content_keeps_a_turn_alive_up_to_the_limit_of_all() -> None:
    words = [piece for _ in range(12) for piece in (says(CHAT, "x"), 0.05)]
    assert text_of(await answer_of(CHAT, STREAM, *words, ENDS[CHAT], idle_timeout=0.2)) == "x" * 12
    fault = await fault_of(CHAT, STREAM, *words, None, clocks=Clocks(total=0.3), idle_timeout=0.2)
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.CONTENT)


@pytest.mark.parametrize("wire", BY_WIRE)
async def test_closing_a_run_hangs_up(wire: Transport) -> None:
    async with asked(wire, Vendor(STREAM, STARTS[wire], says(wire, "x"), None)) as (run, server):
        async for _ in run:
            break
        assert server.open == 1
        await run.close()
        await server.clients_left()


@pytest.mark.parametrize("answer", [(None,), (STREAM, None)])
async def test_cancelling_hangs_up(answer: tuple[bytes | None, ...]) -> None:
    async with serving(Vendor(*answer)) as (server, port):
        door = Door(ProviderHosts([f"127.0.0.1:{port}"]))
        channel = ChannelView("0" * 16, f"http://127.0.0.1:{port}/v1/messages", {"m": "m"})
        upstream = Provider(door, BY_WIRE[MESSAGES])

        async def turn() -> None:
            run = await upstream.open(HI, Target(1, "", "m", {}, "k", channel=channel), Clocks(), "a")
            try:
                await collect(run)
            finally:
                await run.close()

        task = asyncio.create_task(turn())
        await asyncio.sleep(0.1)
        assert server.open == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.clients_left()
        await upstream.close()


async def test_a_call_comes_back_under_the_callers_name() -> None:
    name = "mcp.server/" + "n" * 90
    request = Request(model="m", messages=HI.messages, tools=(Tool(name, "", {"type": "object"}),), stream=True)
    vendor = Vendor(STREAM, None)
    async with serving(vendor) as (_, port):
        door = Door(ProviderHosts([f"127.0.0.1:{port}"]))
        channel = ChannelView("0" * 16, f"http://127.0.0.1:{port}/v1/chat/completions", {"m": "m"})
        run = await Provider(door, BY_WIRE[CHAT]).open(
            request, Target(1, "", "m", {}, "k", channel=channel), Clocks(), "a"
        )
        sent = vendor.bodies[0]["tools"][0]["function"]["name"]
        assert len(sent) <= 64
        await run.close()
        await door.close()
    call = {"index": 0, "id": "c", "function": {"name": sent, "arguments": "{}"}}
    events = await answer_of(CHAT, STREAM, chunk(tool_calls=[call]), chunk("tool_calls"), DONE, request=request)
    assert [event.name for event in events if isinstance(event, PartStart)] == [name]


async def test_an_address_inside_is_refused_before_anything_is_sent() -> None:
    vendor = Vendor(STREAM)
    async with serving(vendor) as (server, port):
        door = Door(ProviderHosts([]))
        for url in (f"http://127.0.0.1:{port}/", f"https://127.0.0.1:{port}/"):
            channel = ChannelView("0" * 16, url, {"m": "m"})
            with pytest.raises(Fault) as caught:
                await Provider(door, BY_WIRE[CHAT]).open(
                    HI, Target(1, "", "m", {}, "k", channel=channel), Clocks(), "a"
                )
            assert caught.value.upstream_code == "address_refused"
        channel = ChannelView("0" * 16, f"https://localhost:{port}/", {"m": "m"})
        with pytest.raises(Fault) as caught:
            await Provider(door, BY_WIRE[CHAT]).open(HI, Target(1, "", "m", {}, "k", channel=channel), Clocks(), "a")
        assert (caught.value.reason, caught.value.upstream_code) == (Reason.EGRESS, "ResolveError")
        assert server.connections == 0
