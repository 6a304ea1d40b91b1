"""Bodies as real clients sent them (structure kept, texts replaced): accepted, or refused as documented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.protocols.chat import client, server
from ir.errors import ApiError
from ir.request import Text, ToolCall, ToolResult

FOLDER = Path(__file__).parents[3] / "fixtures" / "clients"
CHAT = sorted(
    path.stem for path in FOLDER.glob("*.json") if orjson.loads(path.read_bytes())["path"] == "/v1/chat/completions"
)
NO_PARAMETERS = {"type": "object", "properties": {}}
REFUSED = {
    "openai-python-chat-audio-file": ("unsupported_content_type", "messages[0].content[0].type"),
}


def load(name: str) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads((FOLDER / f"{name}.json").read_bytes())["body"]
    return body


def test_the_fixtures_are_there() -> None:
    assert len(CHAT) >= 11


@pytest.mark.parametrize("name", [name for name in CHAT if name not in REFUSED])
def test_a_real_body_is_accepted_and_goes_on_to_an_upstream(name: str) -> None:
    body = load(name)
    request = server.decode_request(body)
    assert request.ignored == ()
    assert [tool.name for tool in request.tools] == [entry["function"]["name"] for entry in body.get("tools", ())]
    schemas = [entry["function"].get("parameters", NO_PARAMETERS) for entry in body.get("tools", ())]
    assert [tool.schema for tool in request.tools] == schemas
    assert server.decode_request(orjson.loads(client.encode_request(request, "m"))).messages == request.messages


def test_the_form_that_parse_asks_for_is_decoded_and_goes_on_to_an_upstream() -> None:
    wanted = load("openai-python-chat-parse")["response_format"]
    request = server.decode_request(load("openai-python-chat-parse"))
    assert request.output_format is not None
    assert request.output_format.param == "response_format.type"
    assert request.output_format.schema == wanted["json_schema"]["schema"]
    assert orjson.loads(client.encode_request(request, "m"))["response_format"] == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_body_that_cannot_be_carried_is_refused_by_name(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        server.decode_request(load(name))
    assert (caught.value.code, caught.value.param) == REFUSED[name]


@pytest.mark.parametrize("name", [name for name in CHAT if name.endswith("tool-result")])
def test_the_tool_loop_of_a_real_client_is_paired(name: str) -> None:
    *_, called, answered = server.decode_request(load(name)).messages
    calls = [part.id for part in called.content if isinstance(part, ToolCall)]
    results = [part.call_id for part in answered.content if isinstance(part, ToolResult)]
    assert calls == results == ["call_000000000000000000000001"]


def test_a_tool_result_in_blocks_stays_in_blocks() -> None:
    (result,) = server.decode_request(load("qwen-code-chat-tool-result")).messages[-1].content
    assert isinstance(result, ToolResult)
    assert [type(block) for block in result.content] == [Text]
