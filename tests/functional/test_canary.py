"""No word of a caller, an upstream or a credential is kept or told: canaries in every text field of requests that
succeed and that fail in every way, then a search through everything the installation wrote.

What may be told, and to the caller alone, is the name of a thing that the caller itself named: a path, a tool, a call
id. The names of unknown fields are kept where they look like names, and so is a model's name that the catalogue serves.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from simulator.causes import CAUSES
from tests.functional.callers import CHAT, MESSAGES, PATHS, TIMEOUT
from tests.plugins.house import House, eventually

MARK = "kanarie"
PNG = b"\x89PNG\r\n\x1a\n" + b"kanarie-image-bytes" * 3


def canary(name: str) -> str:
    return f"{MARK}-{name}-q7x9"


SCHEMA = {
    "type": "object",
    "title": canary("schema-title"),
    "properties": {canary("schema-property"): {"type": "string", "enum": [canary("schema-enum")]}},
}


def chat_body(model: str, **more: Any) -> dict[str, Any]:
    image = "data:image/png;base64," + base64.b64encode(PNG).decode()
    function = {"name": canary("tool"), "description": canary("description"), "parameters": SCHEMA}
    call = {"name": canary("tool"), "arguments": json.dumps({"a": canary("argument")})}
    return {
        "model": model,
        "user": canary("user"),
        "prompt_cache_key": canary("cache-key"),
        "metadata": {canary("metadata-key"): canary("metadata")},
        "stop": [canary("stop")],
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": canary("system"), "name": canary("speaker")},
            {"role": "user", "content": canary("user-text")},
            {
                "role": "assistant",
                "content": canary("assistant-text"),
                "reasoning_content": canary("thinking"),
                "tool_calls": [{"id": canary("call"), "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": canary("call"), "content": canary("result")},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": canary("last-text")},
                    {"type": "image_url", "image_url": {"url": image}},
                ],
            },
        ],
        **more,
    }


def messages_body(model: str, **more: Any) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    call = {
        "type": "tool_use", "id": canary("call"), "name": canary("tool"), "input": {"a": canary("argument")},
    }  # fmt: skip
    thinking = {"type": "thinking", "thinking": canary("thinking"), "signature": ""}
    last = {"type": "text", "text": canary("last-text")}
    result = {"type": "tool_result", "tool_use_id": canary("call"), "content": canary("result")}
    return {
        "model": model,
        "max_tokens": 200,
        "system": [{"type": "text", "text": canary("system"), "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": canary("user")},
        "stop_sequences": [canary("stop")],
        "tools": [{"name": canary("tool"), "description": canary("description"), "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": canary("user-text")},
            {"role": "assistant", "content": [thinking, call]},
            {"role": "user", "content": [result, last, {"type": "image", "source": source}]},
        ],
        **more,
    }


SPOILT = ("sim-cut-2", "sim-garbage-2")
BODIES = {CHAT: chat_body, MESSAGES: messages_body}
HEADERS = {
    "user-agent": canary("agent"),
    "x-client-request-id": canary("client id"),
    "x-custom": canary("header"),
    "referer": f"https://example.com/?{canary('referer')}",
    "cookie": f"a={canary('cookie')}",
    "x-forwarded-for": canary("forwarded"),
    "x-stainless-lang": canary("stainless"),
}


@dataclass
class Told:
    """What callers were told, by what they had asked for."""

    answers: list[tuple[str, httpx2.Response]] = field(default_factory=list)
    failures: list[tuple[str, httpx2.Response]] = field(default_factory=list)


def send(house: House, path: str, body: Any, key: str | None = None) -> httpx2.Response:
    headers = {**HEADERS, "authorization": f"Bearer {key or house.key}", "content-type": "application/json"}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"{house.url}{path}?key={canary('query-key')}&q={canary('query')}"
    return httpx2.post(url, content=content, headers=headers, timeout=TIMEOUT)


def broken(path: str) -> list[Any]:
    """Bodies that are refused, each for another reason; none because of a name that may be told."""
    make = BODIES[path]
    whole = json.dumps(make("sim-echo"))
    return [
        whole[:-1].encode(),
        whole.encode("utf-16"),
        make(canary("model")),
        make(canary("model") + "\r\nx-evil: 1\0"),
        make("sim-echo", messages=canary("messages")),
        make("sim-echo", messages=[{"role": canary("role"), "content": canary("text")}]),
        make("sim-echo", messages=[{"role": "user", "content": [{"type": canary("part"), "text": canary("text")}]}]),
        make("sim-echo", tools=[{"type": canary("hosted"), "name": canary("hosted-name")}]),
        make("sim-echo", tools=canary("tools")),
        make("sim-echo", tool_choice=canary("choice")),
        make("sim-echo", temperature=canary("temperature")),
        make("sim-echo", max_tokens=canary("max")),
        make("sim-echo", stream=canary("stream")),
        make("sim-echo", messages=[{"role": "user", "content": canary("long ") * 60_000}]),
        whole.replace(base64.b64encode(PNG).decode(), "A" * 400).encode(),
        whole.replace("image/png", canary("mime")).encode(),
        re.sub(r'"(arguments|input)": [^}]*}"?', rf'"\1": "{canary("broken-arguments")}"', whole).encode(),
    ]


def fail(house: House, told: Told, path: str, cause: str, number: int) -> None:
    """A cause before and after output. Each asks for another model, so that nobody is thought to rest."""
    house.reset()
    for after, answers in ((None, told.failures), (2, told.answers)):
        for account in house.simulator.keys:
            house.simulator.fault(account, cause, after=after)
        model = f"sim-lorem-{number + 20}{after or 0}"
        answers.append((f"{cause} after {after}", send(house, path, BODIES[path](model, stream=after is not None))))
        house.forget_rests()


@pytest.fixture(scope="module")
def told(house_process: House) -> Iterator[Told]:
    house = house_process
    house.reset()
    told = Told()
    for path in PATHS:
        for stream in (False, True):
            for model in ("sim-echo", "sim-think-3-thinking", "sim-tool", "sim-text-tool", *(SPOILT if stream else ())):
                told.answers.append((f"{path} {model}", send(house, path, BODIES[path](model, stream=stream))))
        told.failures += [(f"{path} {model}", send(house, path, BODIES[path](model))) for model in SPOILT]
        told.failures += [(f"{path} broken {n}", send(house, path, body)) for n, body in enumerate(broken(path))]
        told.failures.append((f"{path} key", send(house, path, BODIES[path]("sim-echo"), key=canary("key"))))
        told.failures.append((f"{path}/x", send(house, f"{path}/nothing", BODIES[path]("sim-echo"))))
    for number, cause in enumerate(CAUSES):
        fail(house, told, PATHS[number % 2], cause, number)
    house.reset()
    last = told.answers[-1][1].headers["x-request-id"]
    eventually(lambda: house.records("request_id = %s", last))
    time.sleep(1)
    yield told
    house.reset()


def test_the_canaries_went_all_the_way(told: Told, house_process: House) -> None:
    """Else finding none of them would mean nothing."""
    echoed = [answer.text for name, answer in told.answers if name.endswith("sim-echo")]
    assert len(echoed) == 4
    assert all(MARK in text for text in echoed)
    assert all(answer.status_code == 200 for _, answer in told.answers)
    assert {answer.status_code for _, answer in told.failures} >= {400, 401, 404, 429, 502}


def test_no_error_repeats_what_was_sent(told: Told) -> None:
    found = {name: answer.text for name, answer in told.failures if MARK in answer.text.lower()}
    assert found == {}


def test_no_header_of_an_answer_repeats_what_was_sent(told: Told) -> None:
    for name, answer in told.answers + told.failures:
        shown = str(answer.headers.raw).lower()
        assert MARK not in shown, name


def test_no_answer_holds_the_words_of_an_upstream_error(told: Told) -> None:
    words = {text for cause in CAUSES.values() for text in (cause.title, cause.detail) if text}
    words |= {"Attention Required", "you have been blocked", "crsr_", "ErrorDetails", "autoSwitchToModel"}
    for name, answer in told.failures + told.answers:
        assert [word for word in words if word in answer.text] == [], name


def rows(house: House) -> Iterator[tuple[str, str]]:
    names = house.database.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        " AND table_schema NOT IN ('pg_catalog', 'information_schema')"
    ).fetchall()
    assert len(names) > 15
    for schema, name in names:
        for (text,) in house.database.execute(f'SELECT t::text FROM "{schema}"."{name}" t').fetchall():
            yield name, text


def test_no_row_of_any_table_holds_one(told: Told, house_process: House) -> None:
    assert [(name, text[:200]) for name, text in rows(house_process) if MARK in text.lower()] == []


def test_metrics_hold_none(told: Told, house_process: House) -> None:
    token = house_process.instance.ready["metrics_token"]
    status, body = house_process.instance.get("/metrics", Authorization=f"Bearer {token}")
    assert status == 200
    assert b"poolgate_" in body
    assert MARK.encode() not in body.lower()


def files_with(directory: Path, needles: tuple[bytes, ...]) -> list[tuple[str, bytes]]:
    """File and surroundings of every hit."""
    found = []
    for path in filter(Path.is_file, directory.rglob("*")):
        data = path.read_bytes().lower()
        hits = [data.find(needle) for needle in needles if needle in data]
        found += [(str(path.relative_to(directory)), data[max(0, at - 60) : at + 100]) for at in hits]
    return found


def test_no_file_of_the_installation_holds_one(told: Told, house_process: House) -> None:
    """Logs, metrics, all that PostgreSQL and Valkey ever wrote, their write-ahead logs included."""
    encoded = base64.b64encode(PNG)[12:40].lower()
    needles = (MARK.encode(), encoded, MARK.encode().hex().encode())
    kept = told.failures[0][1].headers["x-request-id"].encode()
    assert {name.split("/")[0] for name, _ in files_with(house_process.instance.data_dir, (kept,))} >= {
        "postgres",
        "valkey",
    }  # the search would have found it
    assert files_with(house_process.instance.data_dir, needles) == []


def test_logs_and_store_hold_no_credential(told: Told, house_process: House) -> None:
    secrets = (house_process.key.encode().lower(), *(key.encode() for key in house_process.simulator.keys.values()))
    kept = {name for name, _ in files_with(house_process.instance.data_dir, secrets)}
    assert kept <= {"demo.json"}
