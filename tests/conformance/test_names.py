"""Names that nobody configured: aliases, patterns of them, and a key's fallback model, over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import openai
import pytest

from tests.conformance.caller import PROTOCOLS, Caller
from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")


@pytest.fixture(scope="module")
def aliased(house_process: House) -> Iterator[House]:
    house_process.manage("models", "alias", "my-test", "sim-echo")
    house_process.manage("models", "alias", "quick", "composer-2.5")
    yield house_process
    house_process.manage("models", "remove", "quick")
    house_process.manage("models", "remove", "my-test")


@pytest.fixture(scope="module")
def fallen_back(house_process: House) -> Iterator[Caller]:
    words = ("--team", "demo", "--name", "lenient", "--fallback-model", "sim-echo")
    caller = Caller(house_process.url, house_process.manage("issue_key", *words).strip())
    with caller.http:
        yield caller


@pytest.mark.parametrize(
    ("model", "served"),
    [
        ("claude-opus-5-5", "claude-sonnet-4.6"),  # Claude Code's aliases and its small model
        ("claude-haiku-4-5-20251001", "claude-sonnet-4.6"),
        ("gpt-5.9-codex", "gpt-5.2"),
        ("gemini-3-flash-preview", "gemini-2.5-flash"),  # Gemini CLI, whatever -m says
        ("claude-opus-5-5-thinking", "claude-sonnet-4.6-thinking"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clients_facts_18_a_model_that_nobody_configured_is_served_by_an_alias(
    caller: Caller, calm: House, protocol: str, model: str, served: str
) -> None:
    answer = caller.post(protocol, model)

    assert answer.status_code == 200
    assert answer.json()["model"] == model
    assert answer.headers["x-poolgate-model"] == served
    assert calm.simulator.runs()[0]["model"] == served.removesuffix("-thinking")
    record = calm.record(answer.headers["x-request-id"])
    assert (record["model"], record["outcome"]) == (served, "ok")


def test_an_exact_model_is_served_by_itself_and_says_nothing(caller: Caller) -> None:
    answer = caller.chat("claude-opus-4.6")

    assert answer.status_code == 200
    assert "x-poolgate-model" not in answer.headers


@pytest.mark.parametrize("stream", [False, True])
def test_an_alias_may_lead_to_a_name_that_a_pattern_serves(caller: Caller, aliased: House, stream: bool) -> None:
    answer = caller.chat("my-test", "just this", stream=stream)

    assert "just" in answer.text
    assert answer.headers["x-poolgate-model"] == "sim-echo"


def test_exact_aliases_are_listed_with_twins_and_patterns_are_not(
    aliased: House, openai_sdk: openai.OpenAI, anthropic_sdk: anthropic.Anthropic
) -> None:
    for listed in ({model.id for model in openai_sdk.models.list()}, {m.id for m in anthropic_sdk.models.list()}):
        assert {"quick", "quick-thinking", "my-test", "composer-2.5"} <= listed
        assert not any("*" in name for name in listed)
    assert openai_sdk.models.retrieve("gpt-5.9-codex").id == "gpt-5.9-codex"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_with_a_fallback_is_served_whatever_it_names(fallen_back: Caller, calm: House, protocol: str) -> None:
    answer = fallen_back.post(protocol, "from the future / v9", "hello there")

    assert "hello there" in answer.text
    assert answer.json()["model"] == "from the future / v9"
    assert answer.headers["x-poolgate-model"] == "sim-echo"
    assert calm.record(answer.headers["x-request-id"])["model"] == "sim-echo"


def test_without_a_fallback_such_a_name_is_not_found(caller: Caller, calm: House) -> None:
    answer = caller.chat("from the future / v9")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert calm.record(answer.headers["x-request-id"])["model"] == ""
