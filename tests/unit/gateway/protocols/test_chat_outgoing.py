from __future__ import annotations

from typing import Any

import orjson
from openai.types.chat import CompletionCreateParams
from pydantic import TypeAdapter

from gateway.protocols.chat.client import encode_request
from ir.request import (
    Content,
    Image,
    Message,
    Reasoning,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
)

IMAGE = Image("image/png", "iVBORw0KGgo=")
TOOL = Tool("f", "does f", {"type": "object", "properties": {}}, strict=True)
HI = Message("user", (Text("Hi"),))


def request(*messages: Message, **more: Any) -> Request:
    return Request(model="mine", messages=messages or (HI,), **more)


def encode(asked: Request) -> dict[str, Any]:
    body = orjson.loads(encode_request(asked, "theirs"))
    assert isinstance(body, dict)
    TypeAdapter(CompletionCreateParams).validate_python(body)
    return body


def turns(*content: Content) -> list[dict[str, Any]]:
    calls = [part for part in content if isinstance(part, ToolCall)]
    results = Message("user", tuple(ToolResult(call.id, "1") for call in calls)) if calls else HI
    messages = encode(request(HI, Message("assistant", content), results))["messages"]
    return [message for message in messages if message["role"] == "assistant"]


def test_a_plain_turn_says_nothing_that_was_not_asked() -> None:
    assert encode(request(system="Be brief.", max_output_tokens=5)) == {
        "model": "theirs",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_completion_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_tools_and_a_named_choice_are_carried() -> None:
    asked = request(tools=(TOOL,), tool_choice=ToolChoice(ToolMode.NAMED, ("f",)), parallel_tool_calls=False)
    body = encode(asked)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": TOOL.schema, "strict": True},
        }
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert body["parallel_tool_calls"] is False


def test_without_tools_nothing_about_tools_is_sent() -> None:
    body = encode(request(tool_choice=ToolChoice(ToolMode.NONE), parallel_tool_calls=True))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)


def test_results_stand_right_behind_their_calls_and_text_follows() -> None:
    answer = Message("user", (ToolResult("c1", "1"), ToolResult("c2", (Text("2"),)), Text("Now?")))
    called = Message("assistant", (ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")))
    assert encode(request(HI, called, answer))["messages"][2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "2"}]},
        {"role": "user", "content": "Now?"},
    ]


def test_images_of_a_result_move_into_the_user_message_behind_it() -> None:
    answer = Message("user", (ToolResult("c1", (Text("see"), IMAGE)), Text("Well?")))
    messages = encode(request(HI, Message("assistant", (ToolCall("c1", "f", "{}"),)), answer))["messages"]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "see"}]},
        {"role": "user", "content": [image, {"type": "text", "text": "Well?"}]},
    ]


def test_text_behind_a_call_moves_before_it() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert turns(ToolCall("c1", "f", "{}"), Text("so")) == [
        {"role": "assistant", "content": "so", "tool_calls": [call]}
    ]


def test_thinking_between_texts_begins_a_new_message() -> None:
    assert turns(Reasoning("a", "sig"), Text("b"), Reasoning("c"), Reasoning("d"), Text("e")) == [
        {"role": "assistant", "content": "b", "reasoning_content": "a"},
        {"role": "assistant", "content": "e", "reasoning_content": "c\n\nd"},
    ]


def test_redacted_thinking_is_dropped_and_leaves_no_empty_message() -> None:
    assert turns(Reasoning("", "opaque", redacted=True)) == []


def test_more_stops_than_chat_takes_are_left_to_the_gateway() -> None:
    assert encode(request(stop=tuple("abcd")))["stop"] == list("abcd")
    assert "stop" not in encode(request(stop=tuple("abcde")))


def test_a_budget_becomes_the_effort_of_its_size() -> None:
    def effort(**thinking: Any) -> str | None:
        return encode(request(thinking=Thinking(**thinking))).get("reasoning_effort")

    assert effort() is None
    assert effort(enabled=True) is None
    assert effort(enabled=False) == "none"
    assert effort(enabled=True, effort="xhigh", budget_tokens=1024) == "xhigh"
    assert [effort(budget_tokens=size) for size in (1024, 4095, 4096, 16383, 16384)] == [
        "low",
        "low",
        "medium",
        "medium",
        "high",
    ]
