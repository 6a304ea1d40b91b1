"""Every recorded request of a real Gemini client is accepted, or refused for the reason that the table names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.protocols.gemini.server import admit, is_gemini
from ir.errors import ApiError, Kind
from ir.request import Text, Thinking

CLIENTS = Path(__file__).parents[3] / "fixtures" / "clients"
FUNCTIONS = "tools[0].functionDeclarations"

REFUSED = {
    "ai-sdk-google-tool-result": FUNCTIONS,
    "gemini-cli-gemini3-tool-result": FUNCTIONS,
    "gemini-cli-google-search": "tools[0].googleSearch",
    "gemini-cli-tool-result": FUNCTIONS,
    "google-genai-node-tool-result": FUNCTIONS,
    "google-genai-python-1.75.0-tool-result": FUNCTIONS,
    "google-genai-python-builtin-tools": "tools[0].googleSearch",
    "google-genai-python-tool-result": FUNCTIONS,
    "langchain-google-genai-tool-result": FUNCTIONS,
    "litellm-gemini-snake-case-tool-result": FUNCTIONS,
}
NOT_SERVED = {
    "gemini-cli-count-tokens-image": "unsupported_method",
    "google-genai-python-models-list": "unsupported_resource",
}


def load(name: str) -> dict[str, Any]:
    recorded: dict[str, Any] = orjson.loads((CLIENTS / f"{name}.json").read_bytes())
    return recorded


def headers(recorded: dict[str, Any]) -> dict[bytes, bytes]:
    return {name.lower().encode(): value.encode() for name, value in recorded["headers"]}


def decode(name: str, body: object = None) -> Any:
    recorded = load(name)
    role = admit(recorded["method"], recorded["path"], recorded["query"].encode(), enabled=True)
    return role.decode_request(recorded["body"] if body is None else body)


def text_only(body: dict[str, Any]) -> dict[str, Any]:
    """What the same client sends without tools: its own body without them and what came of them."""
    kept = {name: value for name, value in body.items() if name not in ("tools", "toolConfig")}
    return {**kept, "contents": body["contents"][:1]}


@pytest.mark.parametrize("name", [*REFUSED, *NOT_SERVED])
def test_a_recorded_request_is_known_as_googles(name: str) -> None:
    recorded = load(name)
    assert is_gemini(recorded["method"], recorded["path"], headers(recorded))


def test_every_recorded_request_of_a_gemini_client_is_in_a_table() -> None:
    found = {path.stem for path in CLIENTS.glob("*.json") if b"x-goog-api-key" in headers(load(path.stem))}
    assert found == {*REFUSED, *NOT_SERVED}


@pytest.mark.parametrize("name", REFUSED)
def test_a_recorded_request_that_cannot_be_served_is_refused_by_its_field(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(name)
    assert (caught.value.kind, caught.value.code) == (Kind.INVALID_REQUEST, "unsupported_feature")
    assert caught.value.param == REFUSED[name]


@pytest.mark.parametrize("name", NOT_SERVED)
def test_a_recorded_request_for_something_else_is_not_found(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(name)
    assert (caught.value.kind, caught.value.code) == (Kind.NOT_FOUND, NOT_SERVED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_the_same_request_without_tools_is_accepted(name: str) -> None:
    body = load(name)["body"]
    request = decode(name, text_only(body))
    assert request.messages[0].content == tuple(Text(part["text"]) for part in body["contents"][0]["parts"])
    instruction = body.get("systemInstruction", body.get("system_instruction", {"parts": []}))
    assert request.system == "\n\n".join(part["text"] for part in instruction["parts"])


def test_gemini_clis_thinking_is_taken_over() -> None:
    name = "gemini-cli-gemini3-tool-result"
    request = decode(name, text_only(load(name)["body"]))
    assert request.thinking == Thinking(enabled=True, effort="high", visible=True)
    assert request.ignored == ("generationConfig.temperature", "generationConfig.topP", "generationConfig.topK")


def test_googles_python_sdk_mixes_the_spellings() -> None:
    name = "google-genai-python-tool-result"
    request = decode(name, text_only(load(name)["body"]))
    assert request.thinking == Thinking(enabled=False)
    assert (request.max_output_tokens, request.stop) == (99, ("X",))
