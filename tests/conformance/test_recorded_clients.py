"""Every recorded request of a real client completes its turn, or is refused as documented; ``TABLE`` has them all.

The key's fallback serves model names that only the client knows, so that even the model is the one it asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from msgspec import Struct

from tests.conformance import wire
from tests.conformance.recorded import FRAME, NAMES, Recorded, load, replay
from tests.conformance.wire_responses import read_response
from tests.plugins.house import House


class Refused(Struct, frozen=True):
    """``code`` as the protocol tells it (empty on Messages, which has none), and a word that the message must hold."""

    status: int
    code: str
    named: str


TURN, COMPACTED, COUNTED, LISTED, PROBED = "turn", "compacted", "counted", "listed", "probed"
FORM = "unsupported_response_format"  # served where the key's policy is to emulate: see below
GOOGLE = Refused(400, "INVALID_ARGUMENT", "tools[0].functionDeclarations")
UPGRADE = Refused(426, "websocket_unsupported", "HTTP POST")

TABLE: dict[str, str | Refused] = {
    "ai-sdk-anthropic-tool-result": TURN,
    "ai-sdk-chat-tool-result": TURN,
    "ai-sdk-google-tool-result": GOOGLE,
    "aider-chat": TURN,
    "anthropic-python-0.125.0-tool-runner": TURN,
    "anthropic-python-image-document-thinking": Refused(400, "", "messages.0.content.1"),
    "anthropic-python-message": TURN,
    "anthropic-python-server-tools-mcp": Refused(400, "", "mcp_servers"),
    "anthropic-python-tool-result": TURN,
    "anthropic-python-tool-runner-thread-continue": Refused(400, "", "thread"),
    "anthropic-python-tool-runner-thread-create": Refused(400, "", "thread"),
    "claude-code-count-tokens": COUNTED,
    "claude-code-head-probe": PROBED,
    "claude-code-model-discovery": LISTED,
    "claude-code-no-betas-full-tools": TURN,
    "claude-code-nonstream-fallback": TURN,
    "claude-code-parallel-tool-results": TURN,
    "claude-code-simple-default-model": TURN,
    "claude-code-sonnet45-enabled-thinking": TURN,
    "claude-code-subagent": TURN,
    "claude-code-tool-reference": TURN,
    "claude-code-tool-result": TURN,
    "claude-code-tool-result-document-pdf": TURN,
    "claude-code-tool-result-image": TURN,
    "claude-code-tui-title": Refused(400, "", "output_config.format"),
    "claude-code-unknown-model-tool-result": TURN,
    "claude-code-web-search-subrequest": Refused(400, "", "tools.0"),
    "cline-chat-tool-result": TURN,
    "codex-0.120.0-responses-compact": COMPACTED,
    "codex-compaction-trigger": COMPACTED,
    "codex-custom-tool-apply-patch": TURN,
    "codex-gpt55-tool-result": TURN,
    "codex-gpt6-additional-tools": TURN,
    "codex-local-compaction": TURN,
    "codex-output-schema": Refused(400, FORM, "text.format"),
    "codex-reasoning-in-history": TURN,
    "codex-ws-continue": UPGRADE,
    "codex-ws-handshake": UPGRADE,
    "codex-ws-prewarm": UPGRADE,
    "gemini-cli-count-tokens-image": Refused(404, "NOT_FOUND", "countTokens"),
    "gemini-cli-gemini3-tool-result": GOOGLE,
    "gemini-cli-google-search": Refused(400, "INVALID_ARGUMENT", "tools[0].googleSearch"),
    "gemini-cli-tool-result": GOOGLE,
    "google-genai-node-tool-result": GOOGLE,
    "google-genai-python-1.75.0-tool-result": GOOGLE,
    "google-genai-python-builtin-tools": Refused(400, "INVALID_ARGUMENT", "tools[0].googleSearch"),
    "google-genai-python-models-list": Refused(404, "NOT_FOUND", "The catalogue of models is not supported"),
    "google-genai-python-tool-result": GOOGLE,
    "langchain-anthropic-tool-result": TURN,
    "langchain-google-genai-tool-result": GOOGLE,
    "litellm-gemini-snake-case-tool-result": GOOGLE,
    "llm-tool-result": TURN,
    "openai-python-chat-audio-file": Refused(400, "unsupported_content_type", "messages[0].content[0].type"),
    "openai-python-chat-parse": Refused(400, FORM, "response_format.type"),
    "openai-python-chat-stream": TURN,
    "openai-python-chat-tool-result": TURN,
    "openai-python-responses-after-compact": Refused(400, "invalid_compaction", "input[1].encrypted_content"),
    "openai-python-responses-builtin-tools": Refused(400, "unsupported_tool_type", "tool_choice.tools"),
    "openai-python-responses-compact": COMPACTED,
    "openai-python-responses-tool-result": TURN,
    "opencode-anthropic-tool-result": TURN,
    "opencode-chat-tool-result": TURN,
    "opencode-responses-tool-result": TURN,
    "opencode-title": TURN,
    "pydantic-ai-anthropic-tool-result": TURN,
    "qwen-code-anthropic-tool-result": TURN,
    "qwen-code-chat-tool-result": TURN,
}
REFUSED = [name for name, outcome in TABLE.items() if isinstance(outcome, Refused) and outcome != UPGRADE]
RESULTS = [name for name, outcome in TABLE.items() if outcome == TURN and "tool-result" in name]


def named(outcome: str | Refused) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name, expected in TABLE.items() if expected == outcome])


@pytest.fixture(scope="module")
def open_house(calm: House) -> Iterator[House]:
    """The gate of Gemini is open: a request that is refused here is refused for its own sake."""
    calm.set(gemini_native_enabled=True)
    yield calm
    calm.reset()


@pytest.fixture(scope="module")
def key(house_process: House) -> str:
    return house_process.manage(
        "issue_key", "--team", "demo", "--name", "recorded", "--fallback-model", "default"
    ).strip()


def read(answer: httpx2.Response, recorded: Recorded) -> wire.Turn:
    """The turn, read strictly in the protocol of its path."""
    if "/responses" in recorded.path:
        return read_response(answer)
    if "/messages" in recorded.path:
        return wire.read_message(answer)
    usage = ((recorded.body or {}).get("stream_options") or {}).get("include_usage", False)
    return wire.read_chat(answer, include_usage=usage)


def test_the_table_holds_every_recorded_request_and_no_other() -> None:
    assert sorted(TABLE) == NAMES
    assert len(NAMES) >= 67
    assert len({load(name).client for name in NAMES}) >= 16


@named(TURN)
def test_a_recorded_request_completes_its_turn(open_house: House, key: str, name: str) -> None:
    recorded = load(name)
    answer = replay(open_house.url, key, recorded)
    assert answer.headers["content-type"].startswith("text/event-stream" if recorded.streams else "application/json")
    turn = read(answer, recorded)
    assert turn.error is None
    assert turn.finish in ("stop", "tool_calls", "end_turn", "tool_use", "completed")
    assert turn.text or turn.calls
    offered = {tool["tool_name"] for tool in open_house.simulator.runs()[0]["tools"]}
    assert {called for _, called, _ in turn.calls} <= offered
    if "/responses" not in recorded.path:  # there, tools of a vendor's own kinds are dropped or renamed
        assert offered == set(_declared(recorded))


def _declared(recorded: Recorded) -> list[str]:
    tools = (recorded.body or {}).get("tools") or ()
    return [tool["name"] if "name" in tool else tool["function"]["name"] for tool in tools]


@pytest.mark.parametrize("name", RESULTS)
def test_a_recorded_result_is_what_the_model_answers_from(open_house: House, key: str, name: str) -> None:
    recorded = load(name)
    turn = read(replay(open_house.url, key, recorded, model="sim-tool"), recorded)
    assert turn.text.startswith("Result: ")
    assert turn.calls == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_recorded_request_that_cannot_be_carried_is_refused_by_name(open_house: House, key: str, name: str) -> None:
    expected, recorded = TABLE[name], load(name)
    assert isinstance(expected, Refused)
    before = len(open_house.simulator.runs())
    answer = replay(open_house.url, key, recorded)
    assert answer.status_code == expected.status
    assert expected.named in answer.text
    assert len(open_house.simulator.runs()) == before
    if expected.code.isupper():
        assert answer.json()["error"]["status"] == expected.code
    else:
        assert wire.read_error(answer)[1:3] == ("invalid_request_error", expected.code or None)


@named(COMPACTED)
def test_a_recorded_compaction_gives_exactly_one_item(open_house: House, key: str, name: str) -> None:
    recorded = load(name)
    answer = replay(open_house.url, key, recorded)
    if recorded.path.endswith("/compact"):
        body = answer.json()
        assert (answer.status_code, body["object"]) == (200, "response.compaction")
        assert [item["type"] for item in body["output"]].count("compaction") == 1
    else:
        assert read_response(answer).signature
        assert answer.text.count('"type":"response.output_item.done"') == 1


@named(UPGRADE)
def test_a_websocket_is_refused_with_the_one_status_that_leads_to_http(open_house: House, key: str, name: str) -> None:
    """A recorded frame stands for the handshake before it."""
    assert name == "codex-ws-handshake" or load(name).method == FRAME
    answer = replay(open_house.url, key, load("codex-ws-handshake"))
    assert answer.status_code == UPGRADE.status
    assert answer.json()["error"]["code"] == UPGRADE.code


@named(COUNTED)
def test_a_recorded_count_is_answered(open_house: House, key: str, name: str) -> None:
    answer = replay(open_house.url, key, load(name))
    assert answer.status_code == 200
    assert answer.json()["input_tokens"] > 100


@named(LISTED)
def test_a_recorded_discovery_finds_models_of_the_vendor(open_house: House, key: str, name: str) -> None:
    answer = replay(open_house.url, key, load(name))
    models = [model for model in answer.json()["data"] if "claude" in model["id"]]
    assert models
    assert all(model["display_name"] for model in models)


@named(PROBED)
def test_a_recorded_probe_needs_no_key(open_house: House, name: str) -> None:
    answer = replay(open_house.url, "", load(name))
    assert (answer.status_code, answer.content) == (200, b"")


FORMS = {
    "claude-code-tui-title": {"messages": '{"title": "A title"}'},
    "codex-output-schema": {"input": '{"a": "b"}'},
    "openai-python-chat-parse": {"messages": '{"name": "x", "n": 1, "tags": []}'},
}


@pytest.mark.parametrize("name", FORMS)
def test_a_recorded_form_is_served_to_a_key_that_emulates(open_house: House, name: str) -> None:
    emulating = open_house.manage(
        "issue_key", "--team", "demo", "--name", "emulating", "--structured-output", "emulate",
        "--fallback-model", "default",
    ).strip()  # fmt: skip
    recorded = load(name)
    [(field, said)] = FORMS[name].items()
    asked = [{"role": "user", "content": f"SAYTEXT {said} END"}]
    turn = read(replay(open_house.url, emulating, recorded, **{field: asked}), recorded)
    assert turn.text == said


def test_a_refused_thread_says_so_in_the_form_that_makes_the_sdk_send_everything(open_house: House, key: str) -> None:
    error = replay(open_house.url, key, load("anthropic-python-tool-runner-thread-create")).json()["error"]
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
