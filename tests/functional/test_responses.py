"""Responses over sockets: stored conversations, compaction, and the doors around them."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from tests.plugins.house import House, eventually


@pytest.fixture
def client(house: House) -> Any:
    with openai.OpenAI(base_url=f"{house.url}/v1", api_key=house.key, max_retries=0) as sdk:
        yield sdk


def ask(house: House, body: dict[str, Any], path: str = "/v1/responses", key: str = "") -> httpx2.Response:
    headers = {"authorization": f"Bearer {key or house.key}"}
    return httpx2.post(house.url + path, json={"model": "sim-echo", **body}, headers=headers, timeout=20)


def other_key(house: House) -> str:
    """A key of another team with the same accounts."""
    house.manage("issue_key", "--team", "strangers", "--name", "k", "--create-team")
    house.database.execute(
        "INSERT INTO accounts_group_teams (group_id, team_id) SELECT g.id, t.id FROM accounts_group g, tenants_team t"
        " WHERE t.slug = 'strangers' ON CONFLICT DO NOTHING"
    )
    return house.manage("issue_key", "--team", "strangers", "--name", "k2").strip()


def test_a_response_can_be_built_upon_read_listed_and_deleted(house: House, client: openai.OpenAI) -> None:
    first = client.responses.create(model="sim-echo", input="alpha beta", instructions="Be brief.")
    assert first.output_text == "alpha beta"
    second = client.responses.create(model="sim-history", input="gamma", previous_response_id=first.id)
    assert [line.split()[0] for line in second.output_text.splitlines()] == ["user", "assistant", "user"]
    assert client.responses.retrieve(second.id).output_text == second.output_text
    assert client.responses.retrieve(second.id).previous_response_id == first.id
    items = client.responses.input_items.list(second.id).data
    assert "gamma" in items[0].model_dump_json()
    assert len(items) == 1
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    third = client.responses.create(model="sim-history", input="delta", previous_response_id=second.id)
    assert len(third.output_text.splitlines()) == 5


def test_a_streamed_response_can_be_built_upon_the_moment_it_is_complete(house: House, client: openai.OpenAI) -> None:
    with client.responses.stream(model="sim-lorem-20", input="go") as stream:
        final = stream.get_final_response()
    follow = client.responses.create(model="sim-history", input="more", previous_response_id=final.id)
    assert len(follow.output_text.splitlines()) == 3


def test_a_tool_loop_by_previous_response_id_sends_only_the_result(house: House, client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {}}}]
    first = client.responses.create(model="sim-tool", input="go", tools=tools)
    [call] = [item for item in first.output if item.type == "function_call"]
    result: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "42"}]
    second = client.responses.create(model="sim-tool", input=result, previous_response_id=first.id, tools=tools)
    assert second.output_text == "Result: 42"


def test_an_item_of_an_earlier_answer_can_be_referred_to(house: House, client: openai.OpenAI) -> None:
    first = client.responses.create(model="sim-echo", input="alpha")
    items = [
        {"role": "user", "content": "q"},
        {"type": "item_reference", "id": first.output[0].id},
        {"role": "user", "content": "r"},
    ]
    answer = ask(house, {"model": "sim-history", "input": items})
    assert len(answer.json()["output"][0]["content"][0]["text"].splitlines()) == 3


def test_unknown_unstored_and_foreign_ids_have_one_and_the_same_answer(house: House, client: openai.OpenAI) -> None:
    mine = client.responses.create(model="sim-echo", input="secret").id
    unstored = client.responses.create(model="sim-echo", input="secret", store=False).id
    strange = other_key(house)
    house.simulator.reset()
    bodies = []
    for key, wanted in ((house.key, "resp_nope"), (house.key, unstored), (strange, mine)):
        answer = ask(house, {"input": "x", "previous_response_id": wanted}, key=key)
        assert answer.status_code == 400
        bodies.append(answer.text.replace(wanted, "ID"))
    assert len(set(bodies)) == 1
    assert "previous_response_not_found" in bodies[0]
    for method in ("GET", "DELETE"):
        reply = httpx2.request(
            method, f"{house.url}/v1/responses/{mine}", headers={"authorization": f"Bearer {strange}"}
        )
        assert reply.status_code == 404
    assert house.simulator.runs() == []
    assert client.responses.retrieve(mine).id == mine


def test_a_team_that_keeps_nothing_leaves_nothing(house: House) -> None:
    house.database.execute("UPDATE tenants_team SET store_responses = false WHERE slug = 'demo'")
    house.publish()
    try:
        eventually(lambda: _is_not_kept(house), 2)
    finally:
        house.database.execute("UPDATE tenants_team SET store_responses = true WHERE slug = 'demo'")
        house.publish()


def _is_not_kept(house: House) -> bool:
    answer = ask(house, {"input": "x"})
    follow = ask(house, {"input": "y", "previous_response_id": answer.json()["id"]})
    return (answer.status_code, follow.status_code) == (200, 400)


def test_input_items_are_listed_in_pages(house: House) -> None:
    items = [{"role": "user", "content": f"t{number}"} for number in range(5)]
    made = ask(house, {"input": items}).json()["id"]

    def page(query: str) -> httpx2.Response:
        headers = {"authorization": f"Bearer {house.key}"}
        return httpx2.get(f"{house.url}/v1/responses/{made}/input_items{query}", headers=headers)

    first = page("?order=asc&limit=2").json()
    rest = page(f"?order=asc&limit=9&after={first['last_id']}").json()
    assert [len(first["data"]), first["has_more"], len(rest["data"]), rest["has_more"]] == [2, True, 3, False]
    assert page("").json()["data"][0]["content"][0]["text"] == "t4"
    for bad in ("?limit=0", "?limit=101", "?order=up", "?after=nope"):
        assert page(bad).status_code == 400


@pytest.mark.parametrize("stream", [True, False])
def test_a_compaction_trigger_gives_exactly_one_item_that_a_later_request_accepts(house: House, stream: bool) -> None:
    items: list[Any] = [{"role": "user", "content": "SAYTEXT We chose blue. END"}, {"type": "compaction_trigger"}]
    answer = ask(house, {"model": "default", "input": items, "stream": stream, "store": False})
    assert answer.status_code == 200
    if stream:
        assert answer.text.count('"type":"response.output_item.done"') == 1
        assert answer.text.count("event: response.completed") == 1
        line = next(row for row in answer.text.splitlines() if row.startswith("data: ") and "response.completed" in row)
        body = httpx2.Response(200, content=line.removeprefix("data: ")).json()["response"]
    else:
        body = answer.json()
    [item] = body["output"]
    assert item["type"] == "compaction"
    follow = ask(house, {"model": "sim-history", "input": [item, {"role": "user", "content": "go on"}]})
    assert follow.status_code == 200
    for broken in (
        {**item, "encrypted_content": item["encrypted_content"][:-4] + "AAAA"},
        {**item, "encrypted_content": "v1.x"},
    ):
        refused = ask(house, {"input": [broken, {"role": "user", "content": "x"}]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_compaction")
    foreign = ask(house, {"input": [item, {"role": "user", "content": "x"}]}, key=other_key(house))
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (400, "invalid_compaction")


def test_the_compact_endpoint_answers_with_the_users_messages_and_one_item(house: House) -> None:
    items = [{"type": "message", "role": "user", "content": "remember this"}]
    for path in ("/v1/responses/compact", "/responses/compact", "/backend-api/codex/responses/compact"):
        body = ask(house, {"input": items}, path).json()
        assert body["object"] == "response.compaction"
        assert [item["type"] for item in body["output"]] == ["message", "compaction"]


def test_a_websocket_upgrade_is_answered_426(house: House) -> None:
    headers = {
        "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    assert httpx2.get(f"{house.url}/v1/responses", headers=headers).status_code == 426


def test_the_short_path_serves_too(house: House) -> None:
    assert ask(house, {"input": "a b"}, "/responses").json()["output"][0]["content"][0]["text"] == "a b"
