"""The real ``anthropic`` SDK, sync and async: what an application does with it on an ordinary day."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock

from tests.conformance.caller import tools
from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")

HELLO: list[Any] = [{"role": "user", "content": "one two three"}]
TOOLS: list[Any] = tools("messages", "get_weather")


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: Its name.
    """
    return f"sunny in {city}"


@anthropic.beta_async_tool
async def get_forecast(city: str) -> str:
    """Weather of a city tomorrow.

    Args:
        city: Its name.
    """
    return f"rain in {city}"


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_a_whole_answer(anthropic_sdk: anthropic.Anthropic) -> None:
    message = anthropic_sdk.messages.create(model="sim-echo", max_tokens=100, messages=HELLO)
    assert text_of(message) == "one two three"
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 3)
    assert message._request_id is not None
    assert message.id == f"msg_{message._request_id.removeprefix('req_')}"


async def test_a_whole_answer_asynchronously(async_anthropic: anthropic.AsyncAnthropic) -> None:
    message = await async_anthropic.messages.create(model="sim-echo", max_tokens=100, messages=HELLO)
    assert text_of(message) == "one two three"


def test_a_plain_stream_gives_the_raw_events(anthropic_sdk: anthropic.Anthropic) -> None:
    with anthropic_sdk.messages.create(model="sim-echo", max_tokens=100, messages=HELLO, stream=True) as events:
        kinds = [event.type for event in events]
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_stream_helper_ends_with_what_a_whole_answer_holds(anthropic_sdk: anthropic.Anthropic) -> None:
    whole = anthropic_sdk.messages.create(model="sim-lorem-20", max_tokens=100, messages=HELLO)
    with anthropic_sdk.messages.stream(model="sim-lorem-20", max_tokens=100, messages=HELLO) as stream:
        heard = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert heard == text_of(whole) == text_of(final)
    assert final.model_dump(exclude={"id"}) == whole.model_dump(exclude={"id"})


async def test_the_stream_helper_asynchronously(async_anthropic: anthropic.AsyncAnthropic) -> None:
    async with async_anthropic.messages.stream(model="sim-lorem-20", max_tokens=100, messages=HELLO) as stream:
        heard = "".join([text async for text in stream.text_stream])
        final = await stream.get_final_message()
    assert heard == text_of(final)
    assert len(heard.split()) == 20


def test_the_beta_resource_asks_the_same_way(anthropic_sdk: anthropic.Anthropic) -> None:
    message = anthropic_sdk.beta.messages.create(
        model="sim-echo", max_tokens=100, messages=HELLO, betas=["context-management-2025-06-27"]
    )
    assert text_of(message) == "one two three"
    with anthropic_sdk.beta.messages.stream(
        model="sim-text-tool", max_tokens=100, messages=HELLO, tools=TOOLS
    ) as stream:
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["text", "tool_use"]


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("sim-tool", 1),
        ("sim-tools-3", 3),
        ("sim-text-tool", 1),
        ("sim-tool-split", 1),
        ("sim-tool-linefeed", 1),
        ("sim-tool-doubles", 1),
        ("sim-tool-twice", 1),
        ("sim-tool-probe", 1),
    ],
)
def test_a_tool_loop_ends_with_an_answer_from_the_results(
    anthropic_sdk: anthropic.Anthropic, model: str, count: int
) -> None:
    with anthropic_sdk.messages.stream(model=model, max_tokens=100, messages=HELLO, tools=TOOLS) as stream:
        first = stream.get_final_message()
    assert first.stop_reason == "tool_use"
    calls = [block for block in first.content if isinstance(block, ToolUseBlock)]
    assert len({call.id for call in calls}) == len(calls) == count
    assert [call.input["city"] for call in calls] == ["city"] * count
    results: list[Any] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": f"sunny {number}"}
        for number, call in enumerate(calls)
    ]
    history: list[Any] = [*HELLO, first.to_param(), {"role": "user", "content": results}]
    last = anthropic_sdk.messages.create(model=model, max_tokens=100, messages=history, tools=TOOLS)
    assert last.stop_reason == "end_turn"
    assert text_of(last) == "\n".join(f"Result: sunny {number}" for number in range(count))


def test_a_failed_tool_is_told_as_one(anthropic_sdk: anthropic.Anthropic) -> None:
    history: list[Any] = [
        *HELLO,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "get_weather", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "no such city", "is_error": True}],
        },
    ]
    message = anthropic_sdk.messages.create(model="sim-tool", max_tokens=100, messages=history, tools=TOOLS)
    assert text_of(message) == "Result: no such city"


def test_the_tool_runner_falls_back_from_a_thread_and_finishes(anthropic_sdk: anthropic.Anthropic, calm: House) -> None:
    runner = anthropic_sdk.beta.messages.tool_runner(
        model="sim-tool", max_tokens=100, messages=HELLO, tools=[get_weather]
    )
    assert text_of(runner.until_done()) == "Result: sunny in city"
    on_the_run = [answer for answer in calm.simulator.runs()[0]["answers"] if answer.endswith("mcp_result")]
    assert len(on_the_run) == 1  # the one that made the call


def test_the_streaming_tool_runner_finishes(anthropic_sdk: anthropic.Anthropic) -> None:
    runner = anthropic_sdk.beta.messages.tool_runner(
        model="sim-tools-3", max_tokens=100, messages=HELLO, tools=[get_weather], stream=True
    )
    messages = [stream.get_final_message() for stream in runner]
    assert [message.stop_reason for message in messages] == ["tool_use", "end_turn"]
    assert text_of(messages[-1]) == "\n".join(["Result: sunny in city"] * 3)


async def test_the_tool_runner_asynchronously(async_anthropic: anthropic.AsyncAnthropic) -> None:
    runner = async_anthropic.beta.messages.tool_runner(
        model="sim-tool", max_tokens=100, messages=HELLO, tools=[get_forecast]
    )
    assert text_of(await runner.until_done()) == "Result: rain in city"


def test_thinking_goes_back_with_the_history_of_a_tool_loop(anthropic_sdk: anthropic.Anthropic) -> None:
    asked: dict[str, Any] = {"max_tokens": 2000, "tools": TOOLS, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    with anthropic_sdk.messages.stream(model="sim-tool", messages=HELLO, **asked) as stream:
        first = stream.get_final_message()
    thought, call = first.content
    assert isinstance(thought, ThinkingBlock)
    assert isinstance(call, ToolUseBlock)
    assert (thought.thinking, bool(thought.signature)) == ("Let me think about it.", True)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "sunny"}]}
    history: list[Any] = [*HELLO, first.to_param(), {"role": "user", "content": [result]}]
    last = anthropic_sdk.messages.create(model="sim-tool", messages=history, **asked)
    assert [type(block) for block in last.content] == [ThinkingBlock, TextBlock]
    assert text_of(last) == "Result: sunny"


def test_the_catalogue_lists_what_can_be_retrieved(anthropic_sdk: anthropic.Anthropic) -> None:
    page = anthropic_sdk.models.list(limit=1000)
    models = list(page)
    names = [model.id for model in models]
    assert "claude-sonnet-4.6" in names
    assert "claude-sonnet-4.6-thinking" in names
    assert (page.has_more, page.first_id, page.last_id) == (False, names[0], names[-1])
    for model in models:
        assert anthropic_sdk.models.retrieve(model.id) == model
        assert (model.type, bool(model.display_name), model.lifecycle) == ("model", True, "active")
        assert model.max_input_tokens is not None
        assert model.max_tokens is not None
        assert model.max_tokens <= model.max_input_tokens


async def test_the_catalogue_asynchronously(async_anthropic: anthropic.AsyncAnthropic) -> None:
    names = [model.id async for model in async_anthropic.models.list()]
    assert "default" in names
    assert (await async_anthropic.models.retrieve("default")).id == "default"


def test_an_unknown_model_is_not_found_in_the_catalogue(anthropic_sdk: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        anthropic_sdk.models.retrieve("no-such-model")
    assert caught.value.type == "not_found_error"


def test_structured_output_is_refused_by_name(anthropic_sdk: anthropic.Anthropic) -> None:
    output: Any = {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}
    with pytest.raises(anthropic.BadRequestError, match=r"output_config\.format"):
        anthropic_sdk.messages.create(model="sim-echo", max_tokens=100, messages=HELLO, output_config=output)


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
def test_the_version_header_is_not_compared_to_one_value(calm: House, version: str) -> None:
    headers = {"anthropic-version": version}
    with anthropic.Anthropic(api_key=calm.key, base_url=calm.url, default_headers=headers) as sdk:
        assert text_of(sdk.messages.create(model="sim-echo", max_tokens=9, messages=HELLO)) == "one two three"
