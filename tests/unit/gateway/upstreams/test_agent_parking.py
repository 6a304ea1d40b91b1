"""Streams that are kept after an answer with calls: what is answered meanwhile, what ends them, how they go on."""

from __future__ import annotations

import asyncio

import pytest

from gateway.contracts import Clocks, ParkableRun, Target
from gateway.upstreams import agent_line
from gateway.upstreams.agent_rpc import AgentRpc, AgentRun
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartKind, Unified
from ir.request import Image, Text, ToolResult
from ir.response import Response, fold
from protobufs import agent_v1_pb2 as pb
from tests.unit.gateway.protocols import agent_server as words
from tests.unit.gateway.upstreams.test_agent_rpc import CLOCKS, Upstream, connected

DONE = (words.text("Done."), words.turn_ended(output_tokens=1), words.END)
RESULT = ToolResult("c1", "7C")


async def ask(rpc: AgentRpc, target: Target, **request: bool) -> tuple[AgentRun, Response]:
    """A run that has given its first answer, not closed."""
    run = await rpc.open(words.request(**request), target, CLOCKS, "a1")
    return run, await hear(run)


async def hear(run: AgentRun) -> Response:
    events: list[Event] = []
    async for some in run:
        events += some
    return fold(events)


class Loss:
    """Told when a parked stream is lost."""

    def __init__(self) -> None:
        self.times = 0
        self.came = asyncio.Event()

    def __call__(self) -> None:
        self.times += 1
        self.came.set()


def results(upstream: Upstream) -> list[pb.ExecClientMessage]:
    answers = [message.exec_client_message for _, message in upstream.appends]
    return [answer for answer in answers if answer.HasField("mcp_result")]


async def test_a_run_waits_after_calls_and_only_then() -> None:
    async with connected(Upstream(words.call("c1"), 5.0)) as (rpc, server, target):
        run, answer = await ask(rpc, target)
        assert isinstance(run, ParkableRun)
        assert answer.finish.unified is Unified.TOOL_CALLS
        waited = run.waits
        await run.close()
        assert (waited, run.waits) == (True, False)
        await server.clients_left(1)
    async with connected(Upstream(*DONE)) as (rpc, _, target):
        run, _ = await ask(rpc, target)
        assert not run.waits


async def test_the_results_go_to_the_run_and_its_next_answer_follows() -> None:
    upstream = Upstream(words.text("Look."), words.call("c1", exec_id="e7"), "append", *DONE)
    async with connected(upstream) as (rpc, _, target):
        run, first = await ask(rpc, target)
        run.park(Loss())
        await run.resume(words.request(), [RESULT], CLOCKS)
        second = await hear(run)
        await run.close()
    assert [part.kind for part in first.parts] == [PartKind.TEXT, PartKind.TOOL_CALL]
    assert [part.text for part in second.parts] == ["Done."]
    assert (second.finish.unified, second.usage.output) == (Unified.STOP, 1)
    [answer] = results(upstream)
    assert (answer.id, answer.exec_id) == (1, "e7")
    assert [item.text.text for item in answer.mcp_result.success.content] == ["7C"]
    assert upstream.events.count("stream") == 1
    assert [number for number, _ in upstream.appends] == [0, 1]


async def test_a_run_goes_on_as_often_as_it_calls() -> None:
    rounds = [step for number in range(3) for step in (words.call(f"c{number}"), "append")]
    upstream = Upstream(*rounds, *DONE)
    async with connected(upstream) as (rpc, _, target):
        run, answer = await ask(rpc, target)
        for number in range(3):
            assert [part.call_id for part in answer.parts] == [f"c{number}"]
            run.park(Loss())
            await run.resume(words.request(), [ToolResult(f"c{number}", str(number))], CLOCKS)
            answer = await hear(run)
        await run.close()
    assert answer.parts[0].text == "Done."
    assert [one.mcp_result.success.content[0].text.text for one in results(upstream)] == ["0", "1", "2"]


async def test_results_keep_their_form() -> None:
    upstream = Upstream(words.call("c1"), words.call("c2", exec_id="e2"), "append", "append", *DONE)
    async with connected(upstream) as (rpc, _, target):
        run, _ = await ask(rpc, target)
        run.park(Loss())
        picture = ToolResult(
            "c1",
            (
                Text("see"),
                Image("image/png", "iVBORw=="),
            ),
        )
        await run.resume(words.request(), [ToolResult("c2", "", is_error=True), picture], CLOCKS)
        await hear(run)
    failed, shown = results(upstream)
    assert (failed.exec_id, failed.mcp_result.success.is_error) == ("e2", True)
    assert failed.mcp_result.success.content[0].text.text == "(no output)"
    assert (shown.exec_id, shown.mcp_result.success.is_error) == ("e1", False)
    text, image = shown.mcp_result.success.content
    assert (text.text.text, image.image.mime_type, image.image.data) == ("see", "image/png", b"\x89PNG")


async def test_a_call_that_was_ordered_twice_has_both_orders_answered() -> None:
    upstream = Upstream(words.call("c1"), words.call("c1", exec_id="e2"), "append", "append", *DONE)
    async with connected(upstream) as (rpc, _, target):
        run, _ = await ask(rpc, target)
        run.park(Loss())
        await run.resume(words.request(), [RESULT], CLOCKS)
        await hear(run)
    assert [answer.exec_id for answer in results(upstream)] == ["e1", "e2"]


async def test_questions_are_answered_and_heartbeats_go_on_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_line, "HEARTBEAT_SECONDS", 0.05)
    questions = (
        words.ask("e8", 8, request_context_args=pb.RequestContextArgs())
        + words.ask("e9", 9, ls_args=pb.LsArgs(path="/"))
        + words.query(web_search_request_query=pb.Empty())
        + words.heartbeat()
        + words.announced()
    )
    upstream = Upstream(words.call("c1"), 0.3, questions, 5.0)
    async with connected(upstream) as (rpc, _, target):
        run, _ = await ask(rpc, target)
        loss = Loss()
        run.park(loss)
        await asyncio.sleep(0.6)
        assert loss.times == 0
        kinds = [message.WhichOneof("message") for _, message in upstream.appends]
        assert kinds.count("exec_client_message") == 2
        assert kinds.count("interaction_response") == 1
        assert kinds[-5:].count("client_heartbeat") >= 4
        await run.close()


ENDS: dict[str, bytes] = {
    "a late call": words.call("c2", exec_id="e2"),
    "text": words.text("Never mind."),
    "turn_ended": words.turn_ended(),
    "the end": words.END,
    "a foreign frame": b"\x00\x00\x00\x00\x01\xff",
}


@pytest.mark.parametrize("end", ENDS)
async def test_an_upstream_that_goes_on_without_the_results_has_lost_the_run(end: str) -> None:
    async with connected(Upstream(words.call("c1"), 0.3, ENDS[end], 5.0)) as (rpc, server, target):
        run, _ = await ask(rpc, target)
        loss = Loss()
        run.park(loss)
        await asyncio.wait_for(loss.came.wait(), 2)
        with pytest.raises(Fault) as caught:
            await run.resume(words.request(), [RESULT], CLOCKS)
        await run.close()
        await server.clients_left(1)
    assert (caught.value.reason, caught.value.stage, loss.times) == (Reason.CUT, Stage.PREAMBLE, 1)


async def test_a_connection_that_breaks_has_lost_the_run() -> None:
    async with connected(Upstream(words.call("c1"), 0.3, cut=True)) as (rpc, _, target):
        run, _ = await ask(rpc, target)
        loss = Loss()
        run.park(loss)
        await asyncio.wait_for(loss.came.wait(), 2)
        await run.close()


async def test_a_heartbeat_that_is_refused_has_lost_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_line, "HEARTBEAT_SECONDS", 0.2)
    upstream = Upstream(words.call("c1"), 5.0)
    ok = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    upstream.reply = lambda number: ok if number == 0 else b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n"
    async with connected(upstream) as (rpc, _, target):
        run, _ = await ask(rpc, target)
        loss = Loss()
        run.park(loss)
        await asyncio.wait_for(loss.came.wait(), 2)
        await run.close()


async def test_what_comes_behind_the_only_call_allowed_makes_the_run_useless() -> None:
    both = words.call("c1") + words.call("c2", exec_id="e2")
    async with connected(Upstream(both, 5.0)) as (rpc, server, target):
        run, answer = await ask(rpc, target, parallel_tool_calls=False)
        assert len(answer.parts) == 1
        assert not run.waits
        await run.close()
        await server.clients_left(1)


async def test_a_resumed_run_has_the_time_of_a_new_one() -> None:
    upstream = Upstream(words.call("c1"), "append", 5.0)
    async with connected(upstream) as (rpc, _, target):
        run, _ = await ask(rpc, target)
        run.park(Loss())
        await asyncio.sleep(0.3)
        began = asyncio.get_running_loop().time()
        await run.resume(words.request(), [RESULT], Clocks(first_token=0.4, idle=5, total=5))
        with pytest.raises(Fault) as caught:
            await hear(run)
        await run.close()
    assert 0.3 < asyncio.get_running_loop().time() - began < 1.5
    assert (caught.value.reason, caught.value.stage) == (Reason.TIMEOUT, Stage.PREAMBLE)


async def test_a_parked_run_that_is_cancelled_leaves_nothing_open() -> None:
    async with connected(Upstream(words.call("c1"), 5.0)) as (rpc, server, target):
        run, _ = await ask(rpc, target)
        run.park(Loss())
        await asyncio.sleep(0)
        run.cancel()
        await server.clients_left(1)
        await asyncio.sleep(0)
        assert run.sender.cancelled()


async def test_a_run_weighs_what_the_upstream_may_ask_it_for() -> None:
    async with connected(Upstream(words.call("c1"), 5.0)) as (rpc, _, target):
        light, _ = await ask(rpc, target)
        await light.close()
    async with connected(Upstream(words.call("c1"), 5.0)) as (rpc, _, target):
        heavy = await rpc.open(words.request(system="x" * 10_000), target, CLOCKS, "a1")
        await hear(heavy)
        await heavy.close()
    assert heavy.weight - light.weight > 20_000  # sent ahead, and kept to be asked for
