"""The driver alone, against an API of a few lines."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from gateway.contracts import Policy, Target
from ir.errors import ApiError, Fault, Reason, Stage
from ir.events import Unified
from ir.request import Image, Message, Text, Tool, ToolChoice, ToolMode
from ir.usage import Usage
from tests.unit.gateway.upstreams.cloud_server import (
    CLOCKS,
    FINISHED,
    HELLO,
    REQUEST,
    Api,
    connected,
    error,
    frame,
    said,
    whole,
)


async def fault_of(api: Api) -> Fault:
    async with connected(api) as (cloud, _, target):
        with pytest.raises(Fault) as caught:
            await whole(cloud, target)
    return caught.value


async def test_a_turn_is_an_agent_that_is_made_heard_and_deleted() -> None:
    api = Api(HELLO)
    async with connected(api) as (cloud, listed, target):
        answer = await whole(cloud, target)
    assert answer.parts[0].text == "Hello"
    assert answer.finish.unified is Unified.STOP
    assert answer.usage == Usage(input_uncached=3, output=2, cache_read=0, cache_write=0)
    assert api.asked == ["models", "create", "stream", "usage", "delete"]
    assert listed.agents == {}
    created = api.bodies[1]
    assert created["agentId"].startswith("bc-")
    assert created["prompt"] == {"text": "Say hi"}


async def test_the_key_itself_is_the_bearer_and_no_header_tells_who_we_are_not() -> None:
    api = Api(HELLO)
    async with connected(api) as (cloud, _, target):
        await whole(cloud, target)
    assert {head["authorization"] for head in api.heads} == {"Bearer crsr_key"}
    assert {head["user-agent"] for head in api.heads} == {"poolgate/0.1.0"}
    assert not [name for head in api.heads for name in head if name.startswith("x-")]


async def test_the_prompt_is_that_of_the_keys_policy() -> None:
    api = Api(HELLO)
    request = structs.replace(REQUEST, tools=(Tool("lookup", "Looks up", {}),))
    async with connected(api) as (cloud, _, target):
        for kilo in (False, True):
            told = structs.replace(target, policy=Policy(kilo_tool_strict=kilo))
            run = await cloud.open(request, told, CLOCKS, "a1")
            await run.close()
    demands = ["You must call" in body["prompt"]["text"] for body in api.bodies if body]
    assert demands == [False, True]


async def test_a_broken_stream_is_taken_up_after_the_last_event() -> None:
    api = Api((said("Hel", "1"),), (said("Hel", "1"), said("lo", "2")), error(503, "stream_unavailable"), (FINISHED,))
    async with connected(api) as (cloud, _, target):
        answer = await whole(cloud, target)
    assert answer.parts[0].text == "Hello"
    assert api.resumed == ["", "1", "2", "2"]


async def test_an_error_event_that_may_pass_is_got_over() -> None:
    api = Api((said("Hel", "1"), frame("error", {"code": "internal_error"})), (said("lo", "2"), FINISHED))
    async with connected(api) as (cloud, _, target):
        assert (await whole(cloud, target)).parts[0].text == "Hello"


async def test_after_so_many_tries_in_vain_the_run_itself_is_asked() -> None:
    running = iter(["RUNNING", "RUNNING", "FINISHED"])
    api = Api(*[error(503, "stream_unavailable")] * 4)
    api.answers["run"] = lambda: (200, {}, {"status": next(running), "result": "Hello"})
    async with connected(api) as (cloud, _, target):
        run = await cloud.open(REQUEST, target, CLOCKS, "a1")
        buffered = [run.buffered, *[run.buffered async for _ in run]]
        await run.close()
    assert buffered[0] is False
    assert buffered[-1] is True
    assert api.asked.count("stream") == 4
    assert api.asked.count("run") == 3


async def test_tries_that_bring_something_new_are_not_in_vain() -> None:
    words = [(said(str(number), str(number)),) for number in range(9)]
    api = Api(*words, (FINISHED,))
    async with connected(api) as (cloud, _, target):
        assert (await whole(cloud, target)).parts[0].text == "012345678"
    assert "run" not in api.asked


async def test_an_expired_stream_and_one_that_is_done_without_a_result_ask_the_run_at_once() -> None:
    for stream in (error(410, "stream_expired"), (said("Hel", "1"), frame("done", {}))):
        api = Api(stream)
        async with connected(api) as (cloud, _, target):
            assert (await whole(cloud, target)).parts[0].text == "Hello"
        assert api.asked.count("stream") == 1


async def test_usage_that_is_not_to_be_had_is_unknown_and_not_asked_for_again() -> None:
    api = Api(HELLO, HELLO)
    api.answers["usage"] = lambda: error(403, "feature_unavailable")
    async with connected(api) as (cloud, _, target):
        for _ in range(2):
            assert (await whole(cloud, target)).usage == Usage()
    assert api.asked.count("usage") == 1
    assert api.asked.count("models") == 1


async def test_usage_that_the_stream_told_costs_no_call() -> None:
    usage = {"type": "turn-ended", "usage": {"inputTokens": 9, "outputTokens": 1}}
    api = Api((said("Hi", "1"), frame("interaction_update", usage, "2"), FINISHED))
    async with connected(api) as (cloud, _, target):
        assert (await whole(cloud, target)).usage.input_uncached == 9
    assert "usage" not in api.asked


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (error(401, "unauthorized"), Reason.AUTH_REVOKED),
        (error(429, "rate_limit_exceeded", **{"retry-after": "7"}), Reason.RATE_LIMIT),
        (error(400, "invalid_model"), Reason.MODEL_UNKNOWN),
    ],
)
async def test_a_refusal_leaves_nothing_behind(answer: tuple[int, dict[str, str], object], reason: Reason) -> None:
    api = Api()
    api.answers["create"] = lambda: answer
    async with connected(api) as (cloud, listed, target):
        with pytest.raises(Fault) as caught:
            await whole(cloud, target)
    assert (caught.value.reason, caught.value.stage) == (reason, Stage.HEADERS)
    assert caught.value.retry_after == (7 if reason is Reason.RATE_LIMIT else None)
    assert listed.agents == {}
    assert "delete" not in api.asked


async def test_an_agent_that_may_have_been_made_stays_on_the_list() -> None:
    api = Api()
    api.answers["create"] = lambda: error(502, "upstream_error")
    api.answers["delete"] = lambda: error(404, "agent_not_found")
    async with connected(api) as (cloud, listed, target):
        with pytest.raises(Fault):
            await whole(cloud, target)
    assert list(listed.agents.values()) == [60.0]


async def test_an_answer_that_is_not_heard_out_is_cancelled_and_deleted() -> None:
    api = Api((said("Hel", "1"), 5.0))
    async with connected(api) as (cloud, listed, target):
        run = await cloud.open(REQUEST, target, CLOCKS, "a1")
        async for _ in run:
            break
        await run.close()
        await run.close()
    assert api.asked[-2:] == ["cancel", "delete"]
    assert listed.agents == {}


async def test_a_caller_that_leaves_while_the_agent_is_made_leaves_it_to_be_deleted() -> None:
    api = Api()
    made = asyncio.Event()

    def create() -> tuple[int, dict[str, str], object]:
        made.set()
        return 201, {}, {"run": {"id": "run-1"}}

    api.answers["create"] = create
    async with connected(api) as (cloud, listed, target):
        opening = asyncio.create_task(cloud.open(REQUEST, target, CLOCKS, "a1"))
        await made.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert api.asked[-1] == "delete"
    assert listed.agents == {}


async def test_an_agent_that_cannot_be_deleted_is_tried_three_times_and_left_to_the_sweep() -> None:
    api = Api(HELLO)
    api.answers["delete"] = lambda: error(500, "internal_error")
    async with connected(api) as (cloud, listed, target):
        await whole(cloud, target)
    assert api.asked.count("delete") == 3
    assert list(listed.agents.values()) == [0.0]


async def test_an_upstream_that_only_beats_its_heart_has_run_out_of_time() -> None:
    beats = [step for _ in range(40) for step in (frame("heartbeat", {}), 0.05)]
    fault = await fault_of(Api((said("Hi", "1"), *beats)))
    assert (fault.reason, fault.stage) == (Reason.TIMEOUT, Stage.CONTENT)


async def test_a_run_that_failed_is_not_taken_up_again() -> None:
    api = Api((said("Hi", "1"), frame("result", {"status": "ERROR"}, "2")))
    fault = await fault_of(api)
    assert (fault.reason, fault.stage) == (Reason.TRANSIENT, Stage.CONTENT)
    assert api.asked.count("stream") == 1


async def test_a_stream_that_is_none_and_bytes_that_are_none_are_faults() -> None:
    assert (await fault_of(Api((b"event: assistant\ndata: {\n\n",)))).reason is Reason.PROTOCOL
    assert (await fault_of(Api((403, {"content-type": "text/html"}, "<html>")))).reason is Reason.FORBIDDEN


async def test_a_call_is_read_out_of_the_text_and_one_at_a_time_cancels_the_rest() -> None:
    tools = (Tool("lookup", "", {"type": "object"}),)
    request = structs.replace(REQUEST, tools=tools, parallel_tool_calls=False)

    class Obeying(Api):
        async def _stream(self, writer: asyncio.StreamWriter) -> None:
            prompt = self.bodies[1]["prompt"]["text"]
            trigger = prompt[prompt.index("<<CALL_") :][:17]
            call = f'{trigger}\n<invoke name="lookup">{{"q": 1}}</invoke>'
            self._streams = iter([(said("Well. ", "1"), said(call[:9], "2"), said(call[9:], "3"), 5.0)])
            await super()._stream(writer)

    api = Obeying()
    async with connected(api) as (cloud, _, target):
        answer = await whole(cloud, target, request)
    assert [(part.text, part.name) for part in answer.parts] == [("Well.", ""), ('{"q":1}', "lookup")]
    assert answer.finish.unified is Unified.TOOL_CALLS
    assert "cancel" in api.asked


async def test_thinking_is_a_parameter_where_the_model_has_one_and_asked_for_in_words_where_not() -> None:
    model = {
        "id": "sim",
        "parameters": [{"id": "thinking", "values": [{"value": "true"}]}],
        "variants": [{"params": [{"id": "thinking", "value": "true"}]}],
    }
    for items, aloud in (([model], False), ([{"id": "sim"}], True)):
        api = Api(HELLO)
        api.answers["models"] = lambda items=items: (200, {}, {"items": items})  # type: ignore[misc]
        async with connected(api) as (cloud, _, target):
            await whole(cloud, structs.replace(target, parameters={"thinking": "true"}))
        created = api.bodies[1]
        assert ("<thinking>" in created["prompt"]["text"]) is aloud
        assert ("params" in created["model"]) is not aloud


async def test_five_images_go_beside_the_text_and_six_are_refused_by_name() -> None:
    def asking(count: int) -> Message:
        return Message("user", (*[Image("image/png", "AAAA")] * count, Text("What?")))

    api = Api(HELLO)
    async with connected(api) as (cloud, listed, target):
        await whole(cloud, target, structs.replace(REQUEST, messages=(asking(5),)))
        with pytest.raises(ApiError) as caught:
            await whole(cloud, target, structs.replace(REQUEST, messages=(asking(6),)))
        assert listed.agents.keys() <= {api.bodies[1]["agentId"]}
    assert caught.value.code == "too_many_images"
    assert len(api.bodies[1]["prompt"]["images"]) == 5


async def test_a_list_of_models_that_cannot_be_had_does_not_stop_the_request() -> None:
    api = Api(HELLO)
    api.answers["models"] = lambda: error(500, "internal_error")
    async with connected(api) as (cloud, _, target):
        await whole(cloud, structs.replace(target, parameters={"effort": "high"}))
    assert api.bodies[1]["model"] == {"id": "sim", "params": [{"id": "effort", "value": "high"}]}


def test_a_demanded_call_is_said_to_be_demanded() -> None:
    from gateway.upstreams.speech import Speech

    tools = (Tool("lookup", "", {"type": "object"}),)
    request = structs.replace(REQUEST, tools=tools, tool_choice=ToolChoice(ToolMode.REQUIRED))
    assert "must call" in Speech(request).told.flat()


def test_a_target_shows_no_credential() -> None:
    assert "crsr" not in repr(Target(1, "http://x", "sim", {}, "crsr_key"))
