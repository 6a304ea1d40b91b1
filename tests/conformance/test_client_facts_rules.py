"""The rules for a gateway that follow from the facts of real clients, each with a test that bears its number.

What a rule says of a whole answer is held by the readers (``wire``, ``wire_responses``), which refuse every departure
from it; here each rule is tried where it is most easily broken.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

import httpx2
import pytest

from tests.conformance import wire
from tests.conformance.caller import EVERY, Caller, tools
from tests.conformance.wire_responses import read_response
from tests.gemini import HI
from tests.plugins.gemini import Google, chunks, error_of
from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")
ENDPOINTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"input": "Hi"},
    "/v1/responses/compact": {"input": "Hi"},
}
GEMINI = "/v1beta/models/sim-echo:generateContent"
KEYS = {"authorization": "Bearer {}", "x-api-key": "{}", "api-key": "{}", "x-goog-api-key": "{}"}


def test_every_rule_has_a_test_that_bears_its_number() -> None:
    names = vars(importlib.import_module(__name__))
    numbers = {int(found[1]) for name in names if (found := re.match(r"test_rule_(\d)_", name))}
    assert sorted(numbers) == list(range(1, 9))


@pytest.mark.parametrize("header", KEYS)
@pytest.mark.parametrize("path", ENDPOINTS)
def test_rule_1_the_key_is_taken_from_every_header_on_every_path(calm: House, path: str, header: str) -> None:
    body = {"model": "sim-echo", **ENDPOINTS[path]}
    answer = httpx2.post(calm.url + path, json=body, headers={header: KEYS[header].format(calm.key)}, timeout=20)
    assert answer.status_code == 200


def test_rule_1_the_key_may_stand_in_the_query_of_gemini(google: Google) -> None:
    assert google.post(f"{GEMINI}?key={google.house.key}", headers={}).status_code == 200


def test_rule_1_errors_have_the_dialect_of_the_path_and_for_models_of_the_headers(google: Google) -> None:
    url = google.house.url
    for path, body in ENDPOINTS.items():
        answer = httpx2.post(url + path, json={"model": "sim-echo", **body})
        assert wire.read_error(answer)[:2] == (401, "authentication_error")
    error_of(httpx2.post(url + GEMINI, json={"contents": HI}), 401, "UNAUTHENTICATED")
    listed = f"{url}/v1/models"
    assert set(httpx2.get(listed).json()["error"]) == {"message", "type", "param", "code"}
    assert httpx2.get(listed, headers={"anthropic-version": "2023-06-01"}).json()["type"] == "error"


def frames_of(answer: httpx2.Response) -> list[tuple[str, Any]]:
    return [(event, data if data == "[DONE]" else json.loads(data)) for event, data in wire.frames(answer.content)]


@pytest.mark.parametrize("usage", [False, True], ids=["plain", "with usage"])
def test_rule_2_chat_says_role_deltas_finish_usage_and_done_in_this_order(caller: Caller, usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    answer = caller.chat("sim-tools-2", tools=tools("chat", "a", "b"), stream=True, **options)
    wire.read_chat(answer, include_usage=usage)
    *sent, done = [data for _, data in frames_of(answer)]
    assert done == "[DONE]"
    if usage:
        *sent, counted = sent
        assert (counted["choices"], counted["usage"]["total_tokens"] > 0) == ([], True)
    deltas = [chunk["choices"][0]["delta"] for chunk in sent]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert (deltas[-1], sent[-1]["choices"][0]["finish_reason"]) == ({}, "tool_calls")
    calls = [delta["tool_calls"][0] for delta in deltas[1:-1]]
    assert all(call["index"] in (0, 1) for call in calls)
    assert [(call["function"]["name"], call["type"]) for call in calls if "id" in call] == [
        ("a", "function"),
        ("b", "function"),
    ]
    assert all("type" not in call and "name" not in call["function"] for call in calls if "id" not in call)


def test_rule_3_responses_keeps_its_ids_and_closes_with_everything(caller: Caller) -> None:
    answer = caller.responses("sim-text-tool", tools=tools("responses", "a"), stream=True)
    read_response(answer)
    events = [data for _, data in frames_of(answer)]
    final = events[-1]["response"]
    assert events[-1]["type"] == "response.completed"
    assert {event["response"]["id"] for event in events if "response" in event} == {final["id"]}
    message, call = final["output"]
    assert (message["status"], message["content"][0]["annotations"], call["status"]) == ("completed", [], "completed")
    assert call["call_id"]
    assert final["usage"]["total_tokens"] > 0
    assert all(event["content_index"] == 0 for event in events if "output_text" in event["type"])


def test_rule_3_a_failure_is_response_failed_under_the_same_id(caller: Caller) -> None:
    answer = caller.responses("sim-error-internal-after-2", stream=True)
    turn = read_response(answer)
    assert (turn.finish, turn.text) == ("failed", "lorem ipsum ")
    assert "event: error" not in answer.text


def test_rule_4_messages_opens_empty_blocks_and_repeats_its_counts(caller: Caller) -> None:
    answer = caller.messages("sim-text-tool", tools=tools("messages", "a"), stream=True)
    wire.read_message(answer)
    events = [data for _, data in frames_of(answer)]
    assert (events[0]["message"]["content"], events[0]["message"]["usage"]["output_tokens"]) == ([], 0)
    blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block.get("text", block.get("input")) for block in blocks] == ["", {}]
    deltas = {event["delta"]["type"] for event in events if event["type"] == "content_block_delta"}
    assert deltas == {"text_delta", "input_json_delta"}
    assert events[-2]["usage"]["input_tokens"] > 0
    assert events[-1] == {"type": "message_stop"}


def test_rule_5_gemini_finishes_in_its_last_chunk(google: Google) -> None:
    for version in ("v1", "v1beta", "v1alpha"):
        path = f"/{version}/models/sim-lorem-5:streamGenerateContent?alt=sse"
        sent = chunks(google.post(path, {"contents": HI, "generation_config": {"topP": 1}}))
        finished = [chunk["candidates"][0].get("finishReason") for chunk in sent]
        assert [*finished[:-1], finished[-1]] == [*[None] * (len(sent) - 1), "STOP"]


@pytest.mark.parametrize("model", ["sim-cut-2", "sim-error-internal-after-2"])
def test_rule_6_an_upstream_that_dies_is_told_in_the_dialect_and_nothing_follows(
    caller: Caller, google: Google, model: str
) -> None:
    for protocol in EVERY:
        turn = caller.ask(protocol, model, stream=True)
        assert turn.error
        assert turn.text == "lorem ipsum "
    *_, last = chunks(google.stream(model))
    assert last["error"]["status"] == "UNAVAILABLE"


REFUSALS: dict[str, tuple[str, dict[str, Any], int]] = {
    "an unknown model": ("no-such-model", {}, 404),
    "too many tools": ("sim-echo", {"tools": [f"t{number}" for number in range(129)]}, 413),
    "a pace limit": ("sim-error-rate_limited", {}, 429),
}


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.parametrize("protocol", EVERY)
def test_rule_7_statuses_are_those_that_clients_act_on(house: House, caller: Caller, protocol: str, case: str) -> None:
    model, fields, status = REFUSALS[case]
    if "tools" in fields:
        fields = {"tools": tools(protocol, *fields["tools"])}
    answer = caller.post(protocol, model, **fields)
    assert answer.status_code == status
    assert ("retry-after" in answer.headers) is (status == 429)


def test_rule_8_what_nobody_knows_is_tolerated(caller: Caller) -> None:
    for protocol in EVERY:
        answer = caller.post(protocol, "sim-echo", field_of_tomorrow={"a": [None]})
        assert (answer.status_code, answer.headers["x-poolgate-ignored"]) == (200, "field_of_tomorrow")
    strange = {
        "x-header-of-tomorrow": 'a;b="c", {}',
        "accept": "text/strange",
        "anthropic-beta": "",
        "content-type": "",
    }
    body = {"model": "sim-echo", "messages": [{"role": "user", "content": "Hi"}]}
    assert caller.http.post("/v1/chat/completions", json=body, headers=strange).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/hello"])
def test_rule_8_probes_are_answered_without_a_key(calm: House, path: str) -> None:
    answer = httpx2.head(calm.url + path)
    assert (answer.status_code, answer.content) == (200, b"")
