"""Our own gateway as a provider: a turn that goes through it twice comes back as one that went through it once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functional.turns import CHAT, MESSAGES, PATHS, RESPONSES, Answer, Turn, ask, body_of, failed, piece, streamed
from tests.plugins.house import House
from tests.plugins.instance import Instance, manage

MODEL = "claude-sonnet-4.6"
KINDS = ("openai-chat", "openai-responses", "anthropic")
INSIDE = {"POOLGATE_PRIVATE_NETWORKS": "127.0.0.0/8"}
TOOLS = ("weather", "news")
RESULTS: dict[str, Any] = {
    "calls": (("weather", '{"city":"a"}'), ("news", '{"city":"b"}')), "results": ("sunny", "no"), "tools": TOOLS,
}  # fmt: skip

SHORTENED = "long name"
TURNS: dict[str, dict[str, Any]] = {
    "text": {"text": "SAYTEXT one two  three END", "system": "Be brief."},
    "long": {"text": "SCRIPT sim-lorem-200 END"},
    "system": {"text": "SCRIPT sim-system END", "system": "First.\n\nSecond."},
    "markup": {"text": "SCRIPT sim-markup END"},
    "json": {"text": "SCRIPT sim-json END"},
    "image": {"text": "SCRIPT sim-image END", "images": 1},
    "call": {"text": "SCRIPT sim-tool END", "tools": TOOLS},
    "text and call": {"text": "SCRIPT sim-text-tool END", "tools": TOOLS},
    "parallel calls": {"text": "SCRIPT sim-tools-3 END", "tools": TOOLS},
    "doubles": {"text": "SCRIPT sim-tool-doubles END", "tools": TOOLS},
    SHORTENED: {"text": "SCRIPT sim-tool END", "tools": ("n" * 100,)},
    "results": {"text": "SCRIPT sim-tools-2 END", **RESULTS},
    "history": {"text": "SCRIPT sim-history END", **RESULTS},
    "thinking": {"text": "SCRIPT sim-think-4 END", "thinking": True},
    "usage with cache": {"text": "SCRIPT sim-usage-cache END"},
}


@dataclass
class Gateway:
    url: str
    key: str
    house: House

    def ask(self, path: str, model: str, **turn: Any) -> Answer:
        return ask(self.url, self.key, path, model, Turn(**turn))[0]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Instance(tmp_path_factory.mktemp("hops") / "data", "--demo", **INSIDE) as instance:
        house = House(instance)
        found = Gateway(instance.ready["base_url"], instance.ready["api_key"], house)
        for kind in KINDS:
            words = ("--group", "demo", "--kind", kind, "--base-url", found.url, "--models", f"via-{kind}={MODEL}")
            done = manage(instance.data_dir, "accounts", "add-provider", kind, *words, typed=found.key, **INSIDE)
            assert done.returncode == 0, done.stderr
        for name, value in (("expose_thinking", "true"), ("tool_call_window", "0.2"), ("provider_retries", "0")):
            assert manage(instance.data_dir, "settings", "set", name, value).returncode == 0
        _wait_for(found)
        try:
            yield found
        finally:
            house.close()


@pytest.fixture
def calm(gateway: Gateway) -> Gateway:
    """Nothing that earlier tests broke stands in the way: no rest, and no circuit."""
    gateway.house.forget_rests()
    return gateway


def _wait_for(gateway: Gateway) -> None:
    """The last setting is in force within a second or so."""
    for _ in range(50):
        if gateway.ask(CHAT, MODEL, text="SCRIPT sim-think-1 END", thinking=True).thinking:
            return
    raise AssertionError("the settings did not come into force")


@pytest.fixture(scope="module")
def once(gateway: Gateway) -> dict[tuple[str, str], Answer]:
    """Every turn by one hop, in every protocol."""
    return {(path, name): gateway.ask(path, MODEL, **turn) for path in PATHS for name, turn in TURNS.items()}


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_hops_are_as_one(
    gateway: Gateway, once: dict[tuple[str, str], Answer], kind: str, path: str, name: str
) -> None:
    expected = once[path, name]
    assert expected.status == 200
    assert expected.text or expected.calls
    answer = gateway.ask(path, f"via-{kind}", **TURNS[name])
    if name == SHORTENED:  # what comes out is the same, but a shorter name makes a shorter prompt
        answer.usage = expected.usage
    assert answer == expected


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_thinking_that_the_far_end_left_in_tags_is_thinking_here(gateway: Gateway, kind: str, path: str) -> None:
    answer = gateway.ask(path, f"via-{kind}", text="SAYTEXT <think>one two</think>three <think>four</think> END")
    assert answer.text.rstrip() == "three <think>four</think>"
    assert answer.thinking == ("one two" if path == CHAT else "")  # a setting shows it there, a request elsewhere


@pytest.mark.parametrize("kind", KINDS)
def test_a_cached_prompt_over_two_hops_is_the_same_prompt(gateway: Gateway, kind: str) -> None:
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    plain = {"text": "SCRIPT sim-history END", **RESULTS}
    expected = gateway.ask(MESSAGES, MODEL, **plain, system="One.\n\nTwo.")
    body = body_of(MESSAGES, MODEL, Turn(**plain))
    for block in [body["tools"][0], body["messages"][1]["content"][-1], body["messages"][2]["content"][0]]:
        block.update(cached)
    blocks = [{"type": "text", "text": "One.", **cached}, {"type": "text", "text": "Two."}]
    more = {"messages": body["messages"], "tools": body["tools"], "system": blocks}
    assert gateway.ask(MESSAGES, f"via-{kind}", **plain, more=more) == expected


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_over_two_hops_is_as_long(gateway: Gateway, kind: str, path: str) -> None:
    turn = Turn("SCRIPT sim-lorem-200 END")
    with streamed(gateway.url, gateway.key, path, f"via-{kind}", turn) as (_, frames):
        pieces = [text for frame in frames if (text := piece(path, frame))]
    assert len("".join(pieces).split()) == 200
    assert len(pieces) > 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_breaks_at_the_far_end_breaks_here(calm: Gateway, kind: str, path: str) -> None:
    with streamed(calm.url, calm.key, path, f"via-{kind}", Turn("SCRIPT sim-cut-5 END")) as (_, frames):
        seen = list(frames)
    assert "".join(piece(path, frame) for frame in seen).split() == ["lorem", "ipsum", "dolor", "sit", "amet"]
    assert failed(path, seen[-1])


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_too_long_for_the_far_end_is_too_long_here(calm: Gateway, kind: str, path: str) -> None:
    text = "SCRIPT sim-error-context_too_large END"
    assert calm.ask(path, MODEL, text=text) == calm.ask(path, f"via-{kind}", text=text)
