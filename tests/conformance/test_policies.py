"""What one key may and another may not: hosted tools and thinking, over sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.caller import PROTOCOLS, Caller, tools
from tests.plugins.house import House, eventually

HOSTED: dict[str, dict[str, Any]] = {
    "chat": {"type": "web_search"},
    "messages": {"type": "web_search_20250305", "name": "web_search"},
    "responses": {"type": "web_search"},
}
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def strict(house_process: House) -> Iterator[Caller]:
    """A caller whose key refuses hosted tools and hides thinking, whatever the setting says."""
    text = house_process.manage("issue_key", "--team", "demo", "--name", "strict").strip()
    words = ("--drop-hosted-tools", "no", "--expose-thinking", "no")
    house_process.manage("keys", "edit", text.split("_")[2], *words)
    caller = Caller(house_process.url, text)
    with caller.http:
        yield caller


def with_hosted(protocol: str) -> list[dict[str, Any]]:
    """A tool that runs at the vendor beside one of the caller's own."""
    return [*([WEATHER] if protocol == "responses" else tools(protocol, "get_weather")), HOSTED[protocol]]


def post(caller: Caller, protocol: str) -> Any:
    if protocol == "responses":
        body = {"model": "sim-echo", "input": "Hi", "tools": with_hosted(protocol)}
        return caller.http.post("/v1/responses", json=body)
    return caller.post(protocol, "sim-echo", tools=with_hosted(protocol))


@pytest.mark.parametrize("protocol", HOSTED)
def test_a_key_may_refuse_hosted_tools_that_others_have_dropped(
    caller: Caller, strict: Caller, calm: House, protocol: str
) -> None:
    dropped, refused = post(caller, protocol), post(strict, protocol)

    path = "tools.1" if protocol == "messages" else "tools[1]"
    assert (dropped.status_code, dropped.headers["x-poolgate-ignored"]) == (200, path)
    assert refused.status_code == 400
    assert path in refused.json()["error"]["message"]
    assert calm.record(refused.headers["x-request-id"])["code"] == "unsupported_tool_type"


def test_thinking_on_chat_follows_the_setting_unless_the_key_says_otherwise(
    caller: Caller, strict: Caller, house: House
) -> None:
    assert not caller.ask("chat", "sim-think-3").thinking
    house.set(expose_thinking=True)

    assert eventually(lambda: caller.ask("chat", "sim-think-3").thinking, 2)
    assert not strict.ask("chat", "sim-think-3").thinking


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_policy_that_is_edited_is_in_force_within_a_second(house: House, protocol: str) -> None:
    text = house.manage("issue_key", "--team", "demo", "--name", f"edited-{protocol}").strip()
    caller = Caller(house.url, text)
    with caller.http:
        assert eventually(lambda: caller.post(protocol, "sim-echo").status_code == 200, 1)
        house.manage("keys", "edit", text.split("_")[2], "--models", "gpt-*")
        assert eventually(lambda: caller.post(protocol, "sim-echo").status_code == 403, 1)
        house.manage("keys", "revoke", text.split("_")[2])
        assert eventually(lambda: caller.post(protocol, "sim-echo").status_code == 401, 1)
