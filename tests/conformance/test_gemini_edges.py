"""The edges of the Gemini endpoints: the gate, keys, what is not there, silence, and failures of every stage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from tests.gemini import HI
from tests.plugins.gemini import Google, asked, chunks, detail, error_of, text_of
from tests.plugins.house import House, eventually

ACTION = "/v1beta/models/sim-echo:generateContent"
SURFACE = [
    ("POST", ACTION),
    ("POST", "/v1/models/sim-echo:generateContent"),
    ("POST", "/v1alpha/models/sim-echo:streamGenerateContent?alt=sse"),
    ("GET", ACTION),
    ("POST", "/v1beta/models/sim-echo:countTokens"),
    ("GET", "/v1beta/models"),
    ("GET", "/v1beta/files"),
    ("POST", "/upload/v1beta/files"),
]
METHODS = [
    "countTokens", "embedContent", "batchEmbedContents", "asyncBatchEmbedContent", "batchGenerateContent",
    "predict", "predictLongRunning", "bidiGenerateContent",
]  # fmt: skip
RESOURCES = [
    "/v1beta/models", "/v1beta/models/gemini-2.5-flash", "/v1beta/files", "/upload/v1beta/files",
    "/v1beta/cachedContents", "/v1beta/tunedModels", "/v1beta/corpora", "/v1beta/batches", "/v1alpha/models",
    "/v1beta", "/v1/models", "/v1/models/gemini-2.5-flash", "/v1/files",
]  # fmt: skip
ACCOUNTS = ("alpha", "beta", "gamma")


@pytest.mark.parametrize(("method", "path"), SURFACE)
def test_with_the_gate_shut_nothing_of_google_is_there(house: House, method: str, path: str) -> None:
    answer = httpx2.request(method, house.url + path, json={"contents": HI}, headers={"x-goog-api-key": house.key})
    error = error_of(answer, 404, "NOT_FOUND")
    assert detail(error, "ErrorInfo")["reason"] == "GEMINI_NATIVE_DISABLED"
    assert house.simulator.log() == []


def test_the_gate_changes_the_answer_within_a_second_and_nothing_else(house: House) -> None:
    def status(path: str, body: dict[str, Any]) -> int:
        headers = {"authorization": f"Bearer {house.key}"}
        return httpx2.post(house.url + path, json=body, headers=headers, timeout=30).status_code

    chat = {"model": "sim-echo", "messages": [{"role": "user", "content": "Hi"}]}
    for value, code in ((True, 200), (False, 404), (True, 200)):
        house.manage("settings", "set", "gemini_native_enabled", str(value))
        eventually(lambda expected=code: status(ACTION, {"contents": HI}) == expected, 1)  # type: ignore[misc]
        assert status("/v1/chat/completions", chat) == 200
    house.set(gemini_native_enabled=False)


@pytest.mark.parametrize("name", ["x-goog-api-key", "x-api-key", "api-key", "authorization"])
def test_a_key_is_taken_from_every_header(google: Google, name: str) -> None:
    key = google.house.key
    headers = {name: f"Bearer {key}" if name == "authorization" else key}
    assert google.post(ACTION, headers=headers).status_code == 200


def test_a_key_in_the_query_is_taken_here_and_nowhere_else(google: Google) -> None:
    key = google.house.key
    assert google.post(f"{ACTION}?key={key}", headers={}).status_code == 200
    assert google.post(f"/v1/models/sim-echo:streamGenerateContent?key={key}&alt=sse", headers={}).status_code == 200
    chat = {"model": "sim-echo", "messages": [{"role": "user", "content": "Hi"}]}
    assert google.post(f"/v1/chat/completions?key={key}", chat, {}).status_code == 401
    assert google.http.get(f"/v1/models?key={key}").status_code == 401


@pytest.mark.parametrize("headers", [{}, {"x-goog-api-key": "test-key"}, {"x-goog-api-key": "pg_demo_AAAAAAAA_x_y"}])
def test_a_bad_key_is_unauthenticated(google: Google, headers: dict[str, str]) -> None:
    error = error_of(google.post(ACTION, headers=headers), 401, "UNAUTHENTICATED")
    assert detail(error, "ErrorInfo")["reason"] == "API_KEY_INVALID"
    error_of(google.post(f"{ACTION}?key=nonsense", headers={}), 401, "UNAUTHENTICATED")
    assert google.house.simulator.log() == []


@pytest.mark.parametrize("method", METHODS)
def test_other_methods_are_not_found(google: Google, method: str) -> None:
    for version in ("v1", "v1beta"):
        error = error_of(google.post(f"/{version}/models/sim-echo:{method}"), 404, "NOT_FOUND")
        assert error["message"] == f"Method {method} is not supported for models/sim-echo."
        assert detail(error, "ErrorInfo")["metadata"] == {"method": method}


@pytest.mark.parametrize("path", RESOURCES)
def test_other_resources_are_not_found(google: Google, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        error_of(google.http.request(method, path, headers=google.key), 404, "NOT_FOUND")


def test_the_catalogue_keeps_its_two_other_dialects(google: Google) -> None:
    bearer = {"authorization": f"Bearer {google.house.key}"}
    assert google.http.get("/v1/models", headers=bearer).json()["object"] == "list"
    anthropic = google.key | {"anthropic-version": "2023-06-01"}
    assert "has_more" in google.http.get("/v1/models", headers=anthropic).json()


@pytest.mark.parametrize("path", [ACTION, "/v1/models/sim-echo:streamGenerateContent?alt=sse"])
def test_an_action_takes_posts_only(google: Google, path: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = google.http.request(method, path)
        error_of(answer, 405, "INVALID_ARGUMENT")
        assert answer.headers["allow"] == "POST"


def test_a_url_without_alt_or_model_is_refused_by_name(google: Google) -> None:
    error = error_of(google.post("/v1beta/models/sim-echo:streamGenerateContent"), 400, "INVALID_ARGUMENT")
    assert detail(error, "BadRequest")["fieldViolations"][0]["field"] == "alt"
    error = error_of(google.post("/v1beta/models/:generateContent"), 400, "INVALID_ARGUMENT")
    assert detail(error, "BadRequest")["fieldViolations"][0]["field"] == "model"


def test_an_unknown_model_is_not_found(google: Google) -> None:
    error_of(google.ask("no-such-model"), 404, "NOT_FOUND")
    assert google.house.simulator.log() == []


def test_a_body_over_the_limit_is_a_413_with_the_number(google: Google) -> None:
    google.house.set(max_body_bytes=2048)
    try:
        error = error_of(google.ask("sim-echo", "x" * 3000), 413, "INVALID_ARGUMENT")
        assert "2048" in error["message"]
    finally:
        google.house.set(max_body_bytes=32 * 1024 * 1024)


def test_a_prompt_budget_counts_bytes_and_the_limit_itself_passes(google: Google) -> None:
    google.house.set(max_prompt_bytes=1024)
    try:
        assert google.ask("sim-echo", "語" * 341 + "x").status_code == 200
        error = error_of(google.ask("sim-echo", "語" * 341 + "xx"), 413, "INVALID_ARGUMENT")
        assert "1025" in error["message"]
        assert "1024" in error["message"]
    finally:
        google.house.set(max_prompt_bytes=1_500_000)


def test_a_prompt_beyond_the_window_names_contents(google: Google) -> None:
    error = error_of(google.ask("sim-echo", "語" * 400_000), 400, "INVALID_ARGUMENT")
    assert error["message"].startswith("prompt is too long: ")
    assert detail(error, "BadRequest")["fieldViolations"][0]["field"] == "contents"


def test_silence_sends_no_byte_and_no_head(google: Google) -> None:
    google.house.set(keepalive_interval=0.1)
    try:
        path = "/v1beta/models/sim-slow-700:streamGenerateContent?alt=sse"
        began = time.monotonic()
        with google.http.stream("POST", path, json=asked("Hi"), headers=google.key) as answer:
            waited = time.monotonic() - began
            content = b""
            for piece in answer.iter_raw():
                content += piece
                if content.count(b"\n\n") >= 3:
                    break
    finally:
        google.house.set(keepalive_interval=10)
    assert waited > 0.6
    lines = [line for line in content.split(b"\n") if line]
    assert len(lines) >= 3
    assert all(line.startswith(b"data: {") for line in lines)


def test_a_silent_upstream_still_ends_with_a_status(google: Google) -> None:
    google.house.set(keepalive_interval=0.1, first_token_timeout=1, last_attempt_extra=0, max_attempts=1)
    try:
        error_of(google.stream("sim-hang"), 504, "DEADLINE_EXCEEDED")
    finally:
        google.house.set(keepalive_interval=10, first_token_timeout=120, last_attempt_extra=60, max_attempts=3)


def test_a_failure_in_the_middle_is_a_data_line_and_the_end(google: Google) -> None:
    answer = google.stream("sim-cut-3")
    *streamed, last = chunks(answer)
    assert text_of(streamed)
    assert not any("finishReason" in chunk["candidates"][0] for chunk in streamed)
    assert (last["error"]["code"], last["error"]["status"]) == (502, "UNAVAILABLE")
    record = google.house.record(answer.headers["x-request-id"])
    assert (record["outcome"], record["protocol"]) == ("interrupted", "gemini")


@pytest.mark.parametrize("action", ["generateContent", "streamGenerateContent?alt=sse"])
def test_a_pace_limit_tells_how_long_to_wait(house: House, google: Google, action: str) -> None:
    for name in ACCOUNTS:
        house.simulator.fault(name, "rate_limited_hint")
    answer = google.post(f"/v1beta/models/sim-echo:{action}")
    error = error_of(answer, 429, "RESOURCE_EXHAUSTED")
    assert int(answer.headers["retry-after"]) >= 1
    assert detail(error, "RetryInfo")["retryDelay"] == f"{answer.headers['retry-after']}s"


def test_no_account_is_unavailable(house: House, google: Google) -> None:
    house.database.execute("UPDATE accounts_account SET enabled = false")
    house.redis.publish("poolgate:snapshot", str(house.redis.incr("poolgate:snapshot:version")))
    time.sleep(0.5)
    answer = google.ask("sim-echo")
    house.reset()
    error_of(answer, 503, "UNAVAILABLE")
    assert int(answer.headers["retry-after"]) >= 1


def test_an_account_level_fault_before_the_first_chunk_is_not_seen(house: House, google: Google) -> None:
    house.simulator.fault("alpha", "rate_limited")
    house.simulator.fault("beta", "rate_limited")
    assert text_of(chunks(google.stream("sim-echo"))) == "one two three"


CANARIES = {
    "text": "canaryprompt", "system": "canarysystem", "model": "canarymodel", "stop": "canarystop",
    "label": "canarylabel", "data": "canarydata", "field": "canaryfield", "query": "canaryquery",
}  # fmt: skip


def test_nothing_that_a_caller_wrote_is_kept_or_logged(google: Google) -> None:
    house = google.house
    printed = len(house.instance.output)  # at its start it shows the demo's key, on purpose
    served = {
        "contents": [{"parts": [{"text": CANARIES["text"]}]}],
        "systemInstruction": {"parts": [{"text": CANARIES["system"]}]},
        "generationConfig": {"stopSequences": [CANARIES["stop"]]},
        "labels": {CANARIES["label"]: CANARIES["label"]},
    }
    inline = [{"parts": [{"inlineData": {"mimeType": "image/png", "data": CANARIES["data"]}}]}]
    query = f"key={house.key}&{CANARIES['query']}={CANARIES['query']}"
    answers = [
        google.post(f"{ACTION}?{query}", served, {}),
        google.post(f"/v1beta/models/sim-cut-2:streamGenerateContent?alt=sse&{query}", served, {}),
        google.post(f"{ACTION}?{query}", {"contents": inline}, {}),
        google.post(f"{ACTION}?{query}", {"contents": HI, f"{CANARIES['field']} x": 1}, {}),
        google.post(f"/v1beta/models/{CANARIES['model']}:generateContent?{query}", served, {}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 400, 400, 404]
    records = [house.record(answer.headers["x-request-id"]) for answer in answers]
    assert records[-1]["endpoint"] == "/v1beta/models/{model}:generateContent"
    kept = repr(records) + house.instance.output[printed:] + "".join(answer.text for answer in answers[2:])
    logs = [path for path in Path(house.instance.data_dir).rglob("*.log*") if path.is_file()]
    kept += "".join(path.read_text(errors="replace") for path in logs)
    kept += httpx2.get(house.instance.ready["metrics_url"], headers=metrics_auth(house)).text
    assert len(kept) > 1000
    assert [word for word in (*CANARIES.values(), house.key) if word in kept] == []
    for entry in house.redis.scan_iter(count=1000):
        assert not any(word.encode() in _dumped(house, entry) for word in (*CANARIES.values(), house.key))


def metrics_auth(house: House) -> dict[str, str]:
    return {"authorization": f"Bearer {house.instance.ready['metrics_token']}"}


def _dumped(house: House, key: bytes) -> bytes:
    """A key's value as Redis would save it, and its name."""
    return key + (house.redis.dump(key) or b"")


def test_the_request_id_is_on_every_answer(google: Google) -> None:
    for answer in (google.ask("sim-echo"), google.stream("sim-echo"), google.post(ACTION, headers={})):
        assert answer.headers["x-request-id"].startswith("req_")
    body = google.ask("sim-echo")
    assert orjson.loads(body.content)["responseId"] == body.headers["x-request-id"].removeprefix("req_")
