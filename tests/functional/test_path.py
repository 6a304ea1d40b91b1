"""The main path over sockets: what a request costs, what it leaves behind."""

from __future__ import annotations

import httpx2

from tests.plugins.house import House


def ask(house: House, model: str, text: str = "one two three", **fields: object) -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    headers = {"authorization": f"Bearer {house.key}"}
    return httpx2.post(f"{house.url}/v1/chat/completions", json=body, headers=headers, timeout=30)


def test_an_answered_request_leaves_one_record_and_no_slot(house: House) -> None:
    answer = ask(house, "sim-echo")
    assert answer.json()["choices"][0]["message"]["content"] == "one two three"
    record = house.record(answer.headers["x-request-id"])
    assert (record["outcome"], record["status"], record["model"], record["protocol"]) == ("ok", 200, "sim-echo", "chat")
    assert [attempt.get("reason", "") for attempt in record["attempts"]] == [""]
    assert house.slots_in_use() == 0
