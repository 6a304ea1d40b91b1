"""The driver alone, against a server of a few lines that records what it gets and says what a test tells it to."""

from __future__ import annotations

import asyncio
import tomllib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from core.outbound import AllowList
from gateway.contracts import Clocks, Target
from gateway.upstreams import agent_line, agent_rpc
from gateway.upstreams.agent_rpc import AgentRpc, AgentRun
from gateway.upstreams.http import Door
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartKind, Unified
from ir.request import Request
from ir.response import Response, fold
from protobufs import agent_v1_pb2 as pb
from tests.unit.gateway.protocols import agent_server as words
from tests.unit.gateway.upstreams.loopback import Server, read_request, serving

Step = bytes | float | str
CLOCKS = Clocks(connect=1, first_token=1, idle=1, total=5, tool_window=0.1)
HELLO: tuple[Step, ...] = (words.text("Hello"), words.turn_ended(output_tokens=1), words.END)


class Upstream:
    """``script`` is what RunSSE says: bytes, seconds to wait, or "append" to wait for one more append.

    ``cut`` leaves the body without its end. ``reply`` is the answer to an append, by its number.
    """

    def __init__(self, *script: Step, cut: bool = False, early: bool = True) -> None:
        self.script: Sequence[Step] = ("append", *script)
        self.cut = cut
        self.early = early
        self.heads: list[bytes] = []
        self.appends: list[tuple[int, pb.AgentClientMessage]] = []
        self.events: list[str] = []
        self.reply: Callable[[int], bytes] = lambda number: b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        self.stream_head = b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+proto\r\n"
        self._came = asyncio.Semaphore(0)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            if not head:
                return
            self.heads.append(head)
            if b"RunSSE" in head:
                await self._run(writer)
                if self.cut:
                    return
            else:
                await self._append(writer, body)

    async def _run(self, writer: StreamWriter) -> None:
        self.events.append("stream")
        start = self.stream_head + b"transfer-encoding: chunked\r\n\r\n"
        if self.early:
            writer.write(start)
        for step in self.script:
            if isinstance(step, bytes):
                writer.write(b"%x\r\n" % len(step) + step + b"\r\n")
            elif isinstance(step, str):
                await asyncio.wait_for(self._came.acquire(), 5)
                if not self.early and len(self.appends) == 1:
                    writer.write(start)
            else:
                await asyncio.sleep(step)
        if not self.cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _append(self, writer: StreamWriter, body: bytes) -> None:
        request = pb.BidiAppendRequest.FromString(body)
        message = pb.AgentClientMessage.FromString(bytes.fromhex(request.data))
        self.appends.append((request.append_seqno, message))
        self.events.append(f"append {request.append_seqno}")
        reply = self.reply(request.append_seqno)
        if not reply:
            writer.transport.abort()
            return
        writer.write(reply)
        self._came.release()


@asynccontextmanager
async def connected(upstream: Upstream) -> AsyncIterator[tuple[AgentRpc, Server, Target]]:
    async with serving(upstream.serve) as (server, port):
        rpc = AgentRpc(Door(AllowList([f"127.0.0.1:{port}"])))
        try:
            yield rpc, server, Target(1, f"http://127.0.0.1:{port}", "default", {"effort": "high"}, "jwt-secret")
        finally:
            await rpc.close()


async def whole(rpc: AgentRpc, target: Target, *, request: Request | None = None, clocks: Clocks = CLOCKS) -> Response:
    events: list[Event] = []
    run = await rpc.open(request or words.request(), target, clocks, "a1")
    try:
        async for some in run:
            assert some
            events += some
    finally:
        await run.close()
    return fold(events)


async def fault_of(upstream: Upstream, *, clocks: Clocks = CLOCKS, idle: int = 1) -> Fault:
    """``idle`` connections may be left in the pool: that of the appends, and the stream's when it was read whole."""
    async with connected(upstream) as (rpc, server, target):
        with pytest.raises(Fault) as caught:
            await whole(rpc, target, clocks=clocks)
        await server.clients_left(idle)
    return caught.value


async def test_a_turn_is_a_stream_and_its_appends() -> None:
    upstream = Upstream(*HELLO)
    async with connected(upstream) as (rpc, _, target):
        answer = await whole(rpc, target)
    assert answer.parts[0].text == "Hello"
    assert answer.usage.output == 1
    assert upstream.events == ["stream", "append 0"]
    ((number, message),) = upstream.appends
    assert number == 0
    assert message.run_request.requested_model.model_id == "default"


async def test_headers_are_those_of_the_protocol_and_tell_nothing_else() -> None:
    upstream = Upstream(*HELLO)
    async with connected(upstream) as (rpc, _, target):
        await whole(rpc, target)
    fields = [dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2]) for head in upstream.heads]
    stream, append = fields
    stream_id = stream["x-request-id"]
    common = {
        "host": stream["host"],
        "authorization": "Bearer jwt-secret",
        "user-agent": agent_rpc.USER_AGENT,
        "connect-protocol-version": "1",
        "x-ghost-mode": "true",
        "x-cursor-agent-allowed-tools": "mcp_tool_call",
        "x-request-id": stream_id,
    }
    assert stream == {
        **common,
        "content-length": "43",
        "content-type": "application/connect+proto",
        "connect-accept-encoding": "gzip",
        "x-cursor-streaming": "true",
    }
    assert append == {**common, "content-length": append["content-length"], "content-type": "application/proto"}
    assert len(stream_id) == 36


async def test_client_type_and_version_are_sent_only_when_set_and_tools_hidden_when_none() -> None:
    upstream = Upstream(*HELLO)
    async with connected(upstream) as (rpc, _, target):
        named = Target(1, target.base_url, "m", {}, "jwt", client_type="sdk", client_version="sdk-9")
        await whole(rpc, named, request=words.request(tools=()))
    for head in upstream.heads:
        assert b"x-cursor-client-type: sdk\r\n" in head
        assert b"x-cursor-client-version: sdk-9\r\n" in head
        assert b"x-cursor-agent-allowed-tools: \r\n" in head


def test_the_user_agent_names_the_version_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    assert agent_rpc.USER_AGENT.split("/") == ["poolgate", project["version"]]


async def test_the_first_append_goes_after_a_while_when_headers_do_not_come() -> None:
    upstream = Upstream(*HELLO, early=False)
    async with connected(upstream) as (rpc, _, target):
        started = asyncio.get_running_loop().time()
        assert (await whole(rpc, target)).parts[0].text == "Hello"
        assert asyncio.get_running_loop().time() - started >= agent_line.ATTACH_SECONDS


async def test_questions_are_answered_in_order_with_counted_appends() -> None:
    questions = [
        words.ask("e1", 1, request_context_args=pb.RequestContextArgs()),
        words.ask("e2", 2, ls_args=pb.LsArgs(path="/")),
        words.query(web_search_request_query=pb.Empty()),
    ]
    upstream = Upstream(b"".join(questions), "append", "append", "append", *HELLO)
    async with connected(upstream) as (rpc, _, target):
        await whole(rpc, target)
    assert [number for number, _ in upstream.appends] == [0, 1, 2, 3]
    kinds = [message.WhichOneof("message") for _, message in upstream.appends]
    assert kinds == ["run_request", "exec_client_message", "exec_client_message", "interaction_response"]


async def test_connections_are_used_again_by_the_next_turn() -> None:
    upstream = Upstream(*HELLO)
    async with connected(upstream) as (rpc, server, target):
        for _ in range(4):
            await whole(rpc, target)
        assert server.connections == 2


async def test_a_failed_append_is_sent_again_with_its_number() -> None:
    upstream = Upstream(*HELLO)
    dropped: list[int] = []

    def reply(number: int) -> bytes:
        if not dropped:
            dropped.append(number)
            return b""
        return b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

    upstream.reply = reply
    async with connected(upstream) as (rpc, _, target):
        assert (await whole(rpc, target)).parts[0].text == "Hello"
    assert [number for number, _ in upstream.appends] == [0, 0]


async def test_an_append_that_is_refused_fails_the_run_with_its_reason() -> None:
    upstream = Upstream(5.0)
    body = b'{"code":"unauthenticated","message":"Error"}'
    upstream.reply = lambda number: b"HTTP/1.1 401 No\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    fault = await fault_of(upstream)
    assert (fault.reason, fault.stage, fault.upstream_code) == (Reason.AUTH_EXPIRED, Stage.PREAMBLE, "unauthenticated")


async def test_an_append_that_somebody_else_answers_fails_the_run() -> None:
    upstream = Upstream(5.0)
    upstream.reply = lambda number: b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi"
    assert (await fault_of(upstream)).reason is Reason.PROTOCOL


async def test_an_append_that_is_refused_while_headers_are_awaited_fails_at_once() -> None:
    upstream = Upstream(5.0, early=False)
    upstream.script = (5.0,)
    upstream.reply = lambda number: b"HTTP/1.1 429 No\r\nretry-after: 3\r\ncontent-length: 0\r\n\r\n"
    fault = await fault_of(upstream, clocks=Clocks(first_token=4))
    assert (fault.reason, fault.retry_after) == (Reason.RATE_LIMIT, 3)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"HTTP/1.1 403 No\r\ncontent-type: text/html\r\n", Reason.EGRESS),
        (b"HTTP/1.1 464 No\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 503 No\r\n", Reason.CAPACITY),
    ],
)
async def test_an_answer_that_is_no_stream_fails_the_opening(head: bytes, reason: Reason) -> None:
    upstream = Upstream(b"body")
    upstream.script = (b"body",)
    upstream.stream_head = head
    fault = await fault_of(upstream)
    assert (fault.reason, fault.stage) == (reason, Stage.HEADERS)


async def test_a_refusal_whose_body_does_not_end_is_still_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_rpc, "ERROR_BODY_SECONDS", 0.05)
    upstream = Upstream()
    upstream.script = (b"a", 5.0)
    upstream.stream_head = b"HTTP/1.1 402 No\r\n"
    assert (await fault_of(upstream)).reason is Reason.PAYMENT


# Time.


def quick(**limits: float) -> Clocks:
    return Clocks(**{"connect": 1, "first_token": 2, "idle": 2, "total": 5, "tool_window": 0.1, **limits})


async def test_no_headers_in_time_is_a_timeout() -> None:
    upstream = Upstream(early=False)
    upstream.script = (5.0,)
    fault = await fault_of(upstream, clocks=quick(first_token=0.2))
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.HEADERS)


async def test_heartbeats_alone_do_not_hold_off_the_first_token_limit() -> None:
    beats: list[Step] = [words.heartbeat(), 0.05] * 40
    fault = await fault_of(Upstream(*beats), clocks=quick(first_token=0.3))
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.PREAMBLE)


async def test_heartbeats_alone_do_not_hold_off_the_idle_limit() -> None:
    beats: list[Step] = [words.heartbeat(), 0.05] * 40
    fault = await fault_of(Upstream(words.text("a"), *beats), clocks=quick(idle=0.2))
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.CONTENT)


async def test_output_holds_off_the_idle_limit() -> None:
    steps: list[Step] = [words.text("a"), 0.1] * 8
    async with connected(Upstream(*steps, *HELLO)) as (rpc, _, target):
        assert (await whole(rpc, target, clocks=quick(idle=0.3))).parts[0].text == "a" * 8 + "Hello"


async def test_a_turn_is_never_longer_than_the_whole_limit() -> None:
    steps: list[Step] = [words.text("a"), 0.05] * 100
    fault = await fault_of(Upstream(*steps), clocks=quick(total=0.4))
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.CONTENT)


async def test_silence_after_a_call_ends_the_turn_and_drops_the_stream() -> None:
    upstream = Upstream(words.text("Look."), words.call("c1"), 5.0)
    async with connected(upstream) as (rpc, server, target):
        answer = await whole(rpc, target)
        assert [part.kind for part in answer.parts] == [PartKind.TEXT, PartKind.TOOL_CALL]
        assert answer.finish.unified is Unified.TOOL_CALLS
        await server.clients_left(1)  # the idle one, of the append


async def test_a_parallel_call_that_comes_late_is_in_the_turn_and_one_that_comes_too_late_is_not() -> None:
    upstream = Upstream(
        words.call("c1"), 0.15, words.announced(), 0.15, words.call("c2", exec_id="e2"), 0.6, words.call("c3"), 5.0
    )
    async with connected(upstream) as (rpc, _, target):
        answer = await whole(rpc, target, clocks=quick(tool_window=0.3))
    assert [part.call_id for part in answer.parts] == ["c1", "c2"]


async def test_without_parallel_calls_the_turn_ends_at_once() -> None:
    upstream = Upstream(words.call("c1"), 5.0)
    async with connected(upstream) as (rpc, _, target):
        started = asyncio.get_running_loop().time()
        await whole(rpc, target, request=words.request(parallel_tool_calls=False), clocks=quick(tool_window=2))
        assert asyncio.get_running_loop().time() - started < 1


async def test_silence_after_turn_ended_is_the_end_after_a_grace() -> None:
    upstream = Upstream(words.text("a"), words.turn_ended(), 5.0)
    async with connected(upstream) as (rpc, _, target):
        started = asyncio.get_running_loop().time()
        assert (await whole(rpc, target)).parts[0].text == "a"
        assert agent_rpc.GRACE_SECONDS - 0.01 <= asyncio.get_running_loop().time() - started < 1


async def test_a_reader_that_is_slow_is_no_reason_for_a_timeout() -> None:
    upstream = Upstream(words.text("a"), 0.1, words.text("b"), *HELLO)
    async with connected(upstream) as (rpc, _, target):
        run = await rpc.open(words.request(), target, quick(idle=0.3, first_token=0.3), "a1")
        events: list[Event] = []
        async for some in run:
            events += some
            await asyncio.sleep(0.5)
        await run.close()
    assert fold(events).parts[0].text == "abHello"


async def test_heartbeats_are_sent_while_the_run_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_line, "HEARTBEAT_SECONDS", 0.05)
    upstream = Upstream(words.text("a"), 0.3, *HELLO)
    async with connected(upstream) as (rpc, _, target):
        await whole(rpc, target)
        await asyncio.sleep(0.05)  # the append in flight may end
        sent = len(upstream.appends)
        await asyncio.sleep(0.15)
        assert len(upstream.appends) == sent
    assert [number for number, _ in upstream.appends] == list(range(sent))
    assert 3 <= sum(message.HasField("client_heartbeat") for _, message in upstream.appends) <= 7


async def test_the_last_sign_of_life_is_the_last_byte() -> None:
    upstream = Upstream(words.heartbeat(), 0.2, words.heartbeat(), 0.2, *HELLO)
    async with connected(upstream) as (rpc, _, target):
        run = await rpc.open(words.request(), target, CLOCKS, "a1")

        async def first() -> None:
            await anext(aiter(run))

        reading = asyncio.create_task(first())
        signs = []
        for _ in range(3):
            await asyncio.sleep(0.15)
            signs.append(run.last_sign)
        await reading
        await run.close()
    assert signs[0] < signs[-1] <= asyncio.get_running_loop().time()


# The end.


@pytest.mark.parametrize("script", [(), (words.text("a"),), (words.text("a"), words.call("c1"))])
async def test_a_stream_that_is_cut_is_a_fault(script: tuple[Step, ...]) -> None:
    fault = await fault_of(Upstream(*script, cut=True))
    assert fault.reason is Reason.CUT
    assert fault.stage is (Stage.CONTENT if script else Stage.PREAMBLE)


async def test_a_body_that_ends_without_an_end_frame_is_a_fault() -> None:
    fault = await fault_of(Upstream(words.text("a")), idle=2)
    assert (fault.reason, fault.stage) == (Reason.CUT, Stage.CONTENT)


async def test_closing_in_the_middle_drops_everything_at_once() -> None:
    upstream = Upstream(words.text("a"), 5.0)
    async with connected(upstream) as (rpc, server, target):
        run = await rpc.open(words.request(), target, CLOCKS, "a1")
        await anext(aiter(run))
        await run.close()
        await run.close()
        await rpc.close()
        await server.clients_left()
    assert not pending_tasks()


def pending_tasks() -> list[str]:
    return [repr(task) for task in asyncio.all_tasks() if "send_all" in repr(task) and not task.done()]


async def drive(rpc: AgentRpc, target: Target, runs: list[AgentRun]) -> None:
    """What the pipeline does, cancellation included."""
    run = await rpc.open(words.request(), target, CLOCKS, "a1")
    runs.append(run)
    try:
        async for _ in run:
            pass
    finally:
        await run.close()


async def test_cancelling_at_any_await_leaves_neither_socket_nor_task() -> None:
    """The task is cancelled after one more step of the loop each time, until it gets through."""
    question = words.ask(request_context_args=pb.RequestContextArgs())
    finished = 0
    for steps in range(400):
        upstream = Upstream(words.thinking("a"), question, "append", words.text("b"), *HELLO)
        async with connected(upstream) as (rpc, server, target):
            task = asyncio.create_task(drive(rpc, target, []))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
                finished += 1
            except asyncio.CancelledError:
                pass
            await rpc.close()
            await server.clients_left()
            assert not pending_tasks()
        if finished > 3:
            break
    assert finished > 3


async def test_many_turns_at_once_stay_apart() -> None:
    async with AsyncExitStack() as stack:
        ports = []
        for number in range(30):
            upstream = Upstream(*(words.text(f"{number} ") for _ in range(20)), *HELLO)
            ports.append((await stack.enter_async_context(serving(upstream.serve)))[1])
        rpc = AgentRpc(Door(AllowList([f"127.0.0.1:{port}" for port in ports])))
        targets = [Target(1, f"http://127.0.0.1:{port}", "m", {}, "jwt") for port in ports]
        answers = await asyncio.gather(*(whole(rpc, target) for target in targets))
        await rpc.close()
    assert [answer.parts[0].text for answer in answers] == [f"{number} " * 20 + "Hello" for number in range(30)]


async def test_nothing_of_a_target_shows_in_a_repr() -> None:
    target = Target(1, "http://host", "m", {}, "jwt-secret")
    assert "secret" not in repr(target)
