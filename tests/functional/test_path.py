"""The main path over sockets: what a request costs, what it leaves behind, what the other side gets to know."""

from __future__ import annotations

import httpx2

from config import environment
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


def test_the_simulated_upstream_is_told_no_secret_of_the_installation(house: House) -> None:
    data_dir = house.instance.data_dir
    secrets = [*environment.read_json(data_dir / environment.SECRETS_FILE).values()]
    assert len(secrets) == 6
    told = "\n".join(house.instance.child("simulator").environ().values())
    assert [secret for secret in secrets if secret in told] == []
