"""What of a prompt reaches the model, and in which order: system texts, history, prefill."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.caller import EVERY, Caller
from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_chat_joins_system_and_developer_messages_wherever_they_stand(caller: Caller) -> None:
    messages = [
        said("system", "First."),
        said("user", "Hi"),
        said("developer", [{"type": "text", "text": "Second."}, {"type": "text", "text": "Third."}]),
        said("assistant", "Hello."),
        said("system", "Fourth."),
        said("user", "Go on"),
    ]
    assert caller.ask("chat", "sim-system", messages).text == "First.\n\nSecond.\n\nThird.\n\nFourth."


def test_messages_joins_the_system_prompt_and_system_messages(caller: Caller) -> None:
    messages = [said("user", "Hi"), said("system", "Third."), said("assistant", "Hello."), said("user", "Go on")]
    blocks = [
        {"type": "text", "text": "First.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Second."},
    ]
    assert caller.ask("messages", "sim-system", messages, system=blocks).text == "First.\n\nSecond.\n\nThird."


@pytest.mark.parametrize("protocol", EVERY)
def test_every_turn_of_a_long_conversation_arrives_once_and_in_order(caller: Caller, protocol: str) -> None:
    messages = [said("user" if number % 2 == 0 else "assistant", "x" * (number + 1)) for number in range(41)]
    expected = [f"{message['role']} {len(message['content'])}" for message in messages]
    assert caller.ask(protocol, "sim-history", messages).text.splitlines() == expected


@pytest.mark.parametrize("protocol", EVERY)
def test_neighbours_of_one_role_are_one_turn(caller: Caller, protocol: str) -> None:
    messages = [said("user", "a"), said("user", "b"), said("assistant", "c"), said("assistant", "d"), said("user", "e")]
    joined = len("a\n\nb")
    assert caller.ask(protocol, "sim-history", messages).text.splitlines() == [
        f"user {joined}", "assistant 1", "assistant 1", "user 1"
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", EVERY)
def test_no_character_of_the_prompt_is_lost(caller: Caller, protocol: str) -> None:
    text = 'Zeile 1\n\n\tZeile 2 „ß“ 上海 \U0001f40d "quoted" \\ {"a": [1]} <|not a token|> & < > \u200b end'
    assert caller.ask(protocol, "sim-echo", text).text == text
    assert caller.ask(protocol, "sim-echo", text, stream=True).text == text


@pytest.mark.parametrize("protocol", EVERY)
def test_a_prefill_is_gone_on_from_and_listed(caller: Caller, calm: House, protocol: str) -> None:
    messages = [said("user", "Count"), said("assistant", "one two")]
    answer = caller.post(protocol, "sim-history", messages)
    assert answer.status_code == 200
    run = calm.simulator.runs()[0]
    assert [tuple(turn) for turn in run["history"]] == [("user", 5), ("assistant", 7)]
    assert "prefill" in answer.headers.get("x-poolgate-ignored", "")


@pytest.mark.parametrize("protocol", EVERY)
def test_fields_without_effect_are_accepted_and_listed(caller: Caller, protocol: str) -> None:
    answer = caller.post(protocol, "sim-echo", some_new_field={"a": 1}, service_tier="auto")
    assert answer.status_code == 200
    assert set(answer.headers["x-poolgate-ignored"].split(",")) == {"some_new_field", "service_tier"}


def test_what_applications_send_back_of_an_answer_is_taken(caller: Caller) -> None:
    """The openai SDK echoes empty members of its own types."""
    echo: dict[str, Any] = {
        "role": "assistant", "content": "one", "refusal": None, "annotations": [], "audio": None,
        "function_call": None, "tool_calls": None, "reasoning_content": "hm",
    }  # fmt: skip
    turn = caller.ask("chat", "sim-history", [said("user", "Hi"), echo, said("user", "Go on")])
    assert turn.text.splitlines() == ["user 2", "assistant 3", "user 5"]
