"""Bodies as real clients sent them (structure kept, texts replaced): accepted, or refused as documented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.protocols.responses import client, compact, server
from ir.errors import ApiError
from ir.request import Image, Reasoning, Text, ToolCall, ToolKind, ToolOrigin, ToolResult

FOLDER = Path(__file__).parents[3] / "fixtures" / "clients"
COMPACT = "/v1/responses/compact"
BODIES = {
    path.stem: fixture
    for path in sorted(FOLDER.glob("*.json"))
    if (fixture := orjson.loads(path.read_bytes()))["path"].startswith("/v1/responses") and fixture["body"]
}
REFUSED = {
    # A subset of nothing but a hosted tool: design, "hosted alone, or forced by tool_choice".
    "openai-python-responses-builtin-tools": ("unsupported_tool_type", "tool_choice.tools"),
    "openai-python-responses-after-compact": ("invalid_compaction", "input[1].encrypted_content"),
    # Frames of a WebSocket, which is answered 426 before any of them is sent.
    "codex-ws-prewarm": ("unsupported_parameter", "generate"),
    "codex-ws-continue": ("previous_response_not_found", "previous_response_id"),
}
CODEX = ("client_metadata", "text.verbosity")
IGNORED: dict[str, tuple[str, ...]] = {
    "codex-0.120.0-responses-compact": ("text.verbosity", "tools[5]"),
    "codex-gpt6-additional-tools": (*CODEX, "reasoning.context"),
    "codex-local-compaction": CODEX,
    "opencode-responses-tool-result": (),
    "openai-python-responses-compact": (),
    "openai-python-responses-tool-result": ("truncation", "text.verbosity"),
}


def load(name: str) -> dict[str, Any]:
    body: dict[str, Any] = BODIES[name]["body"]
    return body


def role(name: str) -> Any:
    return compact if BODIES[name]["path"] == COMPACT else server


def test_the_fixtures_are_there() -> None:
    assert len(BODIES) >= 14
    assert set(REFUSED) < set(BODIES)


@pytest.mark.parametrize("name", [name for name in BODIES if name not in REFUSED])
def test_a_real_body_is_accepted_and_goes_on_to_an_upstream(name: str) -> None:
    request = role(name).decode_request(load(name))
    assert request.ignored == IGNORED.get(name, (*CODEX, "tools[9]"))
    assert request.compaction is (name in ("codex-compaction-trigger", *_compact_names()))
    again = server.decode_request(orjson.loads(client.encode_request(request, "m")))
    kept = [[part for part in message.content if not isinstance(part, Reasoning)] for message in request.messages]
    assert [list(message.content) for message in again.messages] == [parts for parts in kept if parts]
    assert [tool.name for tool in again.tools] == [tool.name for tool in request.tools]


def _compact_names() -> list[str]:
    return [name for name in BODIES if BODIES[name]["path"] == COMPACT]


def test_codexs_output_schema_is_decoded_and_goes_on_to_an_upstream() -> None:
    wanted = load("codex-output-schema")["text"]["format"]
    request = server.decode_request(load("codex-output-schema"))
    assert request.output_format is not None
    assert (request.output_format.param, request.output_format.schema) == ("text.format.type", wanted["schema"])
    assert orjson.loads(client.encode_request(request, "m"))["text"] == {"format": wanted}


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_body_that_cannot_be_carried_is_refused_by_name(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        server.decode_request(load(name))
    assert (caught.value.code, caught.value.param) == REFUSED[name]


@pytest.mark.parametrize("name", [name for name in BODIES if name.endswith("tool-result")])
def test_the_tool_loop_of_a_real_client_is_paired(name: str) -> None:
    *_, called, answered = server.decode_request(load(name)).messages
    calls = [part.id for part in called.content if isinstance(part, ToolCall)]
    results = [part.call_id for part in answered.content if isinstance(part, ToolResult)]
    assert len(calls) == 1
    assert calls == results


def test_codex_of_today_sends_its_system_prompt_as_the_first_developer_message() -> None:
    """Clients, fact 5: no ``instructions``."""
    body = load("codex-gpt55-tool-result")
    assert server.decode_request(body).system.startswith(body["input"][0]["content"][0]["text"])


def test_tools_of_codex_come_as_functions_and_remember_what_they_were() -> None:
    """Clients, fact 4: function, custom, tool_search and web_search side by side."""
    tools = {tool.name: tool for tool in server.decode_request(load("codex-gpt55-tool-result")).tools}
    assert tools["exec_command"].origin is None
    assert tools["apply_patch"].origin == ToolOrigin(ToolKind.CUSTOM, "apply_patch")
    assert "must match this lark grammar:\nstart:" in tools["apply_patch"].description
    assert tools["tool_search"].origin == ToolOrigin(ToolKind.TOOL_SEARCH, "tool_search")
    assert "web_search" not in tools


def test_tools_that_travel_as_an_input_item_keep_bare_names_in_the_reserved_namespace() -> None:
    """Clients, fact 4: no ``tools`` key; the call in the history and its output in parts belong together."""
    request = server.decode_request(load("codex-gpt6-additional-tools"))
    origins = {tool.name: tool.origin for tool in request.tools}
    assert origins["exec"] == ToolOrigin(ToolKind.CUSTOM, "exec", "functions")
    assert origins["wait"] == ToolOrigin(ToolKind.FUNCTION, "wait", "functions")
    *_, called, answered = request.messages
    (call,), (result,) = called.content, answered.content
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.name, list(orjson.loads(call.arguments))) == ("exec", ["input"])
    assert [type(block) for block in result.content] == [Text, Text]


def test_thinking_that_codex_sends_back_is_context() -> None:
    request = server.decode_request(load("codex-reasoning-in-history"))
    assert request.messages[1].content[0] == Reasoning("Let me think.", "bW9jaw==")


def test_a_trigger_makes_the_summary_turn_of_what_stands_before_it() -> None:
    """Clients, fact 7."""
    request = server.decode_request(load("codex-compaction-trigger"))
    assert (request.tools, request.store, request.compaction) == ((), False, True)
    assert not any(isinstance(part, ToolCall | ToolResult) for message in request.messages for part in message.content)


def test_an_image_that_codex_returns_from_a_tool_is_carried() -> None:
    """Clients, fact 17."""
    body = load("codex-gpt55-tool-result")
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0K", "detail": "original"}
    body = {**body, "input": [*body["input"][:-1], {**body["input"][-1], "output": [picture]}]}
    assert server.decode_request(body).images() == (Image("image/png", "iVBORw0K"),)


def test_a_continued_websocket_frame_is_accepted_once_its_past_was_put_in() -> None:
    body = load("codex-ws-continue")
    past = [
        {"type": "message", "role": "user", "content": "TOOLTEST"},
        {"type": "function_call", "call_id": body["input"][0]["call_id"], "name": "exec_command", "arguments": "{}"},
    ]
    request = server.decode_request(server.expand(body, past, {}, bytes))
    assert [message.role for message in request.messages] == ["user", "assistant", "user"]
    assert request.echo["previous_response_id"] == "resp_000000000000000000000001"
