"""opencode against the demo through each of its providers: Chat, Responses and Messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.command import Command, Ended
from tests.clients.conftest import Installed
from tests.plugins.house import House

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
PROVIDERS = {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic"}
MODEL = "claude-sonnet-4.6"


class Opencode:
    def __init__(self, program: Path, command: Command, house: House) -> None:
        self.program, self.command, self.house = program, command, house

    def configure(self, provider: str) -> None:
        options = {"baseURL": f"{self.house.url}/v1", "apiKey": self.house.key}
        reads: dict[str, Any] = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
        models = {MODEL: {"name": "Sonnet", **reads}}
        config = {"provider": {"poolgate": {"npm": provider, "name": "Poolgate", "options": options, "models": models}}}
        self.config = self.command.home / "opencode.json"
        self.config.write_text(json.dumps({**config, "share": "disabled", "autoupdate": False}))

    def ask(self, *words: str) -> Ended:
        return self.command.run(
            self.program,
            "run",
            "-m",
            f"poolgate/{MODEL}",
            *words,
            OPENCODE_CONFIG=str(self.config),
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_MODELS_FETCH="1",
            OPENCODE_DISABLE_LSP_DOWNLOAD="1",
        )


@pytest.fixture(params=PROVIDERS)
def opencode(installed: Installed, command: Command, house: House, request: pytest.FixtureRequest) -> Opencode:
    opencode = Opencode(installed("opencode"), command, house)
    opencode.configure(PROVIDERS[request.param])
    return opencode


def test_a_loop_with_its_shell_and_a_picture_in_the_question(
    opencode: Opencode, workspace: Path, picture: Path, described: str
) -> None:
    # It quotes words that hold blanks, so the order has none.
    order = r'{"command":"echo\u0020tool-$((40+2))>made.txt","description":"x"}'
    ended = opencode.ask("--file", str(picture), "--", "CALLTOOL", "bash", order, "END")
    assert ended.code == 0
    assert (workspace / "made.txt").read_text() == "tool-42\n"
    [run] = [run for run in opencode.house.simulator.runs() if run["tools"]]  # which waited for the result
    assert sum(answer.endswith("mcp_result") for answer in run["answers"]) == 1
    [seen] = run["images"]
    assert f"{seen['mime_type']} {seen['bytes']} {seen['sha256']}" == described
