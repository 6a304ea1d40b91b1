"""Demanded calls over sockets: what a strict, a lenient and a Kilo key get, over the Agent RPC and over text."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.textbridge.wording import reminder
from tests.functional.callers import post
from tests.functional.turns import CHAT, PATHS, Turn, body_of, piece, read, streamed
from tests.plugins.house import House

KINDS = {"agent": "", "text": "text-", "cloud": "cloud-"}
DEMANDED: dict[str, Any] = {CHAT: "required", "/v1/responses": "required", "/v1/messages": {"type": "any"}}
BOTH = pytest.mark.parametrize("kind", ["agent", "text"])


def issue(house: House, name: str, *policies: str) -> str:
    return house.manage("issue_key", "--team", "demo", "--name", name, *policies).strip()


@pytest.fixture(scope="module")
def lenient(house_process: House) -> str:
    return issue(house_process, "lenient", "--tool-choice-outcome", "lenient")


@pytest.fixture(scope="module")
def kilo(house_process: House) -> str:
    return issue(house_process, "kilo", "--kilo-tool-strict", "--tool-choice-outcome", "lenient")


def ask(house: House, key: str, path: str, model: str, turn: Turn) -> Any:
    return post(house, path, body_of(path, model, turn), key=key)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_lenient_key_gets_the_last_text_with_a_word_in_the_head(
    house: House, lenient: str, kind: str, path: str
) -> None:
    turn = Turn("one two", tools=("weather",), more={"tool_choice": DEMANDED[path]})
    reply = ask(house, lenient, path, f"{KINDS[kind]}sim-echo", turn)
    answer = read(path, reply.status_code, reply.json())
    assert answer.text == reminder(["weather"])  # the model repeats what it was told last
    assert (answer.calls, reply.headers["x-poolgate-tool-choice"]) == ([], "unsatisfied")
    assert answer.usage[1] == len(f"one two {answer.text}".split())  # of both attempts
    record = house.record(reply.headers["x-request-id"])
    assert [attempt["reason"] for attempt in record["attempts"]] == ["missing_tool_call"] * 2
    assert (record["outcome"], record["code"], record["reason"]) == ("ok", "", "")
    assert (record["tool_choice_unsatisfied"], record["finish"]) == (True, "stop")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_lenient_stream_holds_the_last_text_alone(house: House, lenient: str, kind: str, path: str) -> None:
    turn = Turn("one two", tools=("weather",), more={"tool_choice": DEMANDED[path]})
    with streamed(house.url, lenient, path, f"{KINDS[kind]}sim-echo", turn) as (reply, frames):
        text = "".join(piece(path, frame) for frame in frames)
    assert (text, reply.headers["x-poolgate-tool-choice"]) == (reminder(["weather"]), "unsatisfied")
    assert house.record(reply.headers["x-request-id"])["tool_choice_unsatisfied"]


@BOTH
def test_a_strict_key_gets_an_error_and_no_such_head(house: House, kind: str) -> None:
    turn = Turn("one two", tools=("weather",), more={"tool_choice": "required"})
    reply = ask(house, house.key, CHAT, f"{KINDS[kind]}sim-echo", turn)
    assert read(CHAT, reply.status_code, reply.json()).error == "upstream_missing_tool_call"
    assert "x-poolgate-tool-choice" not in reply.headers
    assert not house.record(reply.headers["x-request-id"])["tool_choice_unsatisfied"]


@BOTH
def test_a_kilo_key_demands_a_call_of_the_user_and_lets_the_agent_finish(house: House, kilo: str, kind: str) -> None:
    asked = ask(house, kilo, CHAT, f"{KINDS[kind]}sim-echo", Turn("one", tools=("weather",)))
    assert asked.headers["x-poolgate-tool-choice"] == "unsatisfied"
    assert len(house.record(asked.headers["x-request-id"])["attempts"]) == 2
    history: dict[str, Any] = {"calls": (("weather", '{"city":"x"}'),), "results": ("sunny",)}
    done = ask(house, kilo, CHAT, f"{KINDS[kind]}sim-tool", Turn("one", tools=("weather",), **history))
    assert read(CHAT, done.status_code, done.json()).text == "Result: sunny"
    assert "x-poolgate-tool-choice" not in done.headers
    assert len(house.record(done.headers["x-request-id"])["attempts"]) == 1


def test_a_call_that_comes_at_the_first_try_is_not_marked(house: House, lenient: str) -> None:
    turn = Turn("one", tools=("weather",), more={"tool_choice": "required"})
    reply = ask(house, lenient, CHAT, "sim-tool", turn)
    assert [name for name, _ in read(CHAT, reply.status_code, reply.json()).calls] == ["weather"]
    assert "x-poolgate-tool-choice" not in reply.headers
