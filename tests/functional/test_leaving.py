"""A caller that closes its connection, at every point of a turn: the upstream is cancelled within a second, the slot is
free, and exactly one record says ``client_gone``."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from tests.functional.callers import PATHS, Wire, ask, body_of, streaming
from tests.plugins.house import House, eventually


def ended_within(house: House, seconds: float = 1.0) -> dict[str, Any]:
    """The newest run, once it ended; it must have been cancelled within ``seconds`` of now."""
    left = time.time()
    run = eventually(lambda: next((run for run in house.simulator.runs() if run["ended"]), None), 5)
    assert run["ended"] == "cancelled"
    assert run["time"] + run["seconds"] - left < seconds
    return run


def gone_once(house: House, began: float) -> dict[str, Any]:
    """The record of the one request since ``began`` (Unix seconds)."""
    eventually(lambda: house.records("started_at >= to_timestamp(%s)", began))
    [record] = house.records("started_at >= to_timestamp(%s)", began)
    assert (record["outcome"], record["status"], record["culprit"]) == ("client_gone", 499, "caller")
    assert house.slots_in_use() == 0
    assert all(run["ended"] for run in house.simulator.runs())
    return record


def wait_for_run(house: House) -> None:
    eventually(house.simulator.runs, 5)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", ["sim-hang", "sim-heartbeats"])
def test_leaving_before_the_first_token(house: House, path: str, model: str, stream: bool) -> None:
    began = time.time()
    with Wire(house) as wire:
        wire.send(path, json.dumps(body_of(path, model, stream=stream)).encode())
        wait_for_run(house)
    ended_within(house)
    record = gone_once(house, began)
    assert (record["committed"], record["first_token_ms"]) == (False, None)


@pytest.mark.parametrize("path", PATHS)
def test_leaving_in_the_middle_of_a_stream(house: House, path: str) -> None:
    began = time.time()
    with streaming(house, path, "sim-slow-50") as stream:
        next(stream.words())
    ended_within(house)
    record = gone_once(house, began)
    assert record["committed"]
    assert record["response_bytes"] > 0


@pytest.mark.parametrize("path", PATHS)
def test_leaving_while_a_whole_answer_is_made(house: House, path: str) -> None:
    began = time.time()
    with Wire(house) as wire:
        wire.send(path, json.dumps(body_of(path, "sim-slow-100")).encode())
        eventually(lambda: [run for run in house.simulator.runs() if run["deltas"] > 1], 5)
    ended_within(house)
    assert not gone_once(house, began)["committed"]


@pytest.mark.parametrize("path", PATHS)
def test_a_caller_that_only_stops_sending_has_left_as_well(house: House, path: str) -> None:
    began = time.time()
    with Wire(house) as wire:
        wire.send(path, json.dumps(body_of(path, "sim-hang", stream=True)).encode())
        wait_for_run(house)
        wire.socket.shutdown(1)
        ended_within(house)
    gone_once(house, began)


@pytest.mark.parametrize("path", PATHS)
def test_leaving_while_waiting_for_a_slot(house: House, path: str) -> None:
    """Every slot is held by a turn that hangs; the one more waits for a slot and its caller leaves."""
    free = sum(
        row[0]
        for row in house.database.execute("SELECT slots FROM accounts_account WHERE transport = 'agent_rpc'").fetchall()
    )
    holders = [Wire(house) for _ in range(free)]
    for wire in holders:
        wire.send(path, json.dumps(body_of(path, "sim-hang")).encode())
    eventually(lambda: house.slots_in_use() == free)
    began = time.time()
    with Wire(house) as wire:
        wire.send(path, json.dumps(body_of(path)).encode())
        time.sleep(0.5)
    eventually(lambda: house.records("started_at >= to_timestamp(%s)", began), 4)
    assert house.slots_in_use() == free
    for wire in holders:
        wire.socket.close()
    [record] = house.records("started_at >= to_timestamp(%s)", began)
    assert (record["outcome"], record["attempts"]) == ("client_gone", [])
    eventually(lambda: house.slots_in_use() == 0)


def test_two_hundred_callers_that_leave_at_any_moment_leave_nothing_behind(house: House) -> None:
    began = time.time()

    def leave_after(seconds: float, path: str) -> None:
        with Wire(house) as wire:
            wire.send(path, json.dumps(body_of(path, "sim-slow-5", stream=True)).encode())
            time.sleep(seconds)

    for batch in range(20):
        threads = [
            threading.Thread(target=leave_after, args=(0.004 * (batch + number), PATHS[number % 2]))
            for number in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    eventually(lambda: len(house.records("started_at >= to_timestamp(%s)", began)) == 200, 10)
    outcomes = {row["outcome"] for row in house.records("started_at >= to_timestamp(%s)", began)}
    assert outcomes <= {"client_gone", "ok"}
    assert house.slots_in_use() == 0
    assert ask(house, PATHS[0], "sim-echo").status_code == 200
    log = (house.instance.data_dir / "logs" / "web-1.log").read_text()
    assert "Exception in ASGI" not in log
    assert "never retrieved" not in log
