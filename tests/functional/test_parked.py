"""Tool loops on a stream that is kept between the caller's requests, and everything that makes us begin anew: the
caller gets the same answers, and the upstream's journal tells which it was."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.functional.callers import CHAT, MESSAGES, PATHS, Wire, post
from tests.functional.turns import PNG, SCHEMA
from tests.plugins.house import House, eventually
from tests.plugins.instance import Instance

TOOLS = ("weather", "news")


class Talk:
    """A conversation with tools as a client keeps it, in either protocol. ``answers`` is what the caller saw, ids left
    out; ``ids`` the requests'."""

    def __init__(self, house: House, path: str, model: str, *, key: str | None = None, stream: bool = False) -> None:
        self.house, self.path, self.model, self.key, self.stream = house, path, model, key, stream
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        self.calls: list[tuple[str, str]] = []
        self.answers: list[Any] = []
        self.ids: list[str] = []

    def ask(self) -> None:
        reply = post(self.house, self.path, self.body(), key=self.key)
        assert reply.status_code == 200, reply.text
        self.ids.append(reply.headers["x-request-id"])
        said = _streamed(self.path, reply) if self.stream else _whole(self.path, reply.json())
        self.messages.append(said)
        self.calls = _calls(self.path, said)
        self.answers.append(_without_ids(said))

    def body(self) -> dict[str, Any]:
        tools: list[dict[str, Any]] = [{"name": name, "input_schema": SCHEMA} for name in TOOLS]
        if self.path == CHAT:
            tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS]
        more = {"max_tokens": 2000} if self.path == MESSAGES else {}
        return {"model": self.model, "messages": self.messages, "tools": tools, "stream": self.stream, **more}

    def bring(self, *results: Any, failed: bool = False) -> None:
        """The results of the open calls, in their order; a list is content blocks of Messages."""
        pairs = list(zip((call_id for call_id, _ in self.calls), results, strict=True))
        if self.path == CHAT:
            self.messages += [{"role": "tool", "tool_call_id": one, "content": text} for one, text in pairs]
            return
        error = {"is_error": True} if failed else {}
        blocks = [{"type": "tool_result", "tool_use_id": one, "content": content, **error} for one, content in pairs]
        self.messages.append({"role": "user", "content": blocks})

    def play(self, *rounds: str) -> None:
        """Asks, and answers each round's calls with that text."""
        self.ask()
        for text in rounds:
            self.bring(*[f"{text} {number}" for number, _ in enumerate(self.calls)])
            self.ask()

    @property
    def text(self) -> str:
        """Of the last answer."""
        content = self.messages[-1]["content"]
        if isinstance(content, str):
            return content
        return "".join(block.get("text", "") for block in content)


def _whole(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path == CHAT:
        message: dict[str, Any] = body["choices"][0]["message"]
        return {name: message[name] for name in ("role", "content", "tool_calls") if name in message}
    return {"role": "assistant", "content": body["content"]}


def _streamed(path: str, reply: httpx2.Response) -> dict[str, Any]:
    """A streamed answer put together, calls as a client stores them."""
    frames = [json.loads(line[6:]) for line in reply.text.split("\n") if line.startswith("data: {")]
    text, calls = "", dict[int, dict[str, str]]()
    for frame in frames:
        if path == CHAT:
            delta = frame["choices"][0]["delta"] if frame["choices"] else {}
            text += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.get("id") or ""
                call["name"] += piece["function"].get("name") or ""
                call["arguments"] += piece["function"].get("arguments") or ""
        elif frame["type"] == "content_block_start" and frame["content_block"]["type"] == "tool_use":
            block = frame["content_block"]
            calls[frame["index"]] = {"id": block["id"], "name": block["name"], "arguments": ""}
        elif frame["type"] == "content_block_delta":
            text += frame["delta"].get("text", "")
            if "partial_json" in frame["delta"]:
                calls[frame["index"]]["arguments"] += frame["delta"]["partial_json"]
    if path == CHAT:
        made = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls.values()
        ]
        return {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}
    blocks = [
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": json.loads(call["arguments"])}
        for call in calls.values()
    ]
    return {"role": "assistant", "content": [*([{"type": "text", "text": text}] if text else []), *blocks]}


def _calls(path: str, said: dict[str, Any]) -> list[tuple[str, str]]:
    """Ids and names."""
    if path == CHAT:
        return [(call["id"], call["function"]["name"]) for call in said.get("tool_calls") or ()]
    return [(block["id"], block["name"]) for block in said["content"] if block["type"] == "tool_use"]


def _without_ids(said: dict[str, Any]) -> Any:
    return json.loads(json.dumps(said), object_hook=lambda value: {**value, "id": ""} if "id" in value else value)


def runs(house: House, count: int) -> list[dict[str, Any]]:
    """The upstream's runs, oldest first, once all have ended."""

    def ended() -> list[dict[str, Any]] | None:
        found = house.simulator.runs()
        return found if all(run["ended"] for run in found) else None

    found = eventually(ended, 8)
    assert len(found) == count, [(run["account"], run["ended"], run["answers"]) for run in found]
    return found[::-1]


def results_in(run: dict[str, Any]) -> int:
    return sum(answer.endswith("mcp_result") for answer in run["answers"])


def events_of(house: House) -> dict[str, float]:
    """The counter of parked streams."""
    url, token = house.instance.ready["metrics_url"], house.instance.ready["metrics_token"]
    text = httpx2.get(url, headers={"authorization": f"Bearer {token}"}).text
    lines = [line for line in text.splitlines() if line.startswith("poolgate_parked_streams_total{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.fixture(scope="module", autouse=True)
def nothing_parked(house_process: House) -> None:
    """What other modules left parked would be dropped some time, and counted."""
    house_process.set(parked_streams=False)
    time.sleep(1.5)  # it is looked after once a second
    house_process.set(parked_streams=True)


@pytest.fixture
def counted(house: House) -> dict[str, float]:
    return events_of(house)


def since(house: House, before: dict[str, float]) -> dict[str, float]:
    now = events_of(house)
    return {name: count - before.get(name, 0) for name, count in now.items() if count != before.get(name, 0)}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", PATHS)
def test_a_loop_of_three_rounds_is_one_run(house: House, counted: dict[str, float], path: str, stream: bool) -> None:
    talk = Talk(house, path, "sim-tool-rounds-3", stream=stream)
    talk.play("a", "b", "c")
    assert talk.text == "Result: c 0"
    [run] = runs(house, 1)
    assert (run["ended"], results_in(run)) == ("complete", 3)
    assert since(house, counted) == {"parked": 3, "continued": 3}
    attempts = [house.record(one)["attempts"] for one in talk.ids]
    assert [[attempt.get("resumed", False) for attempt in tries] for tries in attempts] == [[False], *[[True]] * 3]
    assert len({tries[0]["account_id"] for tries in attempts}) == 1
    assert house.slots_in_use() == 0


SAME = (
    "sim-tool", "sim-tools-3", "sim-text-tool", "sim-tool-rounds-2", "sim-tool-linefeed", "sim-tool-doubles",
    "sim-tool-split", "sim-tool-twice", "sim-tool-probe",
)  # fmt: skip


def test_the_answers_are_the_same_with_and_without_kept_streams(house: House) -> None:
    def play_all() -> dict[tuple[str, str, bool], list[Any]]:
        heard = {}
        for model in SAME:
            for path in PATHS:
                for stream in (True, False):
                    talk = Talk(house, path, model, stream=stream)
                    talk.play(*["x", "y"][: 2 if "rounds" in model else 1])
                    heard[model, path, stream] = talk.answers
        return heard

    kept = play_all()
    assert len(house.simulator.runs()) == len(kept)
    house.set(parked_streams=False)
    house.simulator.reset()
    assert play_all() == kept
    assert len(house.simulator.runs()) > 2 * len(kept)


def test_parallel_results_may_come_in_any_order(house: House) -> None:
    talk = Talk(house, CHAT, "sim-tools-3")
    talk.ask()
    talk.bring("first", "second", "third")
    talk.messages[-3:] = reversed(talk.messages[-3:])
    talk.ask()
    assert talk.text == "Result: first\nResult: second\nResult: third"
    assert results_in(runs(house, 1)[0]) == 3


def test_images_and_failures_arrive_as_results(house: House) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    talk = Talk(house, MESSAGES, "sim-tool")
    talk.ask()
    talk.bring([{"type": "text", "text": "broken"}, picture], failed=True)
    talk.ask()
    assert talk.text == "Result: broken"
    [run] = runs(house, 1)
    assert [image["sha256"] for image in run["images"]] == [hashlib.sha256(base64.b64decode(PNG)).hexdigest()]


def test_a_loop_over_stored_responses_is_one_run(house: House) -> None:
    tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in TOOLS]
    body: dict[str, Any] = {"model": "sim-tool-rounds-2", "tools": tools, "input": "go"}
    for text in ("a", "b", ""):
        answer = post(house, "/v1/responses", body).json()
        ids = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
        outputs = [{"type": "function_call_output", "call_id": one, "output": text} for one in ids]
        body |= {"previous_response_id": answer["id"], "input": outputs}
    assert answer["output"][0]["content"][0]["text"] == "Result: b"
    assert results_in(runs(house, 1)[0]) == 2


def test_another_key_neither_uses_nor_notices_a_kept_stream(house: House, counted: dict[str, float]) -> None:
    team = house.database.execute("SELECT t.name FROM tenants_team t ORDER BY t.id LIMIT 1").fetchall()[0][0]
    thief = Talk(house, CHAT, "sim-tool", key=house.manage("issue_key", "--team", team, "--name", "other").strip())
    owner = Talk(house, CHAT, "sim-tool")
    owner.ask()
    thief.messages, thief.calls = [*owner.messages], owner.calls
    thief.bring("theirs")
    thief.ask()
    assert thief.text == "Result: theirs"
    owner.bring("mine")
    owner.ask()
    assert owner.text == "Result: mine"
    first, second = runs(house, 2)
    assert [results_in(first), results_in(second)] == [1, 0]
    assert since(house, counted) == {"parked": 1, "continued": 1, "replayed": 1}


@pytest.mark.parametrize("edit", ["question", "tools", "call", "words beside", "text"])
def test_any_other_conversation_begins_anew(house: House, counted: dict[str, float], edit: str) -> None:
    talk = Talk(house, MESSAGES, "sim-text-tool")
    talk.ask()
    talk.bring("r")
    body = talk.body()
    question, said, results = talk.messages
    if edit == "question":
        question["content"] = "go on"
    elif edit == "tools":
        body["tools"][0]["description"] = "other"
    elif edit == "call":
        said["content"][-1]["input"] = {"city": "elsewhere"}
    elif edit == "words beside":
        results["content"].append({"type": "text", "text": "and hurry"})
    else:
        said["content"][0]["text"] = "I never said that."
    reply = post(house, MESSAGES, body)
    assert reply.status_code == 200, reply.text
    first, second = runs(house, 2)
    assert (first["ended"], second["ended"]) == ("cancelled", "complete")
    assert since(house, counted) == {"parked": 1, "dropped": 1, "replayed": 1}


def test_a_demanded_call_and_a_form_to_keep_to_are_not_waited_with(house: House, counted: dict[str, float]) -> None:
    talk = Talk(house, CHAT, "sim-tool")
    assert post(house, CHAT, talk.body() | {"tool_choice": "required"}).status_code == 200
    assert runs(house, 1)[0]["ended"] == "cancelled"
    assert since(house, counted) == {}


@pytest.mark.parametrize("model", ["sim-tool-cut", "sim-tool-late"])
def test_a_stream_that_went_on_by_itself_is_not_gone_on_with(
    house: House, counted: dict[str, float], model: str
) -> None:
    talk = Talk(house, CHAT, model)
    talk.ask()
    eventually(lambda: since(house, counted).get("dropped"), 6)
    talk.bring("r")
    talk.ask()
    assert talk.text == "Result: r"
    assert [results_in(run) for run in runs(house, 2)] == [0, 0]
    assert since(house, counted) == {"parked": 1, "dropped": 1, "replayed": 1}
    assert {row["outcome"] for row in (house.record(one) for one in talk.ids)} == {"ok"}


def test_an_account_that_was_disabled_is_left_at_once(house: House, counted: dict[str, float]) -> None:
    talk = Talk(house, CHAT, "sim-tool")
    talk.ask()
    account = house.record(talk.ids[0])["account_id"]
    house.database.execute("UPDATE accounts_account SET state = 'disabled' WHERE id = %s", [account])
    house.publish()
    assert runs(house, 1)[0]["ended"] == "cancelled"
    talk.bring("r")
    talk.ask()
    assert talk.text == "Result: r"
    assert house.record(talk.ids[1])["account_id"] != account
    assert since(house, counted) == {"parked": 1, "dropped": 1, "replayed": 1}


@pytest.mark.parametrize("why", ["rests", "full"])
def test_an_account_without_a_slot_now_is_not_waited_for(house: House, counted: dict[str, float], why: str) -> None:
    talk = Talk(house, CHAT, "sim-tool")
    talk.ask()
    account = house.record(talk.ids[0])["account_id"]
    ends = int(time.time() * 1000) + 60_000
    if why == "rests":
        house.redis.hset(f"poolgate:cool:{account}", "*", ends)
    else:
        house.redis.zadd(f"poolgate:slots:{account}", {f"somebody {number}": ends for number in range(1000)})
    try:
        talk.bring("r")
        talk.ask()
    finally:
        house.redis.delete(f"poolgate:slots:{account}")
        house.forget_rests()
    assert talk.text == "Result: r"
    record = house.record(talk.ids[1])
    assert record["account_id"] != account
    assert len(record["attempts"]) == 1
    assert since(house, counted) == {"parked": 1, "dropped": 1, "replayed": 1}


def test_a_caller_that_left_leaves_no_stream(house: House, counted: dict[str, float]) -> None:
    house.set(tool_call_window=3)
    talk = Talk(house, CHAT, "sim-tool", stream=True)
    with Wire(house) as wire:
        wire.send(CHAT, json.dumps(talk.body()).encode())
        eventually(lambda: [run for run in house.simulator.runs() if run["answers"]], 5)
        time.sleep(0.3)
    assert runs(house, 1)[0]["ended"] == "cancelled"
    assert since(house, counted) == {}


def test_of_streams_beyond_the_limit_the_oldest_is_closed(house: House, counted: dict[str, float]) -> None:
    house.set(parked_most=1)
    first, second = Talk(house, CHAT, "sim-tool"), Talk(house, CHAT, "sim-tool")
    first.ask()
    second.ask()
    for talk in (second, first):
        talk.bring("r")
        talk.ask()
        assert talk.text == "Result: r"
    assert sorted(results_in(run) for run in runs(house, 3)) == [0, 0, 1]
    assert since(house, counted) == {"parked": 2, "dropped": 1, "continued": 1, "replayed": 1}


@pytest.mark.timeout(180)
def test_when_the_process_is_gone_another_begins_anew_and_the_end_waits_for_nothing(tmp_path: Path) -> None:
    with Instance(tmp_path / "data", "--demo", "--workers", "2") as instance:
        house = House(instance)
        talk = Talk(house, CHAT, "sim-tool")
        talk.ask()
        for worker in instance.children("config.web"):
            worker.kill()
            time.sleep(0.5)
            if house.simulator.runs()[0]["ended"]:
                break
        assert house.simulator.runs()[0]["ended"] == "cancelled"
        talk.bring("r")
        talk.ask()
        assert talk.text == "Result: r"
        Talk(house, CHAT, "sim-tool").ask()  # is waited for when everything stops
        house.close()
        began = time.monotonic()
        assert instance.stop() == 0
        assert time.monotonic() - began < 15
