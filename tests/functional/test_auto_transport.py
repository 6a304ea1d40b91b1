"""An account in transport mode ``auto``: the Agent RPC first, Cloud Agents where they may stand in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.callers import CHAT, ask
from tests.plugins.house import House

TOOLS = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def lonely(house_process: House) -> Iterator[House]:
    """A house in which one account serves alone, in mode auto."""
    house_process.reset()
    house_process.manage("accounts", "disable", "sim-beta", "sim-gamma")
    house_process.manage("accounts", "transport", "auto", "sim-alpha")
    yield house_process
    house_process.manage("accounts", "transport", "agent_rpc", "sim-alpha")
    house_process.reset()


@pytest.fixture
def auto(lonely: House) -> House:
    lonely.simulator.reset()
    lonely.forget_rests()
    return lonely


def ways(house: House, request_id: str) -> list[tuple[str, str]]:
    """Transport and reason of each attempt."""
    return [(attempt["transport"], attempt.get("reason", "")) for attempt in house.record(request_id)["attempts"]]


def test_the_agent_rpc_comes_first(auto: House) -> None:
    answer = ask(auto, CHAT, "sim-lorem-3")
    assert ways(auto, answer.headers["x-request-id"]) == [("agent_rpc", "")]


@pytest.mark.parametrize(
    ("cause", "times", "reasons"),
    [
        ("rate_limited", 1, ["rate_limit"]),
        ("model_limit", 1, ["model_limit"]),
        ("unavailable", 2, ["transient", "transient"]),
        ("deadline", 1, ["timeout"]),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_cloud_agent_stands_in_where_the_first_way_says_not_now(
    auto: House, cause: str, times: int, reasons: list[str], stream: bool
) -> None:
    model = f"sim-slow-{times + len(cause) + stream}"  # its own: a process believes for some seconds that a model rests
    auto.simulator.fault("alpha", cause, times=times, models=[model])
    answer = ask(auto, CHAT, model, stream=stream)
    assert answer.status_code == 200
    assert ways(auto, answer.headers["x-request-id"]) == [
        *(("agent_rpc", reason) for reason in reasons),
        ("cloud_agents", ""),
    ]
    record = auto.record(answer.headers["x-request-id"])
    assert (record["transport"], record["outcome"]) == ("cloud_agents", "ok")


@pytest.mark.parametrize(
    ("cause", "fields"),
    [
        ("unavailable", {"tools": TOOLS}),
        ("context_too_large", {}),
    ],
)
def test_it_does_not_where_something_would_be_lost_or_nothing_would_change(
    auto: House, cause: str, fields: dict[str, Any]
) -> None:
    answer = ask(auto, CHAT, f"sim-error-{cause}", **fields)
    assert answer.status_code >= 400
    assert {way for way, _ in ways(auto, answer.headers["x-request-id"])} == {"agent_rpc"}
    assert not [entry for entry in auto.simulator.log() if entry["transport"].startswith("cloud")]


def test_after_output_there_is_no_second_way(auto: House) -> None:
    answer = ask(auto, CHAT, "sim-error-unavailable-after-3", stream=True)
    assert ways(auto, answer.headers["x-request-id"]) == [("agent_rpc", "transient")]
