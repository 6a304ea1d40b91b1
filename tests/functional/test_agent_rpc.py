"""The driver against the strict fake upstream, over sockets: we say only what the upstream accepts."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.outbound import AllowList
from gateway.contracts import Clocks, Target
from gateway.upstreams.agent_rpc import AgentRpc
from gateway.upstreams.http import Door
from ir.errors import Culprit, Fault, Reason, Stage
from ir.events import Event, PartDelta, PartKind, Unified
from ir.request import Content, Image, Message, Request, Text, Tool, ToolCall, ToolChoice, ToolMode, ToolResult
from ir.response import Response, fold
from ir.usage import Usage
from tests.plugins.simulator import Simulator

CLOCKS = Clocks(connect=5, first_token=5, idle=5, total=20, tool_window=0.2)
TOOLS = (
    Tool(
        "get_weather",
        "Weather by city",
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    ),
    Tool("find", "Finds", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}),
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PIXEL = Image("image/png", base64.b64encode(PNG).decode())


class Caller:
    """Asks the simulator as one account."""

    def __init__(self, simulator: Simulator, rpc: AgentRpc, token: str) -> None:
        self.simulator = simulator
        self.rpc = rpc
        self.token = token

    def target(self, model: str, **more: Any) -> Target:
        return Target(1, self.simulator.url, model, more.pop("parameters", {}), self.token, **more)

    async def events(self, request: Request, clocks: Clocks = CLOCKS) -> tuple[list[Event], Fault | None]:
        events: list[Event] = []
        try:
            run = await self.rpc.open(request, self.target(request.model), clocks, "a1")
            try:
                async for some in run:
                    events += some
            finally:
                await run.close()
        except Fault as fault:
            return events, fault
        return events, None

    async def ask(self, model: str, *messages: Message, clocks: Clocks = CLOCKS, **more: Any) -> Response:
        request = Request(model, messages or (user(Text("Hello there")),), **more)
        events, fault = await self.events(request, clocks)
        assert fault is None, (fault, fault.upstream_code)
        return fold(events)

    async def fault(self, model: str, clocks: Clocks = CLOCKS, **more: Any) -> tuple[Fault, list[Event]]:
        events, fault = await self.events(Request(model, (user(Text("Hello")),), **more), clocks)
        assert fault is not None
        return fault, events


def user(*parts: Content) -> Message:
    return Message("user", parts)


def text_of(response: Response) -> str:
    return "".join(part.text for part in response.of(PartKind.TEXT))


@pytest.fixture(scope="session")
def token(simulator_process: Simulator) -> str:
    request = urllib.request.Request(
        f"{simulator_process.url}/auth/exchange_user_api_key",
        data=b"{}",
        method="POST",
        headers={"authorization": f"Bearer {simulator_process.keys['alpha']}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return str(json.load(answer)["accessToken"])


@pytest.fixture
async def caller(simulator: Simulator, token: str) -> AsyncIterator[Caller]:
    rpc = AgentRpc(Door(AllowList([simulator.url.removeprefix("http://")])))
    yield Caller(simulator, rpc, token)
    await rpc.close()


async def test_the_last_user_text_and_the_system_text_arrive(caller: Caller) -> None:
    assert text_of(await caller.ask("sim-echo")) == "Hello there"
    assert text_of(await caller.ask("sim-system", system="Be brief.\n\nBe kind.")) == "Be brief.\n\nBe kind."


async def test_a_stream_arrives_delta_by_delta(caller: Caller) -> None:
    events, fault = await caller.events(Request("sim-lorem-200", (user(Text("go")),)))
    assert fault is None
    assert sum(isinstance(event, PartDelta) for event in events) == 200
    assert fold(events).usage.output == 200


async def test_thinking_is_a_part_of_its_own(caller: Caller) -> None:
    answer = await caller.ask("sim-think-4")
    assert [part.kind for part in answer.parts] == [PartKind.REASONING, PartKind.TEXT]


async def test_a_history_arrives_as_it_was(caller: Caller) -> None:
    history = (
        user(Text("weather?")),
        Message("assistant", (Text("ok"), ToolCall("c1", "get_weather", '{"city":"Oslo","days":3}'))),
        user(ToolResult("c1", "7C"), Text("and now?")),
    )
    answer = await caller.ask("sim-history", *history, tools=TOOLS)
    assert text_of(answer).split("\n") == ["user 8", "assistant 2", "call 24", "tool 2", "user 8"]


async def test_a_tool_loop_ends_in_an_answer(caller: Caller) -> None:
    question = user(Text("weather?"))
    first = await caller.ask("sim-tool", question, tools=TOOLS)
    (call,) = first.of(PartKind.TOOL_CALL)
    assert (call.name, json.loads(call.text)) == ("get_weather", {"city": "city", "days": 1})
    assert first.finish.unified is Unified.TOOL_CALLS
    said = Message("assistant", (ToolCall(call.call_id, call.name, call.text),))
    second = await caller.ask("sim-tool", question, said, user(ToolResult(call.call_id, "7C")), tools=TOOLS)
    assert text_of(second) == "Result: 7C"


async def test_parallel_calls_all_arrive_and_one_alone_when_asked_for(caller: Caller) -> None:
    answer = await caller.ask("sim-tools-4", tools=TOOLS)
    calls = answer.of(PartKind.TOOL_CALL)
    assert [call.name for call in calls] == ["get_weather", "find", "get_weather", "find"]
    assert len({call.call_id for call in calls}) == 4
    single = await caller.ask("sim-tools-4", tools=TOOLS, parallel_tool_calls=False)
    assert len(single.parts) == 1


@pytest.mark.parametrize("model", ["sim-tool-split", "sim-text-tool", "sim-tool-twice", "sim-tool-probe"])
async def test_a_call_is_one_call_however_it_is_told(caller: Caller, model: str) -> None:
    answer = await caller.ask(model, tools=TOOLS)
    (call,) = answer.of(PartKind.TOOL_CALL)
    assert json.loads(call.text) == {"city": "city", "days": 1}


async def test_ids_and_numbers_are_made_fit_for_callers(caller: Caller) -> None:
    (call,) = (await caller.ask("sim-tool-linefeed", tools=TOOLS)).parts
    assert call.call_id.replace("_", "").isalnum()
    (doubles,) = (await caller.ask("sim-tool-doubles", tools=TOOLS)).parts
    assert ".0" not in doubles.text
    assert "null" in doubles.text


async def test_only_the_named_tool_is_offered(caller: Caller) -> None:
    choice = ToolChoice(ToolMode.NAMED, ("find",))
    (call,) = (await caller.ask("sim-tool", tools=TOOLS, tool_choice=choice)).parts
    assert call.name == "find"
    assert "find" in text_of(await caller.ask("sim-system", tools=TOOLS, tool_choice=choice))


async def test_images_arrive_whole(caller: Caller) -> None:
    line = f"image/png {len(PNG)} {hashlib.sha256(PNG).hexdigest()}"
    assert text_of(await caller.ask("sim-image", user(Text("see"), PIXEL))) == line
    assert text_of(await caller.ask("sim-image-assets", user(Text("see"), PIXEL))) == line
    history = (user(Text("a"), PIXEL), Message("assistant", (Text("b"),)), user(Text("c"), PIXEL))
    assert text_of(await caller.ask("sim-image", *history)) == line


NATIVE = (
    "shell_stream", "background_shell", "write", "delete", "grep", "read", "ls", "diagnostics", "list_mcp_resources",
    "read_mcp_resource", "fetch", "unknown",
)  # fmt: skip
QUERIES = ("ask_question", "switch_mode", "exa_search", "exa_fetch", "create_plan", "web_fetch")


@pytest.mark.parametrize(
    "model",
    [
        *("sim-native-tool", "sim-query", "sim-gzip", "sim-unknown"),
        *(f"sim-native-tool-{kind}" for kind in NATIVE),
        *(f"sim-query-{kind}" for kind in QUERIES),
    ],
)
async def test_the_run_goes_on_after_every_question(caller: Caller, model: str) -> None:
    answer = await caller.ask(model, tools=TOOLS)
    assert text_of(answer)
    assert answer.finish.unified is Unified.STOP
    (entry,) = caller.simulator.runs()
    assert entry["ended"] == "complete"


async def test_native_tools_without_end_are_given_up(caller: Caller) -> None:
    fault, _ = await caller.fault("sim-native-tools-9", tools=TOOLS)
    assert (fault.reason, fault.upstream_code) == (Reason.BROKEN_TOOL_CALL, "native_tools")


@pytest.mark.parametrize(
    ("model", "usage"),
    [
        ("sim-usage-none", Usage()),
        ("sim-usage-cache", Usage(80, 8, 30, 10, 5)),
    ],
)
async def test_usage_is_what_the_upstream_counted(caller: Caller, model: str, usage: Usage) -> None:
    assert (await caller.ask(model)).usage == usage


async def test_control_tokens_are_filtered_and_markup_is_text(caller: Caller) -> None:
    answer = await caller.ask("sim-markup", tools=TOOLS)
    assert "<|" not in text_of(answer)
    assert "<tool_call>" in text_of(answer)
    assert not answer.of(PartKind.TOOL_CALL)


@pytest.mark.parametrize("model", ["sim-hang", "sim-heartbeats"])
async def test_an_upstream_without_output_times_out_and_no_account_is_blamed(caller: Caller, model: str) -> None:
    fault, events = await caller.fault(model, Clocks(first_token=0.4, idle=0.4))
    assert (fault.reason, fault.stage, fault.culprit, events) == (
        Reason.TIMEOUT, Stage.PREAMBLE, Culprit.UPSTREAM, [],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "reason"),
    [("sim-cut-3", Reason.CUT), ("sim-reset-3", Reason.CUT), ("sim-garbage-3", Reason.PROTOCOL)],
)
async def test_a_broken_stream_is_a_fault_after_what_it_delivered(caller: Caller, model: str, reason: Reason) -> None:
    fault, events = await caller.fault(model)
    assert (fault.reason, fault.stage) == (reason, Stage.CONTENT)
    assert sum(isinstance(event, PartDelta) for event in events) == 3


CAUSES = {
    "token_expired": Reason.AUTH_EXPIRED,
    "key_bad": Reason.AUTH_REVOKED,
    "usage_exhausted": Reason.QUOTA,
    "unpaid_invoice": Reason.PAYMENT,
    "too_many_computers": Reason.DEVICE_LIMIT,
    "rate_limited": Reason.RATE_LIMIT,
    "rate_limited_hint": Reason.RATE_LIMIT,
    "bare_resource_exhausted": Reason.EXHAUSTED,
    "model_limit": Reason.MODEL_LIMIT,
    "model_not_in_plan": Reason.MODEL_GATED,
    "model_unknown": Reason.MODEL_UNKNOWN,
    "bad_parameter": Reason.UNSUPPORTED_PARAM,
    "context_too_large": Reason.CONTEXT_TOO_LONG,
    "tools_too_large": Reason.TOOLS_TOO_LARGE,
    "image_unsupported": Reason.IMAGE_UNSUPPORTED,
    "client_too_old": Reason.CLIENT_OUTDATED,
    "update_required": Reason.CLIENT_OUTDATED,
    "suspicious": Reason.BLOCKED,
    "account_closed": Reason.ACCOUNT_CLOSED,
    "aborted": Reason.TRANSIENT,
    "deadline": Reason.TIMEOUT,
    "unavailable": Reason.TRANSIENT,
    "internal": Reason.TRANSIENT,
    "html_403": Reason.EGRESS,
    "wrong_content_type": Reason.PROTOCOL,
    "protocol_464": Reason.PROTOCOL,
}


@pytest.mark.parametrize(("cause", "reason"), CAUSES.items())
async def test_every_cause_is_told_apart(caller: Caller, cause: str, reason: Reason) -> None:
    fault, events = await caller.fault(f"sim-error-{cause}")
    assert (fault.reason, events) == (reason, [])
    assert fault.retry_after == (7 if cause == "rate_limited_hint" else None)


async def test_a_connection_that_is_dropped_is_cut_or_transient(caller: Caller) -> None:
    fault, _ = await caller.fault("sim-error-goaway")
    assert fault.reason in (Reason.CUT, Reason.TRANSIENT)


async def test_an_error_after_output_comes_after_that_output(caller: Caller) -> None:
    fault, events = await caller.fault("sim-error-unpaid_invoice-after-5")
    assert (fault.reason, fault.stage) == (Reason.PAYMENT, Stage.CONTENT)
    assert sum(isinstance(event, PartDelta) for event in events) == 5


async def test_a_bare_refusal_of_a_large_request_is_an_overflow(caller: Caller) -> None:
    request = Request("sim-error-bare_resource_exhausted", (user(Text("word " * 4000)),))
    target = caller.target(request.model, context_tokens=8000)
    run = await caller.rpc.open(request, target, CLOCKS, "a1")
    with pytest.raises(Fault) as caught:
        await anext(aiter(run))
    await run.close()
    assert caught.value.reason is Reason.CONTEXT_TOO_LONG


async def test_a_raw_key_is_refused(caller: Caller) -> None:
    target = Target(1, caller.simulator.url, "sim-echo", {}, caller.simulator.keys["alpha"])
    with pytest.raises(Fault) as caught:
        await caller.rpc.open(Request("sim-echo", (user(Text("x")),)), target, CLOCKS, "a1")
    assert caught.value.reason is Reason.AUTH_EXPIRED


async def test_closing_a_run_ends_it_at_the_upstream_within_a_second(caller: Caller) -> None:
    run = await caller.rpc.open(Request("sim-slow-50", (user(Text("x")),)), caller.target("sim-slow-50"), CLOCKS, "a1")
    await anext(aiter(run))
    assert caller.simulator.accounts()["alpha"]["active_streams"] == 1
    await run.close()
    async with asyncio.timeout(1):
        while caller.simulator.accounts()["alpha"]["active_streams"]:  # noqa: ASYNC110  # another process tells nobody
            await asyncio.sleep(0.02)


async def test_fifty_streams_at_once_arrive_whole(caller: Caller) -> None:
    answers = await asyncio.gather(*(caller.ask("sim-lorem-200") for _ in range(50)))
    assert {(text_of(answer), answer.usage.output) for answer in answers} == {(text_of(answers[0]), 200)}
    assert len(text_of(answers[0]).split()) == 200


async def test_a_long_history_is_accepted(caller: Caller) -> None:
    messages = [Message("user" if index % 2 == 0 else "assistant", (Text(f"m{index}"),)) for index in range(400)]
    answer = await caller.ask("sim-history", *messages, user(Text("last")))
    assert len(text_of(answer).split("\n")) == 401
