"""Every kind of provider for callers of every protocol, over sockets, on the simulator.

The script is chosen by a marker in the prompt, so that one model a provider is enough.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.turns import CHAT, MESSAGES, PATHS, RESPONSES, Answer, Turn, ask, body_of, failed, piece, streamed
from tests.plugins.house import House, eventually

PROVIDERS = {"openai": "openai-sim", "responses": "responses-sim", "anthropic": "anthropic-sim"}
WIRES = {"openai": "openai_chat", "responses": "openai_responses", "anthropic": "anthropic_messages"}
ENDED = {CHAT: "stop", RESPONSES: "completed", MESSAGES: "end_turn"}
CALLED = {CHAT: "tool_calls", RESPONSES: "completed", MESSAGES: "tool_use"}
SAME = {CHAT: "openai", RESPONSES: "responses", MESSAGES: "anthropic"}
MATRIX = [(provider, path) for provider in PROVIDERS for path in PATHS]
matrix = pytest.mark.parametrize(("provider", "path"), MATRIX)


def script(name: str, **more: Any) -> Turn:
    return Turn(f"SCRIPT {name} END", **more)


def turn(house: House, provider: str, path: str, asked: Turn) -> Answer:
    return ask(house.url, house.key, path, PROVIDERS[provider], asked)[0]


def last_run(house: House) -> dict[str, Any]:
    """The newest thing that the simulator's provider faces were asked."""
    return next(entry for entry in house.simulator.log() if entry["transport"] in WIRES.values())


@matrix
def test_text(house: House, provider: str, path: str) -> None:
    answer = turn(house, provider, path, Turn("SAYTEXT one two  three END", system="Be brief."))
    assert (answer.text, answer.finish) == ("one two  three", ENDED[path])
    assert answer.usage[1] == 3
    entry = last_run(house)
    assert (entry["transport"], entry["account"], entry["system"]) == (WIRES[provider], provider, "Be brief.")
    assert entry["ended"] == "complete"


@matrix
def test_streamed_text(house: House, provider: str, path: str) -> None:
    with streamed(house.url, house.key, path, PROVIDERS[provider], script("sim-lorem-20")) as (reply, frames):
        words = [text for frame in frames if (text := piece(path, frame))]
    assert len("".join(words).split()) == 20
    record = house.record(reply.headers["x-request-id"])
    assert (record["outcome"], record["transport"], record["output_tokens"]) == ("ok", WIRES[provider], 20)


@matrix
def test_a_call_and_its_result(house: House, provider: str, path: str) -> None:
    asked = script("sim-tool", tools=("weather",))
    answer = turn(house, provider, path, asked)
    assert (answer.calls, answer.finish) == ([("weather", {"city": "city"})], CALLED[path])
    asked.calls, asked.results = (("weather", '{"city":"city"}'),), ("sunny",)
    answer = turn(house, provider, path, asked)
    assert (answer.text, answer.finish) == ("Result: sunny", ENDED[path])


@matrix
def test_parallel_calls(house: House, provider: str, path: str) -> None:
    asked = script("sim-tools-2", tools=("weather", "news"))
    assert [name for name, _ in turn(house, provider, path, asked).calls] == ["weather", "news"]
    asked.calls = (("weather", '{"city":"a"}'), ("news", '{"city":"b"}'))
    asked.results = ("sunny", "none")
    assert turn(house, provider, path, asked).text == "Result: sunny\nResult: none"


@matrix
def test_interleaved_calls_are_put_in_order(house: House, provider: str, path: str) -> None:
    answer = turn(house, provider, path, script("sim-quirk-interleaved", tools=("one", "two", "three")))
    assert answer.calls == [(name, {"city": "city"}) for name in ("one", "two", "three")]


@matrix
def test_a_name_that_the_provider_does_not_take_comes_back_whole(house: House, provider: str, path: str) -> None:
    name = "mcp__" + "long_name_" * 12
    answer = turn(house, provider, path, script("sim-tool", tools=(name,)))
    assert answer.calls == [(name, {"city": "city"})]
    sent = last_run(house)["tools"][0]["name"]
    assert (sent == name) == (provider == "anthropic")


@matrix
def test_thinking(house: House, provider: str, path: str) -> None:
    answer = turn(house, provider, path, Turn("SAYTEXT done END", thinking=True))
    assert last_run(house)["parameters"] == {"thinking": "true"}
    assert answer.text == "done"
    assert answer.thinking == ("" if path == CHAT else "Let me think about it.")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_thinking_twin_of_a_model_thinks(house: House, provider: str) -> None:
    ask(house.url, house.key, CHAT, f"{PROVIDERS[provider]}-thinking", Turn("SAYTEXT done END"))
    assert last_run(house)["parameters"] == {"thinking": "true"}


FORCED: dict[str, Any] = {CHAT: "required", RESPONSES: "required", MESSAGES: {"type": "any"}}


@matrix
def test_a_demanded_call_comes_whatever_the_vendor_says_about_thinking_beside_it(
    house: House, provider: str, path: str
) -> None:
    more: dict[str, Any] = {"tool_choice": FORCED[path]}
    if path == MESSAGES:
        more["thinking"] = {"type": "adaptive"}
    asked = script("sim-tool", tools=("weather",), thinking=path != MESSAGES, more=more)
    answer, reply = ask(house.url, house.key, path, PROVIDERS[provider], asked)
    assert (answer.status, [name for name, _ in answer.calls]) == (200, ["weather"])
    ignored = reply.headers.get("x-poolgate-ignored", "").split(",")
    named = {CHAT: "reasoning_effort", RESPONSES: "reasoning", MESSAGES: "thinking"}[path]
    assert (named in ignored) == (provider == "anthropic")
    assert (last_run(house)["parameters"] == {"thinking": "true"}) == (provider != "anthropic")


@matrix
def test_tagged_thinking_before_the_answer_is_no_text(house: House, provider: str, path: str) -> None:
    answer = turn(house, provider, path, Turn("SAYTEXT <think>so so</think> one <think> two END"))
    assert answer.text == "one <think> two"


@matrix
def test_an_image(house: House, provider: str, path: str) -> None:
    answer = turn(house, provider, path, script("sim-image", images=1))
    assert answer.text.startswith("image/png 70 ")
    assert [image["mime_type"] for image in last_run(house)["images"]] == ["image/png"]


@matrix
def test_an_error_before_any_output(house: House, provider: str, path: str) -> None:
    house.simulator.fault(provider, "rate_limited_hint")
    answer, reply = ask(house.url, house.key, path, PROVIDERS[provider], Turn("Hi"))
    assert (answer.status, reply.headers["retry-after"]) in ((429, "7"), (429, "8"))  # the hint, a little spread
    record = house.record(reply.headers["x-request-id"])
    assert (record["reason"], record["committed"]) == ("rate_limit", False)
    assert [attempt["transport"] for attempt in record["attempts"]] == [WIRES[provider]]


@matrix
def test_a_passing_error_is_tried_once_more(house: House, provider: str, path: str) -> None:
    house.simulator.fault(provider, "internal", times=1)
    assert turn(house, provider, path, Turn("SAYTEXT fine END")).text == "fine"
    house.simulator.fault(provider, "goaway", times=1)
    assert turn(house, provider, path, Turn("SAYTEXT fine END")).text == "fine"


@matrix
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("sim-error-unavailable-after-3", "capacity"),
        ("sim-cut-3", "cut"),
        ("sim-reset-3", "cut"),
        ("sim-garbage-3", "protocol"),
    ],
)
def test_an_end_that_is_none_after_output(house: House, provider: str, path: str, name: str, reason: str) -> None:
    with streamed(house.url, house.key, path, PROVIDERS[provider], script(name)) as (reply, frames):
        seen = list(frames)
    assert len("".join(piece(path, frame) for frame in seen).split()) == 3
    assert failed(path, seen[-1])
    record = house.record(reply.headers["x-request-id"])
    assert (record["outcome"], record["reason"], record["committed"]) == ("interrupted", reason, True)


@matrix
def test_a_caller_that_leaves_ends_the_upstreams_turn(house: House, provider: str, path: str) -> None:
    with streamed(house.url, house.key, path, PROVIDERS[provider], script("sim-slow-300")) as (_, frames):
        next(frame for frame in frames if piece(path, frame))
    eventually(lambda: last_run(house)["ended"] == "cancelled", 2)
    eventually(lambda: house.slots_in_use() == 0, 2)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("quirk", ["second-end", "late-error", "blank-finish", "other-field"])
def test_habits_of_providers_that_are_put_up_with(house: House, provider: str, quirk: str) -> None:
    answer = turn(house, provider, MESSAGES, script(f"sim-quirk-{quirk}"))
    assert (answer.status, answer.finish) == (200, "end_turn")
    assert "lorem" in answer.text


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("quirk", "reason"), [("empty", "empty"), ("json-error", "capacity")])
def test_a_200_that_is_no_answer(house: House, provider: str, quirk: str, reason: str) -> None:
    answer, reply = ask(house.url, house.key, CHAT, PROVIDERS[provider], script(f"sim-quirk-{quirk}"))
    assert answer.status in (502, 503)
    assert house.record(reply.headers["x-request-id"])["reason"] == reason


@pytest.mark.parametrize(
    ("field", "value"),
    [("n", 2), ("logprobs", True), ("audio", {"voice": "a", "format": "wav"}), ("modalities", ["text", "audio"])],
)
def test_what_no_other_account_could_do_is_refused_by_name_by_a_provider_too(
    house: House, field: str, value: object
) -> None:
    _, reply = ask(house.url, house.key, CHAT, PROVIDERS["openai"], Turn("Hi", more={field: value}))
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, field)


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
def test_a_tool_that_runs_at_the_vendor_is_left_out_and_listed(house: House, path: str) -> None:
    """Chat has none."""
    hosted = {RESPONSES: {"type": "web_search"}, MESSAGES: {"type": "web_search_20250305", "name": "web_search"}}[path]
    asked = Turn("SAYTEXT x END", tools=("weather",))
    asked.more = {"tools": [*body_of(path, "m", asked)["tools"], hosted]}
    _, reply = ask(house.url, house.key, path, PROVIDERS[SAME[path]], asked)
    assert reply.status_code == 200
    assert "tools" in reply.headers["x-poolgate-ignored"]
    assert [tool["name"] for tool in last_run(house)["tools"]] == ["weather"]


@matrix
def test_unknown_fields_reach_an_upstream_of_the_same_protocol(house: House, provider: str, path: str) -> None:
    asked = Turn("SAYTEXT x END", more={"x_new_field": {"deep": [1]}})
    _, reply = ask(house.url, house.key, path, PROVIDERS[provider], asked)
    same = provider == SAME[path]
    assert ("x_new_field" in last_run(house)["fields"]) == same
    assert ("x_new_field" in reply.headers.get("x-poolgate-ignored", "")) != same


@matrix
def test_unknown_fields_of_the_answer_reach_a_caller_of_the_same_protocol(
    house: House, provider: str, path: str
) -> None:
    same = provider == SAME[path]
    _, reply = ask(house.url, house.key, path, PROVIDERS[provider], Turn("SAYTEXT x END"))
    assert (reply.json().get("x_extra") == {"from": "the vendor"}) == same
    with streamed(house.url, house.key, path, PROVIDERS[provider], Turn("SAYTEXT x END")) as (_, frames):
        assert any("x_extra" in str(frame) for frame in frames) == same


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_key_takes_the_account_out_of_the_pool(house: House, provider: str) -> None:
    house.simulator.fault(provider, "key_bad")
    assert turn(house, provider, CHAT, Turn("Hi")).status == 502
    where = "SELECT state FROM accounts_account WHERE name = %s"
    eventually(lambda: house.database.execute(where, [f"sim-{provider}"]).fetchone() == ("needs_sign_in",), 5)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_of_a_provider_is_shown_to_a_caller(house: House, path: str) -> None:
    for provider, model in PROVIDERS.items():
        house.simulator.fault(provider, "unavailable")
        _, reply = ask(house.url, house.key, path, model, Turn("Hi"))
        shown = json.dumps(reply.json()) + str(reply.headers)
        assert reply.status_code >= 500
        assert not [
            word for word in ("127.0.0.1", "sk-sim", "gpt-5.2", "claude-sonnet", f"sim-{provider}") if word in shown
        ]


def test_an_output_format_is_the_providers_own_business_and_refused_elsewhere(house: House) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}
    asked = Turn('SAYTEXT {"a":"b"} END', more={"response_format": form})
    served, _ = ask(house.url, house.key, CHAT, PROVIDERS["openai"], asked)
    refused, _ = ask(house.url, house.key, CHAT, "default", asked)
    assert (served.status, served.text) == (200, '{"a":"b"}')
    assert (refused.status, refused.error) == (400, "unsupported_response_format")
