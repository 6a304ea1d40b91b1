"""OpenAI's own SDK on the Responses endpoint, sync and async: create, streams, the stream helper, parse, compact."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel

from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}


class GetWeather(BaseModel):
    city: str


def calls_of(response: Any) -> list[ResponseFunctionToolCall]:
    return [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]


def test_a_whole_answer(openai_sdk: openai.OpenAI) -> None:
    answer = openai_sdk.responses.create(model="sim-lorem-8", input="one two")
    assert (len(answer.output_text.split()), answer.status) == (8, "completed")
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (2, 8, 10)


async def test_a_whole_answer_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    assert (await async_openai.responses.create(model="sim-echo", input="Hello!")).output_text == "Hello!"


def test_a_plain_stream(openai_sdk: openai.OpenAI) -> None:
    stream = openai_sdk.responses.create(model="sim-lorem-20", input="Hi", stream=True)
    text = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert len(text) == 20


async def test_a_plain_stream_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    stream = await async_openai.responses.create(model="sim-lorem-20", input="Hi", stream=True)
    kinds = [event.type async for event in stream]
    assert (kinds[0], kinds[-1], kinds.count("response.output_text.delta")) == (
        "response.created",
        "response.completed",
        20,
    )


def test_the_stream_helper_tells_text_and_arguments_and_ends_with_the_whole(openai_sdk: openai.OpenAI) -> None:
    text = arguments = ""
    with openai_sdk.responses.stream(model="sim-text-tool", input="Weather?", tools=[WEATHER]) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                text = event.snapshot
            elif event.type == "response.function_call_arguments.delta":
                arguments = event.snapshot
        final = stream.get_final_response()
    assert final.output_text == text == "Let me check."
    [call] = calls_of(final)
    assert (call.name, json.loads(call.arguments), call.arguments) == ("get_weather", {"city": "city"}, arguments)


async def test_the_stream_helper_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    async with async_openai.responses.stream(model="sim-think-5", input="Hi", reasoning={"summary": "auto"}) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert len(final.output_text.split()) == 10


def test_parse_gives_the_arguments_of_a_call_as_the_applications_model(openai_sdk: openai.OpenAI) -> None:
    tool: Any = openai.pydantic_function_tool(GetWeather, name="get_weather")
    answer = openai_sdk.responses.parse(model="sim-tool", input="Weather?", tools=[tool])
    [call] = calls_of(answer)
    assert getattr(call, "parsed_arguments", None) == GetWeather(city="city")


@pytest.mark.parametrize(("model", "count"), [("sim-tool", 1), ("sim-tools-3", 3)])
def test_a_tool_loop_that_sends_everything_back_ends_with_an_answer(
    openai_sdk: openai.OpenAI, model: str, count: int
) -> None:
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    first = openai_sdk.responses.create(model=model, input=items, tools=[WEATHER], store=False)
    items += first.output
    for number, call in enumerate(calls_of(first)):
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": f"{number} degrees"})
    second = openai_sdk.responses.create(model=model, input=items, tools=[WEATHER], store=False)
    assert second.output_text.splitlines() == [f"Result: {number} degrees" for number in range(count)]


async def test_a_streamed_tool_loop_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    async with async_openai.responses.stream(model="sim-tool", input=items, tools=[WEATHER]) as stream:
        first = await stream.get_final_response()
    [call] = calls_of(first)
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "26"}
    async with async_openai.responses.stream(
        model="sim-tool", input=[result], previous_response_id=first.id, tools=[WEATHER]
    ) as stream:
        second = await stream.get_final_response()
    assert second.output_text == "Result: 26"


def test_compact_gives_items_that_the_next_request_takes(openai_sdk: openai.OpenAI, calm: House) -> None:
    items: list[Any] = [{"role": "user", "content": "We chose blue."}]
    compacted = openai_sdk.responses.compact(model="default", input=items)
    kinds = [item.type for item in compacted.output]
    assert kinds.count("compaction") == 1
    # The SDK's types know no user message in an output, though its reference says that they come first.
    kept: Any = [item.to_dict(warnings=False) for item in compacted.output]
    openai_sdk.responses.create(model="sim-echo", input=[*kept, {"role": "user", "content": "Go on"}])
    assert "Summary of what came before" in str(calm.simulator.runs()[0])


def test_an_error_before_output_is_the_sdks_class_for_it(openai_sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        openai_sdk.responses.create(model="no-such-model", input="Hi")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.RateLimitError):
        openai_sdk.responses.create(model="sim-error-model_limit", input="Hi", stream=True)


def test_an_error_after_output_is_told_by_the_last_event(house: House, openai_sdk: openai.OpenAI) -> None:
    stream = openai_sdk.responses.create(model="sim-error-internal-after-3", input="Hi", stream=True)
    *_, last = stream
    assert last.type == "response.failed"
    assert last.response.error is not None
    with openai_sdk.responses.stream(model="sim-cut-3", input="Hi") as helper, pytest.raises(RuntimeError):
        helper.get_final_response()
