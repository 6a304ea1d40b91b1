"""Claude Code against the demo: tools, pictures both ways, names nobody configured, and refusals as it shows them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.command import Command, Ended
from tests.clients.conftest import Installed
from tests.plugins.house import House

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


class Claude:
    def __init__(self, program: Path, command: Command, house: House) -> None:
        self.program, self.command, self.house = program, command, house

    def ask(self, prompt: str, *words: str, **environment: str) -> Ended:
        return self.run("--print", prompt, *words, **environment)

    def run(self, *words: str, given: str = "", **environment: str) -> Ended:
        if "ANTHROPIC_AUTH_TOKEN" not in environment:
            environment["ANTHROPIC_API_KEY"] = self.house.key
        return self.command.run(
            self.program,
            "--dangerously-skip-permissions",
            *words,
            given=given,
            ANTHROPIC_BASE_URL=self.house.url,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_MAX_RETRIES="1",
            DISABLE_TELEMETRY="1",
            DISABLE_AUTOUPDATER="1",
            IS_SANDBOX="1",  # it refuses to skip permissions as root otherwise
            **environment,
        )


@pytest.fixture
def claude(installed: Installed, command: Command, house: House) -> Claude:
    return Claude(installed("claude"), command, house)


def order(tool: str, **arguments: Any) -> str:
    """A prompt that makes the simulated model call a tool of the client's."""
    return f"CALLTOOL {tool} {json.dumps(arguments)} END"


def test_a_loop_with_its_shell(claude: Claude, workspace: Path) -> None:
    ended = claude.ask(order("Bash", command="echo tool-$((40+2)) | tee made.txt", description="x"))
    assert (ended.code, ended.said.split()[:2]) == (0, ["Result:", "tool-42"])
    assert (workspace / "made.txt").read_text() == "tool-42\n"
    [run] = claude.house.simulator.runs()  # which waited for the result
    assert run["history"] == []
    assert sum(answer.endswith("mcp_result") for answer in run["answers"]) == 1


def test_a_loop_with_its_shell_where_runs_do_not_wait(claude: Claude, workspace: Path) -> None:
    claude.house.set(parked_streams=False)
    ended = claude.ask(order("Bash", command="echo tool-$((40+2))", description="x"))
    assert (ended.code, "tool-42" in ended.said) == (0, True)
    last, first = claude.house.simulator.runs()
    assert (first["history"], [role for role, _ in last["history"]]) == ([], ["user", "call", "tool"])


def test_two_tools_at_once(claude: Claude, workspace: Path) -> None:
    made = workspace / "made.txt"
    both = f"{order('Write', file_path=str(made), content='written')} {order('Bash', command='echo both')}"
    ended = claude.ask(both)
    assert ended.code == 0
    assert "both" in ended.said
    assert made.read_text() == "written"


def test_a_picture_in_the_question(claude: Claude, picture: Path, described: str) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture.read_bytes()).decode()}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "SCRIPT sim-image END"}]
    line = json.dumps({"type": "user", "message": {"role": "user", "content": content}})
    words = ("--print", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    ended = claude.run(*words, given=line + "\n")
    last = json.loads(ended.said.splitlines()[-1])
    assert (last["type"], last["result"], last["is_error"]) == ("result", described, False)


def test_a_picture_that_a_tool_brings(claude: Claude, picture: Path, described: str) -> None:
    assert claude.ask(order("Read", file_path=str(picture))).code == 0
    [seen, *_] = claude.house.simulator.runs()[0]["images"]
    assert f"{seen['mime_type']} {seen['bytes']} {seen['sha256']}" == described


@pytest.mark.parametrize("model", ["opus", "sonnet", "haiku", "claude-sonnet-4.6"])
def test_whatever_model_it_asks_for_answers(claude: Claude, model: str) -> None:
    ended = claude.ask("Hello there", "--model", model)
    assert (ended.code, ended.said.strip()) == (0, "Hello! How can I help you today?")
    assert len(claude.house.simulator.runs()) == 1


def test_its_other_key_header_serves_as_well(claude: Claude) -> None:
    assert claude.ask("Hello there", ANTHROPIC_AUTH_TOKEN=claude.house.key).code == 0


def test_answers_by_a_schema_come_from_its_own_tool(claude: Claude) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    ended = claude.ask(order("StructuredOutput", a="x"), "--json-schema", json.dumps(schema), "--output-format", "json")
    assert json.loads(ended.said)["structured_output"] == {"a": "x"}


def test_a_conversation_goes_on(claude: Claude) -> None:
    assert claude.ask("Hello there").code == 0
    ended = claude.ask("SCRIPT sim-history END", "--continue")
    assert [line.split()[0] for line in ended.said.splitlines()] == ["user", "assistant", "user"]


def test_a_conversation_is_compacted_and_goes_on(claude: Claude) -> None:
    assert claude.ask("Hello there").code == 0
    assert claude.ask("/compact", "--continue").code == 0
    summary = claude.house.simulator.runs()[0]
    assert summary["tools"], "a usual turn, with all tools"
    assert claude.ask("SCRIPT sim-history END", "--continue").code == 0
    assert "being continued from a previous conversation" in str(claude.house.simulator.runs()[0])


def test_tokens_are_counted_where_it_asks_for_its_context(claude: Claude) -> None:
    ended = claude.ask("/context")
    assert (ended.code, "Context Usage" in ended.said) == (0, True)
    assert claude.house.simulator.runs() == []


def test_a_stream_that_breaks_off_is_asked_for_once_more_and_then_shown_as_an_error(claude: Claude) -> None:
    ended = claude.ask("SCRIPT sim-cut-3 END")
    assert ended.code == 1
    assert "API Error" in ended.said
    streamed = claude.house.simulator.runs()
    assert 2 <= len(streamed) <= 12


def test_a_wrong_key_and_an_unknown_model_are_shown_as_what_they_are(claude: Claude) -> None:
    wrong = claude.ask("Hello", ANTHROPIC_AUTH_TOKEN=claude.house.key[:-4] + "xxxx")
    assert (wrong.code, "401" in wrong.said) == (1, True)
    missing = claude.ask("Hello", "--model", "no-such-model")
    assert missing.code == 1
    assert "may not exist" in missing.said
    assert claude.house.simulator.runs() == []
