"""Gemini CLI, which always sends tools: the Gemini endpoint serves text alone, so it is told so, once and by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.command import Command, Ended
from tests.clients.conftest import Installed
from tests.plugins.house import House

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def ask(program: Path, command: Command, house: House, prompt: str) -> Ended:
    folder = command.home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    (folder / "settings.json").write_text(json.dumps({**settings, "general": {"disableAutoUpdate": True}}))
    return command.run(
        program,
        "-m",
        "gemini-2.5-flash",
        "-p",
        prompt,
        GOOGLE_GEMINI_BASE_URL=house.url,
        GEMINI_API_KEY=house.key,
        GEMINI_CLI_TRUST_WORKSPACE="true",
        GEMINI_TELEMETRY_ENABLED="false",
        NO_BROWSER="1",
    )


def test_it_is_told_that_tools_are_not_served(installed: Installed, command: Command, house: House) -> None:
    program = installed("gemini")
    house.set(gemini_native_enabled=True)
    ended = ask(program, command, house, "Hello there")
    assert ended.code != 0
    assert ended.errors.count('"message":"Function calling is not supported by this endpoint."') == 1
    assert house.simulator.log() == []


def test_it_is_told_when_the_endpoint_is_not_there(installed: Installed, command: Command, house: House) -> None:
    ended = ask(installed("gemini"), command, house, "Hello there")
    assert ended.code != 0
    assert "The Gemini API is not enabled on this gateway." in ended.errors
