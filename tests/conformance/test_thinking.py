"""Thinking in both protocols: asked for by name, parameter or effort; shown only where somebody asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import wire
from tests.conformance.caller import PROTOCOLS, STOPPED, Caller, tools
from tests.plugins.house import House

THOUGHT = "Let me think about it."
LOREM_3 = "lorem ipsum dolor "
ENABLED = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE = {"type": "adaptive"}

pytestmark = pytest.mark.usefixtures("calm")
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def exposing(house_process: House) -> Iterator[Caller]:
    """A caller whose key shows thinking on Chat."""
    key = house_process.manage("issue_key", "--team", "demo", "--name", "exposing").strip()
    house_process.database.execute("UPDATE tenants_apikey SET expose_thinking = true WHERE name = 'exposing'")
    house_process.publish()
    caller = Caller(house_process.url, key)
    with caller.http:
        yield caller


@STREAMED
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_thinking_twin_thinks_and_does_not_show_it_unasked(
    caller: Caller, calm: House, protocol: str, stream: bool
) -> None:
    turn = caller.ask(protocol, "sim-lorem-3-thinking", stream=stream)
    assert (turn.thinking, turn.text.strip(), turn.finish) == ("", LOREM_3.strip(), STOPPED[protocol])
    run = calm.simulator.runs()[0]
    assert (run["model"], run["parameters"]) == ("sim-lorem-3", {"thinking": "true"})


@STREAMED
@pytest.mark.parametrize("thinking", [ENABLED, ADAPTIVE], ids=["enabled", "adaptive"])
def test_messages_shows_what_was_asked_for_with_a_signature(
    caller: Caller, calm: House, stream: bool, thinking: dict[str, Any]
) -> None:
    turn = caller.ask("messages", "sim-lorem-3", thinking=thinking, stream=stream)
    assert (turn.thinking, turn.text.strip()) == (THOUGHT, LOREM_3.strip())
    assert turn.signature
    assert calm.simulator.runs()[0]["parameters"] == {"thinking": "true"}


@STREAMED
def test_messages_hides_thinking_that_is_to_be_omitted(caller: Caller, stream: bool) -> None:
    turn = caller.ask("messages", "sim-think-5", thinking={**ADAPTIVE, "display": "omitted"}, stream=stream)
    assert (turn.thinking, turn.signature) == ("", "")
    assert len(turn.text.split()) == 10


def test_messages_that_switches_thinking_off_asks_for_none(caller: Caller, calm: House) -> None:
    turn = caller.ask("messages", "sim-lorem-3", thinking={"type": "disabled"})
    assert (turn.thinking, turn.text.strip()) == ("", LOREM_3.strip())
    assert calm.simulator.runs()[0]["parameters"] == {}


@STREAMED
def test_chat_hides_thinking_unless_the_key_shows_it(caller: Caller, exposing: Caller, stream: bool) -> None:
    hidden = caller.ask("chat", "sim-think-5", stream=stream)
    shown = exposing.ask("chat", "sim-think-5", stream=stream)
    assert hidden.thinking == ""
    assert shown.thinking == "lorem ipsum dolor sit amet "
    assert hidden.text == shown.text


@STREAMED
def test_an_effort_on_chat_asks_for_thinking(exposing: Caller, calm: House, stream: bool) -> None:
    turn = exposing.ask("chat", "sim-lorem-3", reasoning_effort="high", stream=stream)
    assert turn.thinking == THOUGHT
    assert calm.simulator.runs()[0]["parameters"] == {"thinking": "true"}


def test_effort_none_on_chat_asks_for_none(exposing: Caller, calm: House) -> None:
    assert exposing.ask("chat", "sim-lorem-3", reasoning_effort="none").thinking == ""
    assert calm.simulator.runs()[0]["parameters"] == {}


@STREAMED
def test_thinking_comes_before_a_call(caller: Caller, stream: bool) -> None:
    turn = caller.ask("messages", "sim-tool", thinking=ENABLED, tools=tools("messages", "first"), stream=stream)
    assert (turn.thinking, turn.arguments, turn.finish) == (THOUGHT, [{"city": "city"}], "tool_use")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_twin_of_a_twin_does_not_exist(caller: Caller, protocol: str) -> None:
    status, kind, code, param = wire.read_error(caller.post(protocol, "sim-lorem-3-thinking-thinking"))
    if protocol == "chat":
        assert (status, kind, code, param) == (404, "invalid_request_error", "model_not_found", "model")
    else:
        assert (status, kind) == (404, "not_found_error")


def test_thinking_that_comes_back_is_never_told_upstream(caller: Caller, calm: House) -> None:
    first = caller.ask("messages", "sim-lorem-3", thinking=ENABLED)
    blocks = [
        {"type": "thinking", "thinking": first.thinking, "signature": first.signature},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": first.text},
    ]
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": "Go on"},
    ]
    caller.ask("messages", "sim-lorem-3", history, thinking=ENABLED)
    roles = [role for role, _ in calm.simulator.runs()[0]["history"]]
    assert roles == ["user", "assistant"]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "budget_tokens"),
        ({"thinking": {"type": "enabled"}}, "budget_tokens"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type"),
        ({"thinking": ENABLED, "tools": tools("messages", "a"), "tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
def test_a_bad_wish_for_thinking_is_refused_by_name(caller: Caller, fields: dict[str, Any], what: str) -> None:
    answer = caller.messages("sim-echo", **fields)
    assert wire.read_error(answer)[:2] == (400, "invalid_request_error")
    assert what in answer.json()["error"]["message"]
