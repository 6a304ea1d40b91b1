"""The simulator's Cloud Agents and text chat faces are as strict as the real ones."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import httpx2
import pytest

from tests.plugins.simulator import Simulator

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def call(
    simulator: Simulator, method: str, path: str, body: object = None, key: str = "crsr_sim_cloud", **more: str
) -> Any:
    headers = {"authorization": f"Bearer {key}", **more}
    content = json.dumps(body).encode() if body is not None else None
    return httpx2.request(method, simulator.url + path, headers=headers, content=content, timeout=10)


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def order(**more: object) -> dict[str, object]:
    return {"prompt": {"text": "Say hi"}, "repos": [], "mode": "agent", "model": {"id": "sim-lorem-3"}, **more}


def make(simulator: Simulator, **more: object) -> tuple[str, str]:
    answer = call(simulator, "POST", "/v1/agents", order(**more))
    assert answer.status_code == 201, answer.text
    return answer.json()["agent"]["id"], answer.json()["run"]["id"]


def events(raw: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Id, event and data of each frame."""
    found = []
    for frame in raw.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n"))
        found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"prompt": {"text": " "}}, (400, "validation_error")),
        ({"prompt": {}}, (400, "validation_error")),
        ({"prompt": {"text": "x", "images": [{"data": PNG, "mimeType": "image/png"}] * 6}}, (400, "validation_error")),
        ({"prompt": {"text": "x", "images": [{"data": "!", "mimeType": "image/png"}]}}, (400, "validation_error")),
        ({"prompt": {"text": "x", "images": [{"data": PNG, "mimeType": "image/tiff"}]}}, (400, "validation_error")),
        ({"prompt": {"text": "x", "images": [{"mimeType": "image/png"}]}}, (400, "validation_error")),
        ({"model": {}}, (400, "validation_error")),
        ({"model": {"id": "gpt-17"}}, (400, "invalid_model")),
        ({"model": {"id": "sim-echo", "params": [{"id": "thinking", "value": "true"}]}}, (400, "invalid_model")),
        ({"model": {"id": "sim-echo", "params": [{"id": "speed", "value": "1"}]}}, (400, "invalid_model")),
        ({"repos": [{"url": "https://example.com/x"}]}, (403, "repository_access")),
        ({"mode": "ask"}, (400, "validation_error")),
        ({"agentId": "mine"}, (400, "validation_error")),
        ({"surprise": 1}, (400, "validation_error")),
    ],
)
def test_an_order_that_breaks_a_rule_is_refused(
    simulator: Simulator, change: dict[str, object], expected: tuple[int, str]
) -> None:
    assert code(call(simulator, "POST", "/v1/agents", order() | change)) == expected
    assert simulator.cloud()["made"] == 0


def test_a_body_a_key_and_ids_are_needed(simulator: Simulator) -> None:
    assert code(call(simulator, "POST", "/v1/agents")) == (400, "missing_body")
    assert code(call(simulator, "POST", "/v1/agents", order(), key="crsr_wrong")) == (401, "unauthorized")
    assert code(call(simulator, "DELETE", "/v1/agents/bc-1")) == (404, "agent_not_found")
    agent, run = make(simulator)
    assert code(call(simulator, "GET", f"/v1/agents/{agent}/runs/run-1")) == (404, "run_not_found")
    assert code(call(simulator, "GET", f"/v1/agents/{agent}/runs/{run}", key="crsr_sim_alpha")) == (
        404,
        "agent_not_found",
    )


def test_an_agent_id_is_taken_once(simulator: Simulator) -> None:
    chosen = f"bc-{uuid.uuid4()}"
    assert make(simulator, agentId=chosen)[0] == chosen
    assert code(call(simulator, "POST", "/v1/agents", order(agentId=chosen))) == (409, "agent_id_conflict")


def test_an_agent_runs_one_thing_at_a_time_and_what_is_over_cannot_be_cancelled(simulator: Simulator) -> None:
    agent, run = make(simulator, model={"id": "sim-hang"})
    more = {"prompt": {"text": "And now?"}}
    assert code(call(simulator, "POST", f"/v1/agents/{agent}/runs", more)) == (409, "agent_busy")
    assert call(simulator, "POST", f"/v1/agents/{agent}/runs/{run}/cancel", {}).status_code == 200
    assert code(call(simulator, "POST", f"/v1/agents/{agent}/runs/{run}/cancel", {})) == (409, "run_not_cancellable")
    assert call(simulator, "GET", f"/v1/agents/{agent}/runs/{run}").json()["status"] == "CANCELLED"


def test_a_stream_has_ids_and_twins_and_repeats_its_last_frame_when_resumed(simulator: Simulator) -> None:
    agent, run = make(simulator)
    path = f"/v1/agents/{agent}/runs/{run}/stream"
    whole = events(call(simulator, "GET", path).text)
    assert whole[0][:2] == ("", "status")
    assert whole[-1][:2] == ("", "done")
    assert [kind for _, kind, _ in whole if kind in ("assistant", "interaction_update")] == [
        "assistant", "interaction_update", "interaction_update", "assistant", "assistant", "interaction_update",
    ]  # fmt: skip
    second = [identifier for identifier, kind, _ in whole if kind == "assistant"][1]
    resumed = events(call(simulator, "GET", path, **{"last-event-id": second}).text)
    assert [data["text"] for _, kind, data in resumed if kind == "assistant"] == ["ipsum ", "dolor "]
    assert code(call(simulator, "GET", path, **{"last-event-id": "17-x"})) == (400, "invalid_last_event_id")


def test_trouble_can_be_ordered_for_deletions_streams_and_usage(simulator: Simulator) -> None:
    agent, run = make(simulator)
    simulator.habits(failing_deletes=1, refused_streams=1, told_usage=False)
    assert code(call(simulator, "GET", f"/v1/agents/{agent}/runs/{run}/stream")) == (503, "stream_unavailable")
    assert call(simulator, "GET", f"/v1/agents/{agent}/runs/{run}/stream").status_code == 200
    assert code(call(simulator, "GET", f"/v1/agents/{agent}/usage")) == (403, "feature_unavailable")
    assert call(simulator, "DELETE", f"/v1/agents/{agent}").status_code == 500
    assert call(simulator, "DELETE", f"/v1/agents/{agent}").json() == {"id": agent}
    simulator.habits(expired_streams=True)
    agent, run = make(simulator)
    assert code(call(simulator, "GET", f"/v1/agents/{agent}/runs/{run}/stream")) == (410, "stream_expired")
    with pytest.raises(ValueError, match="habits are"):
        simulator.habits(biting=True)


def test_models_are_listed_with_variants_of_which_one_is_the_default(simulator: Simulator) -> None:
    items = call(simulator, "GET", "/v1/models").json()["items"]
    variants = next(item for item in items if item["id"] == "gpt-5.2")["variants"]
    assert sum(variant["isDefault"] for variant in variants) == 1
    assert {len(variant["params"]) for variant in variants} == {4}


def said(text: str = "Hi", **change: object) -> dict[str, object]:
    messages = [{"role": "user", "parts": [{"type": "text", "text": text}]}]
    usual = {"context": [], "model": "sim-echo", "id": "0" * 16, "trigger": "submit-message", "messages": messages}
    return usual | change


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": [{"role": "user", "parts": [{"type": "image", "image": "x"}]}]},
        {"messages": [{"role": "tool", "parts": [{"type": "text", "text": "x"}]}]},
        {"id": "1"},
        {"trigger": "regenerate"},
        {"temperature": 1},
    ],
)
def test_text_chat_takes_its_shape_and_nothing_else(simulator: Simulator, change: dict[str, object]) -> None:
    answer = call(simulator, "POST", "/api/chat", said() | change, key="crsr_sim_text")
    assert code(answer) == (400, "validation_error")


def test_text_chat_streams_deltas_and_ends_with_usage(simulator: Simulator) -> None:
    lines = call(simulator, "POST", "/api/chat", said("one two"), key="crsr_sim_text").text.strip().split("\n\n")
    assert lines[-1] == "data: [DONE]"
    found = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert "".join(one["delta"] for one in found if one["type"] == "text-delta") == "one two"
    assert found[-1]["messageMetadata"]["usage"] == {"inputTokens": 2, "outputTokens": 2, "totalTokens": 4}
    assert code(call(simulator, "POST", "/api/chat", said(), key="crsr_wrong")) == (401, "unauthorized")
