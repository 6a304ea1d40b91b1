"""The Gemini endpoints over sockets, as plain HTTP sees them, with the gate open."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.gemini import HI, REFUSED
from tests.plugins.gemini import Google, asked, chunks, detail, error_of, text_of
from tests.plugins.house import House

FIXTURES = Path(__file__).parents[1] / "fixtures" / "clients"
CLIENT_FILES = sorted(
    path
    for path in FIXTURES.glob("*.json")
    if b"x-goog-api-key" in path.read_bytes() and b'"contents"' in path.read_bytes()
)

CURL = """
curl "$BASE_URL/v1beta/models/gemini-2.5-flash:generateContent" \\
  -H "x-goog-api-key: $SUB2API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{
    "systemInstruction": {"parts": [{"text": "Answer concisely."}]},
    "contents": [{"role": "user", "parts": [{"text": "Explain SSE."}]}]
  }'
"""
CURL_STREAM = """
curl -N "$BASE_URL/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse" \\
  -H "x-goog-api-key: $SUB2API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"contents":[{"role":"user","parts":[{"text":"Say hello"}]}]}'
"""


def curl(house: House, command: str) -> bytes:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed here")
    variables = {**os.environ, "BASE_URL": house.url, "SUB2API_KEY": house.key}
    done = subprocess.run(["bash", "-c", command], env=variables, capture_output=True, check=True, timeout=60)
    return done.stdout


def test_the_seeds_first_example_works_as_it_is_written(google: Google) -> None:
    body = orjson.loads(curl(google.house, CURL))
    (candidate,) = body["candidates"]
    assert candidate["content"]["role"] == "model"
    assert candidate["content"]["parts"][0]["text"]
    assert (candidate["finishReason"], candidate["index"]) == ("STOP", 0)
    assert body["modelVersion"] == "gemini-2.5-flash"
    assert body["responseId"]
    usage = body["usageMetadata"]
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["candidatesTokenCount"] > 0


def test_the_seeds_second_example_works_as_it_is_written(google: Google) -> None:
    *frames, rest = curl(google.house, CURL_STREAM).split(b"\n\n")
    assert rest == b""
    *streamed, last = [orjson.loads(frame.removeprefix(b"data: ")) for frame in frames]
    assert text_of(streamed)
    assert last["candidates"] == [{"finishReason": "STOP", "index": 0}]
    assert last["usageMetadata"]["totalTokenCount"] > 0


def test_criterion_1_plain_text_reaches_the_upstream_whole(google: Google) -> None:
    answer = google.ask(
        "sim-system", "Hi", systemInstruction={"parts": [{"text": "Be brief."}, {"text": "In English."}]}
    )
    assert answer.status_code == 200
    assert "Be brief.\n\nIn English." in answer.json()["candidates"][0]["content"]["parts"][0]["text"]


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_criterion_2_the_stream_adds_up_to_the_whole_answer(google: Google, version: str) -> None:
    path = f"/{version}/models/sim-echo"
    whole = google.post(f"{path}:generateContent", asked("one two three")).json()
    streamed = chunks(google.post(f"{path}:streamGenerateContent?alt=sse", asked("one two three")))
    assert text_of(streamed) == text_of([whole]) == "one two three"
    assert len(streamed) == 4
    assert streamed[-1]["candidates"] == [{"finishReason": "STOP", "index": 0}]
    assert streamed[-1]["usageMetadata"] == whole["usageMetadata"]


def test_criterion_11_a_call_in_the_history_is_refused(google: Google) -> None:
    call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": "{city:"}}]}
    error = error_of(
        google.post("/v1beta/models/sim-echo:generateContent", {"contents": [*HI, call]}), 400, "INVALID_ARGUMENT"
    )
    (violation,) = detail(error, "BadRequest")["fieldViolations"]
    assert violation["field"] == "contents[1].parts[0].functionCall"


@pytest.mark.parametrize(("fields", "field"), REFUSED)
def test_criterion_12_what_is_not_served_is_refused_without_asking_an_account(
    google: Google, fields: dict[str, Any], field: str
) -> None:
    before = google.house.simulator.accounts()
    for action in ("generateContent", "streamGenerateContent?alt=sse"):
        answer = google.post(f"/v1beta/models/sim-echo:{action}", {"contents": HI, **fields})
        error = error_of(answer, 400, "INVALID_ARGUMENT")
        assert detail(error, "BadRequest")["fieldViolations"][0]["field"] == field
        assert detail(error, "ErrorInfo")["domain"] == "gateway"
    assert google.house.simulator.log() == []
    assert google.house.simulator.accounts() == before


def test_a_refusal_is_the_requests_own_and_marks_no_account(google: Google) -> None:
    answer = google.post("/v1beta/models/sim-echo:generateContent", {"contents": HI, "tools": [{"googleSearch": {}}]})
    record = google.house.record(answer.headers["x-request-id"])
    assert (record["outcome"], record["status"], record["culprit"]) == ("client_error", 400, "caller")
    assert (record["protocol"], record["code"]) == ("gemini", "unsupported_feature")
    assert (record["attempts"], record["account_id"]) == ([], None)
    assert google.house.redis.keys("poolgate:cool:*") == []
    assert google.house.slots_in_use() == 0


@pytest.mark.parametrize("path", CLIENT_FILES, ids=[path.stem for path in CLIENT_FILES])
def test_a_recorded_request_is_refused_as_documented_and_completes_a_turn_without_its_tools(
    google: Google, path: Path
) -> None:
    recorded = orjson.loads(path.read_bytes())
    kept = {"x-goog-api-client", "user-agent", "content-type", "x-server-timeout"}
    headers = {name: value for name, value in recorded["headers"] if name.lower() in kept} | google.key
    url = recorded["path"] + ("?" + recorded["query"] if recorded["query"] else "")
    served = not recorded["path"].endswith(":countTokens")
    error_of(
        google.post(url, recorded["body"], headers), *((400, "INVALID_ARGUMENT") if served else (404, "NOT_FOUND"))
    )
    assert google.house.simulator.log() == []
    if not served:
        return
    body = {name: value for name, value in recorded["body"].items() if name not in ("tools", "toolConfig")}
    body["contents"] = body["contents"][:1]
    answer = google.post(url, body, headers)
    whole = chunks(answer) if "stream" in url else [answer.json()]
    assert whole[-1]["modelVersion"] in url
    assert text_of(whole)
    assert whole[-1]["candidates"][0]["finishReason"] in ("STOP", "MAX_TOKENS")


def test_limits_of_the_caller_are_kept_here(google: Google) -> None:
    stopped = google.ask("sim-echo", generationConfig={"stopSequences": ["three"]}).json()["candidates"][0]
    assert (stopped["content"]["parts"], stopped["finishReason"]) == ([{"text": "one two "}], "STOP")
    cut = chunks(google.stream("sim-lorem-50", generationConfig={"maxOutputTokens": 5}))
    assert cut[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert len(text_of(cut).split()) < 10


def test_thinking_is_hidden_unless_asked_for(google: Google) -> None:
    hidden = chunks(google.stream("sim-think-3"))
    assert text_of(hidden, thought=True) == ""
    shown = chunks(google.stream("sim-think-3", generationConfig={"thinkingConfig": {"includeThoughts": True}}))
    assert text_of(shown, thought=True)
    assert text_of(shown) == text_of(hidden) != ""
    whole = google.ask("sim-think-3", generation_config={"thinking_config": {"include_thoughts": True}}).json()
    assert text_of([whole], thought=True) == text_of(shown, thought=True)


def test_knobs_without_effect_are_listed(google: Google) -> None:
    answer = google.ask("sim-echo", labels={"a": "b"}, generationConfig={"temperature": 0.1, "topK": 3.0})
    assert answer.headers["x-poolgate-ignored"] == "labels,generationConfig.temperature,generationConfig.topK"
    record = google.house.record(answer.headers["x-request-id"])
    assert list(record["ignored"]) == ["labels", "generationConfig.temperature", "generationConfig.topK"]


@pytest.mark.parametrize("model", ["models/sim-echo", "models%2Fsim-echo", "sim%2Decho", "sim-echo"])
def test_a_model_may_be_a_resource_name_or_percent_encoded(google: Google, model: str) -> None:
    assert google.ask(model).json()["modelVersion"] == "sim-echo"


def test_a_body_that_is_no_json_object_is_refused(google: Google) -> None:
    for content in (b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"contents":'):
        answer = google.http.post("/v1beta/models/sim-echo:generateContent", content=content, headers=google.key)
        error_of(answer, 400, "INVALID_ARGUMENT")
    assert google.house.simulator.log() == []
