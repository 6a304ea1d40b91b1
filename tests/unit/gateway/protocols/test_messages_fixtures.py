"""Every recorded Messages request of a real client is accepted, or refused for the reason that the table names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.protocols.messages.server import decode_request
from ir.errors import ApiError
from ir.request import Image, Request, Text, Thinking, ToolResult

CLIENTS = Path(__file__).parents[3] / "fixtures" / "clients"
PATTERNS = ("claude-code-*", "anthropic-python-*", "*-anthropic-tool-result*")

REFUSED = {
    "anthropic-python-image-document-thinking": ("unsupported_content_type", "messages.0.content.1"),
    "anthropic-python-server-tools-mcp": ("unsupported_parameter", "mcp_servers"),
    "anthropic-python-tool-runner-thread-continue": ("thread_unsupported_request", "thread"),
    "anthropic-python-tool-runner-thread-create": ("thread_unsupported_request", "thread"),
    "claude-code-web-search-subrequest": ("unsupported_tool_type", "tools.0"),
}


def load(name: str) -> Any:
    return orjson.loads((CLIENTS / f"{name}.json").read_bytes())


def recorded() -> list[str]:
    paths = {path for pattern in PATTERNS for path in CLIENTS.glob(f"{pattern}.json")}
    return sorted(path.stem for path in paths if load(path.stem)["path"] == "/v1/messages")


ACCEPTED = [name for name in recorded() if name not in REFUSED]


def decode(name: str) -> Request:
    return decode_request(load(name)["body"])


def test_the_table_names_recorded_requests_and_enough_are_accepted() -> None:
    assert set(REFUSED) <= set(recorded())
    assert len(ACCEPTED) >= 18


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_recorded_request_is_accepted_whole(name: str) -> None:
    body = load(name)["body"]
    request = decode(name)
    assert request.model == body["model"]
    assert request.max_output_tokens == body["max_tokens"]
    assert [tool.name for tool in request.tools] == [tool["name"] for tool in body.get("tools", [])]
    assert [tool.schema for tool in request.tools] == [tool["input_schema"] for tool in body.get("tools", [])]
    assert set(request.ignored) <= {"context_management", "messages.output_config", "tool_result.document"}


@pytest.mark.parametrize("name", REFUSED)
def test_a_recorded_request_that_cannot_be_served_is_refused_by_name(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(name)
    assert (caught.value.code, caught.value.param) == REFUSED[name]


def test_claude_codes_system_message_among_the_others_joins_the_prompt() -> None:
    body = load("claude-code-simple-default-model")["body"]
    request = decode("claude-code-simple-default-model")
    inner = body["messages"][1]["content"][0]["text"]
    assert request.system.endswith(inner)
    assert request.system.count("\n\n" + inner) == 1
    assert [message.role for message in request.messages] == ["user"]
    assert request.thinking == Thinking(enabled=True, effort="medium")


def test_claude_codes_tool_references_become_text_and_the_deferred_tools_stay() -> None:
    request = decode("claude-code-tool-reference")
    result = request.messages[-1].content[0]
    assert isinstance(result, ToolResult)
    assert result.content == (
        Text("The tool WebFetch is now available."),
        Text("The tool WebSearch is now available."),
    )
    assert {"WebFetch", "WebSearch"} <= {tool.name for tool in request.tools}


def test_claude_codes_image_in_a_result_is_kept_and_its_document_noted() -> None:
    image = decode("claude-code-tool-result-image").messages[-1].content[0]
    assert isinstance(image, ToolResult)
    assert isinstance(image.content[0], Image)
    assert decode("claude-code-tool-result-document-pdf").ignored == ("context_management", "tool_result.document")


def test_claude_codes_title_asks_for_a_form() -> None:
    form = decode("claude-code-tui-title").output_format
    assert form is not None
    assert form.param == "output_config.format"
    assert form.schema == load("claude-code-tui-title")["body"]["output_config"]["format"]["schema"]


def test_parallel_results_stay_in_one_message() -> None:
    last = decode("claude-code-parallel-tool-results").messages[-1]
    assert [type(part) for part in last.content] == [ToolResult, ToolResult]
