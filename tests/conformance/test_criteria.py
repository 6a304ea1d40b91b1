"""The acceptance criteria for Chat, Messages and Responses, over raw HTTP on parsed JSON, whole and streamed.

One turn is asked for in each protocol, and each has to show the same answer in its own words, whether the upstream
knows calls or nothing but text. (9, 11 and 12 are about refusals: ``test_refusals``; Gemini's are in ``test_gemini``.)
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance import wire
from tests.conformance.caller import CALLED, EVERY, STOPPED, Caller, tools
from tests.plugins.house import House

pytestmark = [
    pytest.mark.usefixtures("calm"),
    pytest.mark.parametrize("protocol", EVERY),
    pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"]),
    pytest.mark.parametrize("upstream", ["", "cloud-", "text-"], ids=["agent", "cloud", "text"]),
]


def weather(protocol: str) -> dict[str, Any]:
    return {"tools": tools(protocol, "get_weather")}


def call(city: str) -> str:
    return f"CALLTOOL get_weather {json.dumps({'city': city}, ensure_ascii=False)} END"


def test_plain_text_with_a_system_prompt(
    caller: Caller, calm: House, protocol: str, stream: bool, upstream: str
) -> None:
    calm.simulator.reset()
    if protocol != "messages":
        system = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "In English."}]
        turn = caller.ask(
            protocol, f"{upstream}sim-echo", [*system, {"role": "user", "content": "Hello !"}], stream=stream
        )
    else:
        turn = caller.ask(protocol, f"{upstream}sim-echo", "Hello !", system="Be brief.\n\nIn English.", stream=stream)
    assert (turn.text, turn.calls, turn.finish) == ("Hello !", [], STOPPED[protocol])
    assert [entry["system"] for entry in calm.simulator.log() if entry["system"]] == ["Be brief.\n\nIn English."]
    if stream:
        assert [piece.strip() for piece in turn.pieces] == ["Hello", "!"]


def test_one_call(caller: Caller, protocol: str, stream: bool, upstream: str) -> None:
    turn = caller.ask(protocol, f"{upstream}sim-echo", call("上海"), stream=stream, **weather(protocol))
    [(identifier, name, arguments)] = turn.calls
    assert identifier
    assert (name, json.loads(arguments)) == ("get_weather", {"city": "上海"})
    assert (turn.text, turn.finish) == ("", CALLED[protocol])


def test_two_calls_in_their_order(caller: Caller, protocol: str, stream: bool, upstream: str) -> None:
    turn = caller.ask(
        protocol, f"{upstream}sim-echo", f"{call('上海')} {call('Paris')}", stream=stream, **weather(protocol)
    )
    assert turn.arguments == [{"city": "上海"}, {"city": "Paris"}]
    assert len({identifier for identifier, _, _ in turn.calls}) == 2
    assert turn.finish == CALLED[protocol]


def test_text_before_a_call(caller: Caller, protocol: str, stream: bool, upstream: str) -> None:
    text = f"SAYTEXT Let me check. END {call('上海')}"
    turn = caller.ask(protocol, f"{upstream}sim-echo", text, stream=stream, **weather(protocol))
    assert (turn.text.strip(), turn.arguments, turn.finish) == ("Let me check.", [{"city": "上海"}], CALLED[protocol])


def test_a_second_turn_after_a_result(caller: Caller, calm: House, protocol: str, stream: bool, upstream: str) -> None:
    turn = caller.ask(protocol, f"{upstream}sim-history", HISTORY[protocol], stream=stream, **weather(protocol))
    lengths = {"user": len("Weather?"), "call": len('{"city":"上海"}'), "tool": len('{"temp":26}')}
    expected = [f"{role} {length}" for role, length in lengths.items()] + [f"user {len('And tomorrow?')}"]
    assert turn.text.splitlines() == expected
    assert turn.finish == STOPPED[protocol]


CHAT_HISTORY = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"上海"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"temp":26}'},
    {"role": "user", "content": "And tomorrow?"},
]
MESSAGES_HISTORY = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "上海"}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": '{"temp":26}'},
            {"type": "text", "text": "And tomorrow?"},
        ],
    },
]


RESPONSES_HISTORY = [
    {"role": "user", "content": "Weather?"},
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"上海"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": '{"temp":26}'},
    {"role": "user", "content": "And tomorrow?"},
]
HISTORY: dict[str, list[Any]] = {
    "chat": CHAT_HISTORY,
    "messages": MESSAGES_HISTORY,
    "responses": RESPONSES_HISTORY,
}


def test_parallel_results_reach_the_upstream_in_the_order_of_their_calls(
    caller: Caller, protocol: str, stream: bool, upstream: str
) -> None:
    calls = [("call_1", "上海", "warm"), ("call_2", "Paris", "cold and wet")]
    if protocol == "chat":
        asked = [
            {
                "id": key,
                "type": "function",
                "function": {"name": "get_weather", "arguments": json.dumps({"city": city})},
            }
            for key, city, _ in calls
        ]
        results: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": key, "content": text} for key, _, text in reversed(calls)
        ]
        history = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": asked}, *results]
    elif protocol == "responses":
        items = [
            {"type": "function_call", "call_id": key, "name": "get_weather", "arguments": json.dumps({"city": city})}
            for key, city, _ in calls
        ]
        results = [{"type": "function_call_output", "call_id": key, "output": text} for key, _, text in reversed(calls)]
        history = [{"role": "user", "content": "Weather?"}, *items, *results]
    else:
        blocks = [
            {"type": "tool_use", "id": key, "name": "get_weather", "input": {"city": city}} for key, city, _ in calls
        ]
        results = [{"type": "tool_result", "tool_use_id": key, "content": text} for key, _, text in reversed(calls)]
        history = [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": results},
        ]
    turn = caller.ask(protocol, f"{upstream}sim-tools-2", history, stream=stream, **weather(protocol))
    assert turn.text.splitlines() == ["Result: warm", "Result: cold and wet"]


def test_streamed_arguments_are_whole_and_given_once(
    caller: Caller, protocol: str, stream: bool, upstream: str
) -> None:
    turn = caller.ask(protocol, f"{upstream}sim-tool-split", stream=stream, **weather(protocol))
    assert turn.arguments == [{"city": "city"}]
    assert turn.finish == CALLED[protocol]


def test_the_whole_answer_is_what_the_stream_adds_up_to(
    caller: Caller, protocol: str, stream: bool, upstream: str
) -> None:
    """The same turn in the other form: everything but the ids is equal."""
    text = f"SAYTEXT Let me check. END {call('Paris')}"
    one = caller.ask(protocol, f"{upstream}sim-echo", text, stream=stream, **weather(protocol))
    other = caller.ask(protocol, f"{upstream}sim-echo", text, stream=not stream, **weather(protocol))
    assert _without_ids(one) == _without_ids(other)


def _without_ids(turn: wire.Turn) -> tuple[Any, ...]:
    return turn.text, [name for _, name, _ in turn.calls], turn.arguments, turn.finish
