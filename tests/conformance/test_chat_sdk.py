"""The real ``openai`` SDK, sync and async: what an application does with it on an ordinary day."""

from __future__ import annotations

import json
from typing import Any, Literal

import httpx2
import openai
import pytest
from openai.lib.streaming.chat import ChunkEvent, ContentDoneEvent, FunctionToolCallArgumentsDoneEvent
from pydantic import BaseModel

from tests.conformance.caller import tools
from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")

HELLO: list[Any] = [{"role": "user", "content": "one two three"}]
TOOLS: list[Any] = tools("chat", "get_weather")


class GetWeather(BaseModel):
    """Weather of a city."""

    city: str


def test_a_whole_answer(openai_sdk: openai.OpenAI) -> None:
    answer = openai_sdk.chat.completions.create(model="sim-echo", messages=HELLO)
    assert answer.choices[0].message.content == "one two three"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (3, 3, 6)
    assert answer._request_id is not None
    assert answer.id == f"chatcmpl-{answer._request_id.removeprefix('req_')}"


async def test_a_whole_answer_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    answer = await async_openai.chat.completions.create(model="sim-echo", messages=HELLO)
    assert answer.choices[0].message.content == "one two three"


def test_a_stream(openai_sdk: openai.OpenAI) -> None:
    with openai_sdk.chat.completions.create(model="sim-echo", messages=HELLO, stream=True) as chunks:
        said = [chunk.choices[0].delta.content for chunk in chunks]
    assert said == ["", "one ", "two ", "three", None]


async def test_a_stream_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    stream = await async_openai.chat.completions.create(model="sim-echo", messages=HELLO, stream=True)
    async with stream:
        said = [chunk.choices[0].delta.content async for chunk in stream]
    assert said == ["", "one ", "two ", "three", None]


def test_the_stream_helper_tells_text_and_calls_and_ends_with_the_whole(openai_sdk: openai.OpenAI) -> None:
    with openai_sdk.chat.completions.stream(
        model="sim-text-tool", messages=HELLO, tools=TOOLS, stream_options={"include_usage": True}
    ) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    assert [event.content for event in events if isinstance(event, ContentDoneEvent)] == ["Let me check."]
    done = [event for event in events if isinstance(event, FunctionToolCallArgumentsDoneEvent)]
    assert [(event.name, event.arguments) for event in done] == [("get_weather", '{"city":"city"}')]
    assert len([event for event in events if isinstance(event, ChunkEvent)]) > 4
    assert final.choices[0].message.content == "Let me check."
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage is not None


async def test_the_stream_helper_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    async with async_openai.chat.completions.stream(model="sim-lorem-20", messages=HELLO) as stream:
        final = await stream.get_final_completion()
    assert len((final.choices[0].message.content or "").split()) == 20


def test_parse_gives_the_arguments_of_a_call_as_the_applications_model(openai_sdk: openai.OpenAI) -> None:
    answer = openai_sdk.chat.completions.parse(
        model="sim-tool", messages=HELLO, tools=[openai.pydantic_function_tool(GetWeather)]
    )
    calls = answer.choices[0].message.tool_calls or []
    assert [call.function.parsed_arguments for call in calls] == [GetWeather(city="city")]


def test_the_stream_helper_parses_the_arguments_of_a_call(openai_sdk: openai.OpenAI) -> None:
    with openai_sdk.chat.completions.stream(
        model="sim-tool-split", messages=HELLO, tools=[openai.pydantic_function_tool(GetWeather)]
    ) as stream:
        final = stream.get_final_completion()
    calls = final.choices[0].message.tool_calls or []
    assert [call.function.parsed_arguments for call in calls] == [GetWeather(city="city")]


def test_parse_of_a_response_format_is_refused_by_name(openai_sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        openai_sdk.chat.completions.parse(model="sim-echo", messages=HELLO, response_format=GetWeather)
    assert (caught.value.code, caught.value.param) == ("unsupported_response_format", "response_format.type")


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
def test_a_tool_loop_ends_with_an_answer_from_the_results(openai_sdk: openai.OpenAI, model: str, count: int) -> None:
    history: list[Any] = list(HELLO)
    first = openai_sdk.chat.completions.create(model=model, messages=history, tools=TOOLS)
    assert first.choices[0].finish_reason == "tool_calls"
    calls = first.choices[0].message.tool_calls or []
    assert len({call.id for call in calls}) == len(calls) == count
    history.append(first.choices[0].message)
    for number, call in enumerate(calls):
        assert call.type == "function"
        assert json.loads(call.function.arguments)["city"] == "city"
        history.append({"role": "tool", "tool_call_id": call.id, "content": f"sunny {number}"})
    last = openai_sdk.chat.completions.create(model=model, messages=history, tools=TOOLS)
    assert last.choices[0].finish_reason == "stop"
    expected = "\n".join(f"Result: sunny {number}" for number in range(count))
    assert last.choices[0].message.content == expected


async def test_a_streamed_tool_loop_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    history: list[Any] = list(HELLO)
    async with async_openai.chat.completions.stream(model="sim-tools-3", messages=history, tools=TOOLS) as stream:
        first = await stream.get_final_completion()
    message = first.choices[0].message
    history.append(message.to_dict())
    history += [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in message.tool_calls or ()]
    async with async_openai.chat.completions.stream(model="sim-tools-3", messages=history, tools=TOOLS) as stream:
        last = await stream.get_final_completion()
    assert last.choices[0].message.content == "Result: sunny\nResult: sunny\nResult: sunny"


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_choice_among_allowed_tools_hides_the_others(
    openai_sdk: openai.OpenAI, calm: House, mode: Literal["auto", "required"]
) -> None:
    named: list[Any] = tools("chat", "first", "second", "third")
    subset: list[dict[str, object]] = [{"type": "function", "function": {"name": name}} for name in ("second", "third")]
    answer = openai_sdk.chat.completions.create(
        model="sim-tools-2",
        messages=HELLO,
        tools=named,
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": subset}},
    )
    calls = answer.choices[0].message.tool_calls or []
    assert [call.function.name for call in calls if call.type == "function"] == ["second", "third"]
    assert [tool["tool_name"] for tool in calm.simulator.runs()[0]["tools"]] == ["second", "third"]


def test_one_stop_sequence_may_be_a_bare_string(openai_sdk: openai.OpenAI) -> None:
    answer = openai_sdk.chat.completions.create(model="sim-echo", messages=HELLO, stop="two th")
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("one ", "stop")


def test_the_legacy_form_of_calls_makes_its_loop(openai_sdk: openai.OpenAI) -> None:
    functions: list[Any] = [TOOLS[0]["function"]]
    first = openai_sdk.chat.completions.create(model="sim-tool", messages=HELLO, functions=functions)
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "function_call"
    assert message.function_call is not None
    assert (message.function_call.name, message.function_call.arguments) == ("get_weather", '{"city":"city"}')
    history: list[Any] = [
        *HELLO,
        {"role": "assistant", "content": None, "function_call": message.function_call.to_dict()},
        {"role": "function", "name": "get_weather", "content": "sunny"},
    ]
    last = openai_sdk.chat.completions.create(model="sim-tool", messages=history, functions=functions)
    assert last.choices[0].message.content == "Result: sunny"


def test_the_catalogue_lists_what_can_be_retrieved(openai_sdk: openai.OpenAI) -> None:
    models = list(openai_sdk.models.list())
    names = [model.id for model in models]
    assert "claude-sonnet-4.6" in names
    assert "claude-sonnet-4.6-thinking" in names
    assert not [name for name in names if "*" in name or name.endswith("-thinking-thinking")]
    for model in models:
        assert openai_sdk.models.retrieve(model.id) == model
        assert (model.object, type(model.created), bool(model.owned_by)) == ("model", int, True)


async def test_the_catalogue_asynchronously(async_openai: openai.AsyncOpenAI) -> None:
    names = [model.id async for model in async_openai.models.list()]
    assert "default" in names
    assert (await async_openai.models.retrieve("default")).id == "default"


def test_an_unknown_model_is_not_found_in_the_catalogue(openai_sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        openai_sdk.models.retrieve("no-such-model")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "api-key", "x-goog-api-key"])
def test_the_key_is_taken_from_every_header_that_clients_use(calm: House, header: str) -> None:
    value = f"Bearer {calm.key}" if header == "authorization" else calm.key
    answer = httpx2.post(
        f"{calm.url}/v1/chat/completions", headers={header: value}, json={"model": "sim-echo", "messages": HELLO}
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("kind", ["image_url", "text"])
def test_content_parts_are_taken_like_a_string(openai_sdk: openai.OpenAI, kind: Literal["image_url", "text"]) -> None:
    parts: list[Any] = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    if kind == "image_url":
        dot = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="
        parts.append({"type": "image_url", "image_url": {"url": dot, "detail": "low"}})
    answer = openai_sdk.chat.completions.create(model="sim-echo", messages=[{"role": "user", "content": parts}])
    assert answer.choices[0].message.content == "one \n\ntwo"
