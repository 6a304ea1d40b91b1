"""Codex against the demo, as a custom provider and as its built-in one: tools of every form, pictures, compaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.command import Command, Ended
from tests.clients.conftest import Installed
from tests.plugins.house import House

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
CUSTOM = """
model = "gpt-5.5"
model_provider = "poolgate"
[model_providers.poolgate]
name = "Poolgate"
base_url = "{url}/v1"
env_key = "POOLGATE_KEY"
wire_api = "responses"
{more}
[analytics]
enabled = false
"""
BUILT_IN = """
model = "gpt-5.5"
openai_base_url = "{url}/v1"
[analytics]
enabled = false
"""
PROVIDERS = {"custom": CUSTOM, "built-in": BUILT_IN}
EACH = pytest.mark.parametrize("codex", PROVIDERS, indirect=True)
COMPACT_SOON = ("-c", "model_auto_compact_token_limit=3000")


class Codex:
    def __init__(self, program: Path, command: Command, house: House) -> None:
        self.program, self.command, self.house = program, command, house
        self.key = house.key

    def configure(self, text: str, more: str = "") -> None:
        folder = self.command.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(text.format(url=self.house.url, more=more))

    def ask(self, *words: str) -> Ended:
        flags = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
        keys = dict.fromkeys(("POOLGATE_KEY", "OPENAI_API_KEY", "CODEX_API_KEY"), self.key)
        return self.command.run(self.program, *flags, *words, **keys)


@pytest.fixture
def codex(installed: Installed, command: Command, house: House, request: pytest.FixtureRequest) -> Codex:
    codex = Codex(installed("codex"), command, house)
    codex.configure(PROVIDERS[getattr(request, "param", "custom")])
    return codex


def order(tool: str, **arguments: Any) -> str:
    """A prompt that makes the simulated model call a tool of the client's."""
    return f"CALLTOOL {tool} {json.dumps(arguments)} END"


@EACH
def test_a_loop_with_its_shell(codex: Codex, workspace: Path) -> None:
    ended = codex.ask(order("exec_command", cmd="echo tool-$((40+2)) | tee made.txt"))
    assert (ended.code, ended.said.split()[-1]) == (0, "tool-42")
    assert (workspace / "made.txt").read_text() == "tool-42\n"
    [run] = codex.house.simulator.runs()  # which waited for the result
    assert run["history"] == []
    assert sum(answer.endswith("mcp_result") for answer in run["answers"]) == 1


@EACH
def test_a_loop_with_its_shell_where_runs_do_not_wait(codex: Codex, workspace: Path) -> None:
    codex.house.set(parked_streams=False)
    ended = codex.ask(order("exec_command", cmd="echo tool-$((40+2))"))
    assert (ended.code, "tool-42" in ended.said) == (0, True)
    last, first = codex.house.simulator.runs()
    assert (first["history"], [role for role, _ in last["history"]]) == ([], ["user", "call", "tool"])


def test_a_custom_tool(codex: Codex, workspace: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+hello patch\n*** End Patch"
    assert codex.ask(order("apply_patch", input=patch)).code == 0
    assert (workspace / "made.txt").read_text() == "hello patch\n"


def test_tools_that_travel_as_an_item(codex: Codex) -> None:
    ended = codex.ask("-m", "gpt-6-sol", order("exec", input='text("sum " + (40+2))'))
    assert (ended.code, "sum 42" in ended.said) == (0, True)
    assert "collaboration__spawn_agent" in {tool["tool_name"] for tool in codex.house.simulator.runs()[0]["tools"]}


@EACH
def test_a_picture_in_the_question(codex: Codex, picture: Path, described: str) -> None:
    ended = codex.ask("-i", str(picture), "--", "SCRIPT sim-image END")
    assert (ended.code, ended.said.strip()) == (0, described)


def test_a_picture_that_a_tool_brings(codex: Codex, picture: Path, described: str) -> None:
    assert codex.ask(order("view_image", path=str(picture))).code == 0
    [seen, *_] = codex.house.simulator.runs()[0]["images"]
    assert f"{seen['mime_type']} {seen['bytes']} {seen['sha256']}" == described


@pytest.mark.parametrize("codex", ["built-in"], indirect=True)
def test_its_websocket_is_refused_and_it_goes_straight_to_http(codex: Codex) -> None:
    ended = codex.ask("Hello there")
    assert (ended.code, ended.said.strip()) == (0, "Hello! How can I help you today?")
    assert ended.errors.count("failed to connect to Responses WebSocket") == 1
    assert "Reconnecting" not in ended.errors


@EACH
def test_a_long_conversation_is_compacted_and_goes_on(codex: Codex) -> None:
    """The built-in provider asks for an item of compaction, a custom one for a summary that it keeps itself."""
    assert codex.ask("SAYTEXT We chose blue. END").code == 0
    ended = codex.ask(*COMPACT_SOON, "resume", "--last", "SCRIPT sim-history END")
    assert (ended.code, "context compacted" in ended.errors) == (0, True)
    assert len(ended.said.splitlines()) == 1, "one user text is left, which holds the summary"
    last, summary, _ = codex.house.simulator.runs()
    assert (summary["tools"], [role for role, _ in summary["history"]]) == ([], ["user", "assistant"])
    assert "We chose blue." in last["text"]


def test_an_answer_by_a_schema(codex: Codex, workspace: Path, forms_key: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    path = workspace / "schema.json"
    path.write_text(json.dumps(schema | {"additionalProperties": False}))
    said = 'SAYTEXT {"a": "b"} END'
    refused = codex.ask("--output-schema", str(path), said)
    assert (refused.code, "unsupported_response_format" in refused.errors) == (1, True), refused.errors
    codex.key = forms_key
    ended = codex.ask("--output-schema", str(path), said)
    assert (ended.code, json.loads(ended.said)) == (0, {"a": "b"})


def test_a_pace_limit_is_waited_for(codex: Codex) -> None:
    for account in ("alpha", "beta", "gamma"):
        codex.house.simulator.fault(account, "rate_limited_hint", times=1)
    ended = codex.ask("Hello there")
    assert (ended.code, ended.said.strip()) == (0, "Hello! How can I help you today?")
    assert "exceeded retry limit" not in ended.errors
    assert len(codex.house.simulator.runs()) == 4, "three that were refused, and one more after the wait"


def test_a_wrong_key_is_shown_as_one(codex: Codex) -> None:
    codex.key = codex.key[:-4] + "xxxx"
    ended = codex.ask("Hello there")
    assert (ended.code, "401" in ended.errors) == (1, True)
    assert codex.house.simulator.runs() == []
