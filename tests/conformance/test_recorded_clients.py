"""Requests of real clients, as they were recorded, over the socket: headers and body as the client sent them, only the
key and the model are ours. Accepted ones complete a turn; the others are refused for the reason in the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conformance import wire
from tests.plugins.house import House

FOLDER = Path(__file__).parents[1] / "fixtures" / "clients"
PATHS = ("/v1/chat/completions", "/v1/messages")
MODEL = "default"  # the recorded names are the clients' own defaults

# The documented refusals: (code on Chat, what the message names).
REFUSED = {
    "anthropic-python-image-document-thinking": ("", "messages.0.content.1"),
    "anthropic-python-server-tools-mcp": ("", "mcp_servers"),
    "anthropic-python-tool-runner-thread-continue": ("", "thread"),
    "anthropic-python-tool-runner-thread-create": ("", "thread"),
    "claude-code-tui-title": ("", "output_config.format"),
    "claude-code-web-search-subrequest": ("", "tools.0"),
    "openai-python-chat-audio-file": ("unsupported_content_type", "messages[0].content[0].type"),
    "openai-python-chat-parse": ("unsupported_response_format", "response_format.type"),
}
OF_THE_CONNECTION = {"host", "content-length", "connection", "transfer-encoding", "accept-encoding"}
CREDENTIALS = ("authorization", "x-api-key")

pytestmark = pytest.mark.usefixtures("calm")


def load(name: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return recorded


RECORDED = sorted(path.stem for path in FOLDER.glob("*.json") if json.loads(path.read_text())["path"] in PATHS)


def replay(house: House, name: str, **changes: Any) -> httpx2.Response:
    """The request again, byte for byte in its structure; the key goes into the header that the client used."""
    recorded = load(name)
    headers = [(key, value) for key, value in recorded["headers"] if key.lower() not in OF_THE_CONNECTION]
    held = [key.lower() for key, _ in headers if key.lower() in CREDENTIALS]
    headers = [(key, value) for key, value in headers if key.lower() not in CREDENTIALS]
    headers += [(key, f"Bearer {house.key}" if key == "authorization" else house.key) for key in held]
    url = house.url + recorded["path"] + (f"?{recorded['query']}" if recorded["query"] else "")
    body = {**recorded["body"], "model": MODEL, **changes}
    return httpx2.post(url, headers=headers, content=json.dumps(body).encode(), timeout=30)


def test_every_client_that_was_recorded_is_there() -> None:
    assert len(RECORDED) >= 34
    assert set(REFUSED) <= set(RECORDED)
    clients = {load(name)["client"] for name in RECORDED}
    assert len(clients) >= 11


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in REFUSED])
def test_a_recorded_request_completes_its_turn(calm: House, name: str) -> None:
    body = load(name)["body"]
    answer = replay(calm, name)
    assert answer.headers["content-type"].startswith("text/event-stream" if body.get("stream") else "application/json")
    if "/chat/" in answer.url.path:
        usage = (body.get("stream_options") or {}).get("include_usage", False)
        turn = wire.read_chat(answer, include_usage=usage)
    else:
        turn = wire.read_message(answer)
    assert turn.error is None
    assert turn.finish in ("stop", "tool_calls", "end_turn", "tool_use")
    assert turn.text or turn.calls
    offered = [tool["name"] if "name" in tool else tool["function"]["name"] for tool in body.get("tools") or ()]
    assert {called for _, called, _ in turn.calls} <= set(offered)
    run = calm.simulator.runs()[0]
    assert [tool["tool_name"] for tool in run["tools"]] == offered


@pytest.mark.parametrize("name", [name for name in RECORDED if "tool-result" in name and name not in REFUSED])
def test_a_recorded_result_is_what_the_model_answers_from(calm: House, name: str) -> None:
    answer = replay(calm, name, model="sim-tool")
    turn = wire.read_message(answer) if "/messages" in answer.url.path else _read_chat(answer, name)
    assert turn.text.startswith("Result: ")
    assert turn.calls == []


def _read_chat(answer: httpx2.Response, name: str) -> wire.Turn:
    usage = (load(name)["body"].get("stream_options") or {}).get("include_usage", False)
    return wire.read_chat(answer, include_usage=usage)


@pytest.mark.parametrize("name", REFUSED)
def test_a_recorded_request_that_cannot_be_carried_is_refused_by_name(calm: House, name: str) -> None:
    before = len(calm.simulator.runs())
    code, named = REFUSED[name]
    answer = replay(calm, name)
    status, kind, told, _ = wire.read_error(answer)
    assert (status, kind, told or "") == (400, "invalid_request_error", code)
    assert named in answer.json()["error"]["message"]
    assert len(calm.simulator.runs()) == before


def test_a_refused_thread_says_so_in_the_form_that_makes_the_sdk_send_everything(calm: House) -> None:
    error = replay(calm, "anthropic-python-tool-runner-thread-create").json()["error"]
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
