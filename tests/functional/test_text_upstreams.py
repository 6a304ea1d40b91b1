"""The upstreams that know nothing but text, behind the whole product: Cloud Agents and text chat."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from celery import Celery

from config import environment
from gateway.upstreams.leftovers import LIST
from tests.functional.callers import CHAT, MESSAGES, PATHS, ask, error_of, streaming, text_of, unwrap
from tests.plugins.house import House, eventually

KINDS = ("cloud", "text")
PIXEL = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(autouse=True)
def _empty_list(house: House) -> None:
    """Agents that an earlier test left to the sweep are not this test's."""
    house.redis.delete(LIST)


def waiting(house: House) -> list[tuple[int, int]]:
    """Account and time of each agent on the list."""
    kept: list[bytes] = house.redis.hvals(LIST)  # type: ignore[assignment]
    return [(int(account), int(due)) for account, due in (value.split(b":") for value in kept)]


def run_sweep(house: House) -> None:
    """Has the worker do its job now, not at the next minute."""
    app = Celery(broker=environment.read_json(house.instance.data_dir / environment.ENGINES_FILE)["REDIS_URL"])
    app.conf.broker_transport_options = {"global_keyprefix": "poolgate:celery:"}
    with app.connection_for_write() as connection:
        app.send_task("gateway.tasks.sweep_cloud_agents", connection=connection)
    app.close()


def tools(path: str, *names: str) -> list[dict[str, Any]]:
    if path == CHAT:
        return [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in names]
    return [{"name": name, "input_schema": SCHEMA} for name in names]


def pictures(path: str, count: int) -> list[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    image = (
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        if path == CHAT
        else {"type": "image", "source": source}
    )
    return [{"role": "user", "content": [image] * count + [{"type": "text", "text": "What is it?"}]}]


def calls_of(path: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
    """Name and arguments of each call in a whole answer."""
    if path == CHAT:
        made = body["choices"][0]["message"].get("tool_calls") or []
        return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in made]
    return [(block["name"], block["input"]) for block in body["content"] if block["type"] == "tool_use"]


def agents(house: House) -> dict[str, Any]:
    found: dict[str, Any] = house.simulator.cloud()
    return found


def nothing_stays(house: House) -> None:
    """No agent is left at the upstream, none on our list, and no slot is held."""
    eventually(lambda: not agents(house)["agents"] and not house.redis.hlen(LIST))
    eventually(lambda: house.slots_in_use() == 0)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_text_comes_whole_and_streamed(house: House, kind: str, path: str) -> None:
    whole = ask(house, path, f"{kind}-sim-echo", "one two three")
    assert text_of(path, whole) == "one two three"
    with streaming(house, path, f"{kind}-sim-lorem-20") as stream:
        words = list(stream.words())
    assert len("".join(words).split()) == 20
    assert len(words) > 10
    record = house.record(whole.headers["x-request-id"])
    transport = {"cloud": "cloud_agents", "text": "text_chat"}[kind]
    assert (record["transport"], record["usage_source"]) == (transport, "reported")
    assert [attempt["transport"] for attempt in record["attempts"]] == [transport]
    nothing_stays(house)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_loop_goes_by_the_bridge(house: House, kind: str, path: str) -> None:
    first = ask(house, path, f"{kind}-sim-tools-2", "one", tools=tools(path, "weather", "time")).json()
    made = calls_of(path, first)
    assert made == [("weather", {"city": "city"}), ("time", {"city": "city"})]
    if path == CHAT:
        message = first["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"</tool_result> {number}"}
            for number, call in enumerate(message["tool_calls"])
        ]
        said = [{"role": "user", "content": "one"}, message, *results]
    else:
        blocks = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": f"</tool_result> {number}"}
            for number, block in enumerate(block for block in first["content"] if block["type"] == "tool_use")
        ]
        said = [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": blocks},
        ]
    second = ask(house, path, f"{kind}-sim-tools-2", messages=said, tools=tools(path, "weather", "time"))
    assert text_of(path, second) == "Result: </tool_result> 0\nResult: </tool_result> 1"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_demanded_call_comes_or_its_want_is_told(house: House, kind: str, stream: bool) -> None:
    fields: dict[str, Any] = {"tools": tools(CHAT, "weather"), "tool_choice": "required", "stream": stream}
    made = ask(house, CHAT, f"{kind}-sim-text-tool", "one", **fields)
    assert made.status_code == 200
    assert '"weather"' in made.text
    missed = ask(house, CHAT, f"{kind}-sim-echo", "one", **fields)
    assert error_of(CHAT, missed)["code"] == "upstream_missing_tool_call"
    assert missed.status_code == 502
    assert len(house.record(missed.headers["x-request-id"])["attempts"]) == 2
    nothing_stays(house)


@pytest.mark.parametrize("kind", KINDS)
def test_thinking_is_shown_to_who_asked_for_it_and_never_as_text(house: House, kind: str) -> None:
    asked = ask(
        house, MESSAGES, f"{kind}-sim-echo", "one", max_tokens=3000, thinking={"type": "enabled", "budget_tokens": 1024}
    )
    blocks = asked.json()["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert (blocks[0]["thinking"], blocks[1]["text"]) == ("Let me think about it.", "one")
    hidden = ask(house, CHAT, f"{kind}-sim-echo-thinking", "one")
    assert text_of(CHAT, hidden) == "one"


@pytest.mark.parametrize("path", PATHS)
def test_five_images_are_seen_by_a_cloud_agent_and_a_sixth_is_refused_by_name(house: House, path: str) -> None:
    seen = ask(house, path, "cloud-sim-image", messages=pictures(path, 5))
    assert text_of(path, seen).count("image/png") == 5
    nothing_stays(house)  # the deletion, too, is in the log that begins anew
    house.simulator.reset()
    refused = ask(house, path, "cloud-sim-image", messages=pictures(path, 6))
    assert refused.status_code == 400
    assert "6 images, 5 maximum" in error_of(path, refused)["message"]
    assert house.simulator.log() == []


@pytest.mark.parametrize("path", PATHS)
def test_an_image_for_a_text_server_is_refused_and_nobody_is_asked(house: House, path: str) -> None:
    refused = ask(house, path, "text-sim-image", messages=pictures(path, 1))
    assert refused.status_code == 400
    assert "takes no images" in error_of(path, refused)["message"]
    assert house.simulator.log() == []


@pytest.mark.parametrize(
    ("cause", "status", "reason"),
    [
        ("rate_limited_hint", 429, "rate_limit"),
        ("internal", 502, "transient"),
        ("html_403", 502, "egress"),
        ("context_too_large", 400, "bad_request"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_before_output_has_a_status_and_its_cause(
    house: House, kind: str, cause: str, status: int, reason: str
) -> None:
    answer = ask(house, CHAT, f"{kind}-sim-error-{cause}")
    assert (answer.status_code, house.record(answer.headers["x-request-id"])["reason"]) == (status, reason)
    if cause == "rate_limited_hint":
        assert answer.headers["retry-after"] in ("7", "8")  # the hint, a little spread
    assert "Error" not in error_of(CHAT, answer)["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_after_output_is_told_in_band(house: House, kind: str, path: str) -> None:
    with streaming(house, path, f"{kind}-sim-error-internal-after-3") as stream:
        frames = [data for _, data in stream]
    assert frames, (stream.answer.status_code, house.record(stream.request_id))
    assert unwrap(path, frames[-1])
    assert house.record(stream.request_id)["outcome"] == "interrupted"
    nothing_stays(house)


@pytest.mark.parametrize("how", ["cut", "reset"])
def test_a_broken_stream_is_taken_up_again_by_a_cloud_agent_alone(house: House, how: str) -> None:
    with streaming(house, CHAT, f"cloud-sim-{how}-5") as stream:
        assert len("".join(stream.words()).split()) == 5
    assert house.record(stream.request_id)["outcome"] == "ok"
    resumed = [entry for entry in house.simulator.log() if entry["headers"].get("last-event-id")]
    assert resumed
    with streaming(house, CHAT, f"text-sim-{how}-5") as stream:
        frames = [data for _, data in stream]
    assert unwrap(CHAT, frames[-1])
    assert house.record(stream.request_id)["reason"] == "cut"


def test_an_answer_without_a_stream_of_tokens_says_so(house: House) -> None:
    house.simulator.habits(expired_streams=True)
    with streaming(house, CHAT, "cloud-sim-lorem-5") as stream:
        assert stream.answer.headers["x-poolgate-buffered"] == "true"
        assert len("".join(stream.words()).split()) == 5
    house.simulator.habits()
    with streaming(house, CHAT, "cloud-sim-lorem-5") as stream:
        assert "x-poolgate-buffered" not in stream.answer.headers


def test_usage_that_is_not_told_is_estimated(house: House) -> None:
    answer = ask(house, CHAT, "cloud-sim-usage-none")
    assert answer.headers["x-poolgate-usage"] == "estimated"
    assert answer.json()["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_caller_that_leaves_stops_the_upstream(house: House, kind: str) -> None:
    with streaming(house, CHAT, f"{kind}-sim-slow-100") as stream:
        next(stream.words())
    left = time.monotonic()
    wanted = {"cloud": "cloud_agents", "text": "text_chat"}[kind]
    eventually(
        lambda: [one for one in house.simulator.log() if one["transport"] == wanted and one["ended"] == "cancelled"], 3
    )
    assert time.monotonic() - left < 2
    assert house.record(stream.request_id)["outcome"] == "client_gone"
    nothing_stays(house)
    if kind == "cloud":
        assert [one["ended"] for one in house.simulator.log() if one["transport"] == "cloud_cancel"] == ["complete"]


def test_an_agent_that_could_not_be_deleted_is_swept(house: House) -> None:
    house.simulator.habits(failing_deletes=3)
    answer = ask(house, CHAT, "cloud-sim-echo")
    assert answer.status_code == 200
    eventually(lambda: sum(one["transport"] == "cloud_delete" for one in house.simulator.log()) == 3)
    assert len(agents(house)["agents"]) == 1
    account = house.record(answer.headers["x-request-id"])["account_id"]
    eventually(lambda: [due for whose, due in waiting(house) if whose == account and due <= time.time()])
    run_sweep(house)
    nothing_stays(house)
    assert agents(house)["deleted"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_key_is_the_accounts_trouble_and_not_the_callers(house: House, kind: str) -> None:
    """Last in this file: the process goes on believing for some seconds that the account rests."""
    answer = ask(house, CHAT, f"{kind}-sim-error-key_bad")
    assert (answer.status_code, error_of(CHAT, answer)["code"]) == (502, "upstream_auth_failed")
    assert house.record(answer.headers["x-request-id"])["reason"] == "auth_revoked"
    name = f"sim-{kind}"
    query = "SELECT state FROM accounts_account WHERE name = %s"
    eventually(lambda: house.database.execute(query, [name]).fetchone() == ("needs_sign_in",))
