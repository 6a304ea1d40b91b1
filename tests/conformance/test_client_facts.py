"""What surprised us in real clients, fact by fact: each has a test that bears its number, over plain HTTP.

The facts were measured with the newest released clients; docs/clients.md tells how they are set up. What a gateway has
to do about them in general is in ``test_client_facts_rules``; real clients run in ``tests/clients``.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx2
import pytest

from tests.conformance import test_names, wire
from tests.conformance.caller import EVERY, Caller, limit, tools
from tests.conformance.recorded import load, replay
from tests.conformance.wire_responses import read_response
from tests.functional import test_counting
from tests.plugins.gemini import Google, chunks, error_of
from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

ELSEWHERE: dict[int, Callable[..., None]] = {
    15: test_counting.test_the_sdk_counts_and_many_counts_at_once_are_no_burden,
    18: test_names.test_clients_facts_18_a_model_that_nobody_configured_is_served_by_an_alias,
}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n".ljust(64)).decode()
SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PICTURE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "original"}
IS_A_PICTURE = r"image/png 64 [0-9a-f]{64}"


def facts_of(module: ModuleType) -> set[int]:
    return {int(found[1]) for name in vars(module) if (found := re.match(r"test_fact_(\d\d)_", name))}


def test_every_fact_has_a_test_that_bears_its_number() -> None:
    here = facts_of(importlib.import_module(__name__))
    assert sorted([*here, *ELSEWHERE]) == list(range(1, 21))


@STREAMED
def test_fact_01_system_messages_among_the_others_are_kept(caller: Caller, stream: bool) -> None:
    block = {"type": "text", "text": "The environment.", "cache_control": {"type": "ephemeral"}}
    first = {"role": "system", "content": [block], "output_config": {"effort": "medium"}}
    later = {"role": "system", "content": "A reminder.", "output_config": {"effort": "low"}}
    said: list[Any] = [{"role": "user", "content": "Hi"}, first, {"role": "assistant", "content": "Hello."}]
    said += [{"role": "user", "content": "Go on"}, later]
    turn = caller.ask(
        "messages", "sim-system", said, system="The rules.", output_config={"effort": "high"}, stream=stream
    )
    assert turn.text == "The rules.\n\nThe environment.\n\nA reminder."


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21", "2031-01-01", ""])
@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_fact_02_either_key_header_goes_with_any_version(calm: House, header: str, version: str) -> None:
    key = f"Bearer {calm.key}" if header == "authorization" else calm.key
    headers = {header: key} | ({"anthropic-version": version} if version else {})
    body = {"model": "sim-echo", "max_tokens": 99, "messages": [{"role": "user", "content": "one two"}]}
    answer = httpx2.post(f"{calm.url}/v1/messages", json=body, headers=headers, timeout=20)
    assert wire.read_message(answer).text == "one two"


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}])
def test_fact_03_a_thread_gets_the_error_that_makes_the_sdk_send_everything(
    caller: Caller, thread: dict[str, Any]
) -> None:
    answer = caller.messages("sim-echo", thread=thread)
    assert wire.read_error(answer)[:2] == (400, "invalid_request_error")
    details = answer.json()["error"]["details"]
    assert details == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


EXEC = {"type": "custom", "name": "exec", "description": "Runs a script.", "format": {"type": "text"}}
SLEEP = {"type": "function", "name": "sleep", "parameters": {"type": "object", "properties": {}}}
CARRIER = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [
        {"type": "namespace", "name": "functions", "description": "x", "tools": [EXEC]},
        {"type": "namespace", "name": "clock", "description": "x", "tools": [SLEEP]},
    ],
}


@STREAMED
def test_fact_04_tools_that_travel_as_an_item_are_called_in_their_own_form(caller: Caller, stream: bool) -> None:
    asked = {"role": "user", "content": 'CALLTOOL exec {"input":"text(1)"} END'}
    answer = caller.responses("sim-echo", [CARRIER, asked], stream=stream, parallel_tool_calls=False)
    [(call_id, name, script)] = read_response(answer).calls
    assert (name, script) == ("exec", "text(1)")
    assert '"type":"custom_tool_call"' in answer.text
    called = {"type": "custom_tool_call", "call_id": call_id, "name": "exec", "namespace": "functions", "input": script}
    output = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]
    result = {"type": "custom_tool_call_output", "call_id": call_id, "output": output}
    second = caller.responses("sim-tool", [CARRIER, asked, called, result], stream=stream)
    assert re.fullmatch(r"Result: one\s+two", read_response(second).text)


@STREAMED
def test_fact_04_a_tool_of_another_namespace_comes_back_in_it(caller: Caller, stream: bool) -> None:
    asked = {"role": "user", "content": "CALLTOOL clock__sleep {} END"}
    answer = caller.responses("sim-echo", [CARRIER, asked], stream=stream)
    assert [name for _, name, _ in read_response(answer).calls] == ["sleep"]
    assert '"namespace":"clock"' in answer.text


def test_fact_05_without_instructions_the_first_developer_message_is_the_system_prompt(caller: Caller) -> None:
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "The rules."}]},
        {"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    ]
    assert caller.ask("responses", "sim-system", items).text == "The rules."
    assert caller.ask("responses", "sim-system", items, instructions="First.").text == "First.\n\nThe rules."


def test_fact_06_a_websocket_gets_426_and_nothing_else(calm: House) -> None:
    answer = replay(calm.url, calm.key, load("codex-ws-handshake"))
    assert answer.status_code == 426
    assert answer.json()["error"]["type"] == "invalid_request_error"


@STREAMED
def test_fact_07_a_compaction_trigger_gives_exactly_one_item_of_compaction(caller: Caller, stream: bool) -> None:
    items: list[Any] = [{"role": "user", "content": "We chose blue."}, {"type": "compaction_trigger"}]
    answer = caller.responses("default", items, stream=stream, store=False)
    assert read_response(answer).signature
    if stream:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if "data: " in line]
        done = [event["item"]["type"] for event in events if event["type"] == "response.output_item.done"]
        assert done == ["compaction"]
    else:
        assert [item["type"] for item in answer.json()["output"]] == ["compaction"]


def test_fact_07_a_client_that_compacts_by_itself_sends_an_empty_list_of_tools(caller: Caller) -> None:
    assert caller.ask("responses", "sim-echo", "Sum it up", tools=[], stream=True).text == "Sum it up"


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_fact_08_every_version_of_googles_paths_and_either_spelling_serve(google: Google, version: str) -> None:
    body = {
        "contents": [{"role": "user", "parts": [{"text": "one two three"}]}],
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "generation_config": {"stop_sequences": ["three"], "thinkingConfig": {"thinking_budget": 0}, "topK": 3.0},
    }
    answer = google.post(f"/{version}/models/sim-echo:generateContent", body)
    assert answer.json()["candidates"][0]["content"]["parts"][0]["text"] == "one two "
    assert google.house.simulator.runs()[0]["system"] == "Be brief."


def test_fact_08_the_list_of_models_has_three_dialects(google: Google) -> None:
    url, key = f"{google.house.url}/v1/models", google.house.key
    openais = httpx2.get(url, headers={"authorization": f"Bearer {key}"}).json()
    anthropics = httpx2.get(url, headers={"x-api-key": key, "anthropic-version": "2023-06-01"}).json()
    assert openais["object"] == "list"
    assert "has_more" in anthropics
    for headers in ({"x-goog-api-key": key}, {"x-api-key": key, "x-goog-api-client": "google-genai-sdk/3.6.1"}):
        error_of(httpx2.get(url, headers=headers), 404, "NOT_FOUND")


@pytest.mark.parametrize("model", ["sim-echo", "sim-slow-20", "sim-think-5", "sim-error-internal-after-2"])
def test_fact_09_a_gemini_stream_is_data_lines_and_nothing_else(google: Google, model: str) -> None:
    answer = google.stream(model)
    chunks(answer)
    lines = [line for line in answer.content.split(b"\n") if line]
    assert all(line.startswith(b"data: {") for line in lines)


RESPONSES_EVENTS = {
    "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed",
    "response.output_item.added", "response.output_item.done", "response.content_part.added",
    "response.content_part.done", "response.output_text.delta", "response.output_text.done",
    "response.function_call_arguments.delta", "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
    "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
    "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done",
}  # fmt: skip
MESSAGES_EVENTS = {
    "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta",
    "content_block_stop", "ping", "error",
}  # fmt: skip


@pytest.mark.parametrize("model", ["sim-text-tool", "sim-think-5", "sim-tools-2", "sim-error-internal-after-2"])
def test_fact_10_no_stream_has_an_event_that_sdks_do_not_know(caller: Caller, model: str) -> None:
    thinking = {"messages": {"thinking": {"type": "adaptive"}}, "responses": {"reasoning": {"summary": "auto"}}}
    for protocol, known in (("messages", MESSAGES_EVENTS), ("responses", RESPONSES_EVENTS)):
        answer = caller.post(protocol, model, tools=tools(protocol, "a", "b"), stream=True, **thinking[protocol])
        assert set(re.findall(r"^event: (.*)$", answer.text, re.MULTILINE)) <= known
    assert "event:" not in caller.chat(model, tools=tools("chat", "a", "b"), stream=True).text


@pytest.mark.parametrize("model", ["sim-cut-3", "sim-reset-3", "sim-garbage-3"])
def test_fact_11_a_stream_that_breaks_off_ends_with_an_error_and_never_looks_whole(caller: Caller, model: str) -> None:
    chat = caller.ask("chat", model, stream=True)  # the reader demands finish and [DONE], or an error and neither
    assert (chat.finish, bool(chat.error)) == (None, True)
    assert caller.ask("messages", model, stream=True).error
    assert caller.ask("responses", model, stream=True).finish == "failed"


@pytest.mark.parametrize("model", ["sim-error-rate_limited", "sim-error-rate_limited_hint"])
@pytest.mark.parametrize("protocol", EVERY)
@STREAMED
def test_fact_12_a_429_always_says_when_to_come_back(
    house: House, caller: Caller, protocol: str, model: str, stream: bool
) -> None:
    answer = caller.post(protocol, model, stream=stream)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0


def test_fact_13_the_fallback_without_a_stream_works_with_its_large_limit(caller: Caller) -> None:
    answer = caller.messages("claude-opus-5-5", "Hello!", max_tokens=128_000, stream=False)
    assert wire.read_message(answer).finish == "end_turn"
    assert answer.headers["x-poolgate-ignored"] == "max_tokens"
    assert wire.read_error(caller.messages("no-such-model"))[:2] == (404, "not_found_error")


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "medium"}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024, "display": "updates"}},
        {"thinking": {"type": "disabled"}, "temperature": 1},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
        {"safeguards": {"auto": True}, "metadata": {"user_id": '{"device_id":"x","account_uuid":"","session_id":"y"}'}},
        {"tools": [{**tools("messages", "a")[0], "defer_loading": True, "eager_input_streaming": True}]},
    ],
)
def test_fact_14_nothing_that_claude_code_probes_for_is_a_400(caller: Caller, fields: dict[str, Any]) -> None:
    betas = "per-turn-control-2026-07-01,thinking-token-count-2026-05-13,something-new-2031-01-01"
    body = {"model": "sim-echo", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}], **fields}
    answer = caller.http.post("/v1/messages?beta=true", json=body, headers={"anthropic-beta": betas})
    assert wire.read_message(answer).text == "Hi"


@STREAMED
def test_fact_14_a_prompt_beyond_the_window_is_told_in_the_words_that_make_it_compact(
    caller: Caller, stream: bool
) -> None:
    answer = caller.messages("sim-echo", "word " * 250_000, stream=stream)
    assert wire.read_error(answer)[:2] == (400, "invalid_request_error")
    assert re.match(r"prompt is too long: \d+ tokens > 200000 maximum$", answer.json()["error"]["message"])


def test_fact_16_a_tool_reference_becomes_text_and_the_deferred_tool_stays(caller: Caller, calm: House) -> None:
    search, fetch = tools("messages", "ToolSearch", "WebFetch")
    use = {"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {"city": "x"}}
    found = {"type": "tool_reference", "tool_name": "WebFetch"}
    history = [
        {"role": "user", "content": "Look it up"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [found]}]},
    ]
    turn = caller.ask("messages", "sim-tool", history, tools=[search, {**fetch, "defer_loading": True}], stream=True)
    assert turn.text == "Result: The tool WebFetch is now available."
    assert [tool["tool_name"] for tool in calm.simulator.runs()[0]["tools"]] == ["ToolSearch", "WebFetch"]


def test_fact_17_claude_codes_pictures_are_shown_and_its_documents_noted(caller: Caller) -> None:
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}
    use = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [SHOT, document]}
    history = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    answer = caller.messages("sim-image", history)
    assert re.fullmatch(IS_A_PICTURE, wire.read_message(answer).text)
    assert answer.headers["x-poolgate-ignored"] == "tool_result.document"


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_fact_17_pictures_that_codex_gets_from_its_tools_are_shown(caller: Caller, kind: str) -> None:
    given = {"arguments": "{}"} if kind == "function_call" else {"input": "x"}
    items = [
        {"role": "user", "content": "Look."},
        {"type": kind, "call_id": "c1", "name": "view_image", **given},
        {"type": f"{kind}_output", "call_id": "c1", "output": [{"type": "input_text", "text": "here"}, PICTURE]},
    ]
    assert re.fullmatch(IS_A_PICTURE, caller.ask("responses", "sim-image", items).text)


@pytest.mark.parametrize("protocol", EVERY)
def test_fact_19_empty_lists_are_as_good_as_none(caller: Caller, calm: House, protocol: str) -> None:
    assert caller.ask(protocol, "sim-tool", tools=[], **limit(protocol, 99)).text == "No tool was declared."
    assert calm.simulator.runs()[0]["tools"] == []


def test_fact_19_google_clients_send_empty_lists_too(google: Google) -> None:
    assert google.ask("sim-echo", safetySettings=[], tools=[]).status_code == 200


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages", "/v1/chat/completions"])
def test_fact_20_headers_of_any_content_and_up_to_16_kilobytes_pass(caller: Caller, path: str) -> None:
    metadata = json.dumps({"turn_id": "", "workspaces": {"/w": {"has_changes": False}}, "filler": "x" * 15_000})
    headers = {"x-codex-turn-metadata": metadata, "x-stainless-timeout": "NOT_GIVEN", "x-stainless-retry-count": "?"}
    body: dict[str, Any] = {"model": "sim-echo", "client_metadata": {"x-codex-turn-metadata": metadata}}
    body |= {"input": "Hi"} if path.endswith("responses") else {"messages": [{"role": "user", "content": "Hi"}]}
    body |= {"max_tokens": 99} if path.endswith("messages") else {}
    assert caller.http.post(path, json=body, headers=headers).status_code == 200
