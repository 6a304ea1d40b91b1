"""``manage.py up --demo``: what a newcomer sees, and what must not stay behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from config import environment
from tests.plugins.instance import Instance, manage

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with Instance(tmp_path / "data", "--demo") as running:
        yield running


def ask(instance: Instance, model: str, *, stream: bool = False) -> bytes:
    """The whole answer to one Chat request on the demo key."""
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "one two three"}]}
    request = urllib.request.Request(
        instance.ready["base_url"] + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {instance.ready['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer: bytes = reply.read()
    return answer


def rows(instance: Instance, query: str) -> list[tuple[Any, ...]]:
    """What a query of this test's own says to the installation's database."""
    url = environment.read_json(instance.data_dir / environment.ENGINES_FILE)["DATABASE_URL"]
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def eventually(condition: Callable[[], bool], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_the_card_can_be_pasted_and_a_second_start_shows_the_same(instance: Instance) -> None:
    lines = instance.output.splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("curl"))
    pasted = subprocess.run(["/bin/sh", "-c", "\n".join(lines[start : start + 3])], capture_output=True, check=True)
    assert pasted.stdout.rstrip().endswith(b"data: [DONE]")
    first = instance.ready
    assert first["admin_password"]
    instance.stop()
    instance.start()
    assert instance.seconds < 10
    same = ("api_key", "admin_user", "admin_password", "simulator_url", "metrics_token")
    assert [instance.ready[name] for name in same] == [first[name] for name in same]
    assert (instance.data_dir / "demo.json").stat().st_mode & 0o777 == 0o600
    assert json.loads(ask(instance, "sim-echo"))["choices"][0]["message"]["content"].strip() == "one two three"


def test_every_answered_request_has_one_record_within_seconds(instance: Instance) -> None:
    for _ in range(3):
        ask(instance, "sim-lorem-5")
    assert eventually(lambda: rows(instance, "select count(*) from ops_requestrecord") == [(3,)])
    assert rows(instance, "select distinct outcome from ops_requestrecord") == [("ok",)]


def test_a_stream_finishes_while_the_installation_stops(instance: Instance) -> None:
    answers: list[bytes] = []
    caller = threading.Thread(target=lambda: answers.append(ask(instance, "sim-slow-150", stream=True)))
    caller.start()
    time.sleep(1)
    began = time.monotonic()
    assert instance.stop() == 0
    caller.join(10)
    assert answers[0].count(b'"content"') >= 20
    assert answers[0].rstrip().endswith(b"data: [DONE]")
    assert 1 < time.monotonic() - began < 15


def test_after_kill_9_in_mid_stream_each_admitted_request_has_exactly_one_record(instance: Instance) -> None:
    ask(instance, "sim-lorem-5")

    def be_cut_off() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(instance, "sim-slow-1000", stream=True)

    callers = [threading.Thread(target=be_cut_off) for _ in range(4)]
    for caller in callers:
        caller.start()
    time.sleep(2.5)
    instance.process.kill()
    instance.process.wait()
    for caller in callers:
        caller.join(10)
    instance.ready_file.unlink()
    instance.start()
    ask(instance, "sim-lorem-5")
    count = "select outcome, count(*) from ops_requestrecord group by outcome order by outcome"
    assert eventually(lambda: rows(instance, count) == [("lost", 4), ("ok", 2)], 60), rows(instance, count)
    time.sleep(12)
    assert rows(instance, count) == [("lost", 4), ("ok", 2)]


def test_removing_the_demo_leaves_no_trace_of_it(instance: Instance) -> None:
    ask(instance, "sim-lorem-5")
    assert eventually(lambda: rows(instance, "select count(*) from ops_requestrecord") == [(1,)])
    key, password = instance.ready["api_key"], instance.ready["admin_password"]
    removed = manage(instance.data_dir, "demo", "--remove")
    assert removed.returncode == 0, removed.stderr
    assert "new one-time password" in removed.stdout
    assert password not in removed.stdout
    for table in ("tenants_team", "tenants_apikey", "accounts_account", "accounts_group", "ops_requestrecord"):
        assert rows(instance, f"select count(*) from {table}") == [(0,)]
    assert rows(instance, "select count(*) from accounts_cataloguemodel where name like 'sim-%'") == [(0,)]
    assert not (instance.data_dir / "demo.json").exists()
    assert eventually(lambda: instance.get("/v1/models", Authorization=f"Bearer {key}")[0] == 401)
    kept = [path for path in instance.data_dir.iterdir() if path.is_file() and key in path.read_text()]
    assert kept == []
