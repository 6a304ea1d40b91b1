"""``count_tokens`` over sockets, as Claude Code and the SDK use it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx2
import pytest

from ir.tokens import IMAGE_TOKENS
from tests.plugins.house import House

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOL = {"name": "get_weather", "description": "d" * 45, "input_schema": {"type": "object"}}


def count(house: House, *, query: str = "", **body: Any) -> httpx2.Response:
    whole = {"model": "sim-echo", "messages": [{"role": "user", "content": "x"}], **body}
    headers = {"x-api-key": house.key, "anthropic-version": "2023-06-01"}
    return httpx2.post(f"{house.url}/v1/messages/count_tokens{query}", json=whole, headers=headers, timeout=10)


def tokens(house: House, **body: Any) -> int:
    return int(count(house, **body).json()["input_tokens"])


def blocks(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "x"}, *more]}]


def test_every_kind_of_block_adds_to_the_count(house: House) -> None:
    base = tokens(house)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    call = {"type": "tool_use", "id": "t", "name": "n" * 9, "input": {"a": "b" * 90}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "r" * 450}
    loop = [*blocks(), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    assert tokens(house, messages=blocks({"type": "text", "text": "y" * 45})) >= base + 9
    assert tokens(house, messages=blocks(image)) == base + IMAGE_TOKENS
    assert tokens(house, system="s" * 45) == base + 10
    assert tokens(house, tools=[TOOL]) >= base + 10
    assert tokens(house, messages=loop) >= base + 2 + 20 + 100
    assert house.simulator.runs() == []


def test_the_sdk_counts_and_many_counts_at_once_are_no_burden(house: House) -> None:
    client = anthropic.Anthropic(api_key=house.key, base_url=house.url, max_retries=0)

    def one(_: int) -> int:
        messages: Any = [{"role": "user", "content": "hello there"}]
        return client.messages.count_tokens(model="claude-sonnet-4.6", messages=messages).input_tokens

    with client, ThreadPoolExecutor(34) as pool:
        assert len(set(pool.map(one, range(34)))) == 1


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"model": "nope"}, 404, "not_found_error"),
        ({"messages": []}, 400, "invalid_request_error"),
        ({"tools": [{**TOOL, "name": f"t{i}"} for i in range(129)]}, 413, "request_too_large"),
    ],
)
def test_a_body_that_could_not_be_sent_cannot_be_counted(house: House, body: Any, status: int, kind: str) -> None:
    answer = count(house, **body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)


def test_the_beta_query_and_a_thinking_budget_without_limit_are_fine(house: House) -> None:
    thinking = {"type": "enabled", "budget_tokens": 31_999}
    assert count(house, query="?beta=true", thinking=thinking).status_code == 200


def test_a_record_holds_our_count_beside_the_upstreams(house: House) -> None:
    body = {"model": "sim-usage-nested", "max_tokens": 50, "messages": [{"role": "user", "content": "one two"}]}
    answer = httpx2.post(f"{house.url}/v1/messages", json=body, headers={"x-api-key": house.key}, timeout=20)
    record = house.record(answer.headers["request-id"])
    assert record["input_estimate"] > 0
    assert record["usage_source"] == "reported"
    assert record["input_tokens"] is not None
