"""A Cloud Agents API of a few lines: it records what it is asked and streams what a test tells it to."""

from __future__ import annotations

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from core.outbound import AllowList
from gateway.contracts import Clocks, Target
from gateway.upstreams.cloud_agents import CloudAgents, Pace
from gateway.upstreams.http import Door
from gateway.upstreams.leftovers import Leftovers
from ir.events import Event
from ir.request import Message, Request, Text
from ir.response import Response, fold
from tests.unit.gateway.upstreams.loopback import read_request, serving

CLOCKS = Clocks(connect=1, first_token=1, idle=0.5, total=5)
PACE = Pace(first=0.01, longest=0.02, tries=3, look=0.01, longest_look=0.02, deletions=(0.0, 0.01, 0.01))
REQUEST = Request("sim", (Message("user", (Text("Say hi"),)),))
Step = bytes | float


def frame(event: str, data: Any, identifier: str = "") -> bytes:
    head = f"id: {identifier}\n" if identifier else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


def said(text: str, identifier: str) -> bytes:
    return frame("assistant", {"text": text}, identifier)


FINISHED = frame("result", {"status": "FINISHED"}, "end") + frame("done", {})
HELLO = (frame("status", {"status": "RUNNING"}), said("Hel", "1"), said("lo", "2"), FINISHED)


def error(status: int, code: str, **headers: str) -> tuple[int, dict[str, str], object]:
    return status, headers, {"error": {"code": code, "message": "secret"}}


class Api:
    """``streams`` are taken one by one: the steps of a stream, or an answer in its place. ``answers`` replace the
    usual answer to a kind of call: create, run, cancel, delete, usage or models."""

    def __init__(self, *streams: tuple[Step, ...] | tuple[int, dict[str, str], object]) -> None:
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.heads: list[dict[str, str]] = []
        self.answers: dict[str, Callable[[], tuple[int, dict[str, str], object]]] = {}
        self._streams: Iterator[Any] = iter(streams)

    @property
    def resumed(self) -> list[str]:
        """The Last-Event-ID of each stream."""
        return [
            head.get("last-event-id", "") for what, head in zip(self.asked, self.heads, strict=True) if what == "stream"
        ]

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            if not head:
                return
            start, *lines = head.decode().split("\r\n")
            kind = _kind(*start.split(" ")[:2])
            self.asked.append(kind)
            self.heads.append({name.lower(): value for name, value in (line.split(": ", 1) for line in lines if line)})
            self.bodies.append(json.loads(body) if body else None)
            if kind == "stream":
                await self._stream(writer)
            else:
                _write(writer, *(self.answers[kind]() if kind in self.answers else self._usual(kind)))

    def _usual(self, kind: str) -> tuple[int, dict[str, str], object]:
        usual: dict[str, Any] = {
            "create": {"agent": {"id": "bc-1"}, "run": {"id": "run-1", "status": "RUNNING"}},
            "usage": {"totalUsage": {"inputTokens": 3, "outputTokens": 2, "cacheReadTokens": 0, "cacheWriteTokens": 0}},
            "models": {"items": []},
            "run": {"id": "run-1", "status": "FINISHED", "result": "Hello"},
        }
        return 201 if kind == "create" else 200, {}, usual.get(kind, {"id": "bc-1"})

    async def _stream(self, writer: StreamWriter) -> None:
        steps = next(self._streams)
        if isinstance(steps[0], int) and not isinstance(steps[0], float):
            _write(writer, *steps)
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                writer.write(b"%x\r\n" % len(step) + step + b"\r\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


class List(Leftovers):
    """The list of agents as a dict: agent → seconds from now on which it is the sweep's."""

    def __init__(self) -> None:
        self.agents: dict[str, float] = {}

    def note(self, agent: str, account_id: int, life: float) -> None:
        self.agents[agent] = life

    def give_up(self, agent: str, account_id: int, after: float = 0.0) -> None:
        self.agents[agent] = after

    def forget(self, agent: str) -> None:
        self.agents.pop(agent, None)


@asynccontextmanager
async def connected(api: Api) -> AsyncIterator[tuple[CloudAgents, List, Target]]:
    """Leaving waits for what goes on behind the caller's back."""
    async with serving(api.serve) as (_, port):
        listed = List()
        cloud = CloudAgents(Door(AllowList([f"127.0.0.1:{port}"])), listed, PACE)
        try:
            yield cloud, listed, Target(1, f"http://127.0.0.1:{port}", "sim", {}, "crsr_key")
        finally:
            await cloud.close()


async def whole(cloud: CloudAgents, target: Target, request: Request = REQUEST, clocks: Clocks = CLOCKS) -> Response:
    events: list[Event] = []
    run = await cloud.open(request, target, clocks, "a1")
    try:
        async for some in run:
            assert some
            events += some
    finally:
        await run.close()
    return fold(events)


def _kind(method: str, path: str) -> str:
    if method == "DELETE":
        return "delete"
    for end in ("stream", "cancel", "models"):
        if path.endswith(f"/{end}"):
            return end
    if "/usage?" in path:
        return "usage"
    return "create" if method == "POST" else "run"


def _write(writer: StreamWriter, status: int, headers: dict[str, str], body: object) -> None:
    raw = json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status} X",
        f"content-length: {len(raw)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
