"""What a caller sees while the upstream is silent: keepalives, the held status line, failover behind a keepalive, and
the time limits. Every clock of the house is turned down to about a second."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.functional.callers import CHAT, MESSAGES, PATHS, Wire, ask, body_of, error_of, streaming, unwrap
from tests.plugins.house import House, eventually


@pytest.fixture(scope="module")
def _turned_down(house_process: House) -> Iterator[House]:
    house_process.reset()
    house_process.database.execute("UPDATE accounts_account SET priority = 10 * id")
    house_process.set(
        keepalive_interval=0.2, first_token_timeout=1.5, last_attempt_extra=0, idle_timeout=1, max_attempts=2
    )
    yield house_process
    house_process.database.execute("UPDATE accounts_account SET priority = 100")
    house_process.reset()


@pytest.fixture
def brisk_house(_turned_down: House) -> House:
    _turned_down.simulator.reset()
    _turned_down.forget_rests()
    return _turned_down


@pytest.mark.parametrize("path", PATHS)
def test_a_silent_upstream_gets_comments_and_then_an_error_in_band(brisk_house: House, path: str) -> None:
    began = time.monotonic()
    with streaming(brisk_house, path, "sim-hang") as stream:
        assert stream.answer.status_code == 200
        assert 0.15 < time.monotonic() - began < 1
        *kept, (event, last) = list(stream)
    assert len(kept) >= 4
    assert set(kept) == {(":", "keepalive")}
    assert event == ("message" if path == CHAT else "error")
    assert unwrap(path, last)["type"] == ("server_error" if path == CHAT else "timeout_error")
    record = brisk_house.record(stream.request_id)
    assert (record["outcome"], record["status"], record["code"]) == ("upstream_error", 200, "timeout")
    assert len({attempt["account_id"] for attempt in record["attempts"]}) == 2


@pytest.mark.parametrize(("heartbeat", "kept"), [(0.1, "ping"), (10, ":")])
def test_messages_gets_a_ping_within_an_answer_while_the_upstream_shows_life(
    brisk_house: House, heartbeat: float, kept: str
) -> None:
    brisk_house.simulator.settings(heartbeat=heartbeat)
    with streaming(brisk_house, MESSAGES, "sim-slow-800") as stream:
        next(stream.words())
        assert {next(stream)[0] for _ in range(2)} == {kept}


@pytest.mark.parametrize("path", PATHS)
def test_nothing_but_comments_comes_before_an_answer_begins(brisk_house: House, path: str) -> None:
    brisk_house.simulator.settings(heartbeat=0.1)
    with streaming(brisk_house, path, "sim-heartbeats") as stream:
        assert [next(stream) for _ in range(3)] == [(":", "keepalive")] * 3


@pytest.mark.parametrize("path", PATHS)
def test_the_first_head_says_that_an_answer_of_cloud_agents_comes_in_one_piece(brisk_house: House, path: str) -> None:
    with streaming(brisk_house, path, "cloud-sim-hang") as stream:
        assert next(stream) == (":", "keepalive")
        assert stream.answer.headers["x-poolgate-buffered"] == "true"
    with streaming(brisk_house, path, "text-sim-hang") as stream:
        assert next(stream) == (":", "keepalive")
        assert "x-poolgate-buffered" not in stream.answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_a_failure_before_the_first_keepalive_keeps_its_status(brisk_house: House, path: str) -> None:
    for account in brisk_house.simulator.keys:
        brisk_house.simulator.fault(account, "model_limit")
    with streaming(brisk_house, path, "sim-echo") as stream:
        assert stream.answer.status_code == 429


@pytest.mark.parametrize("path", PATHS)
def test_another_account_may_still_serve_after_a_keepalive(brisk_house: House, path: str) -> None:
    """The first account says nothing until its time is up; by then keepalives have spent the status line."""
    brisk_house.simulator.fault("alpha", "deadline", latency_ms=700)
    with streaming(brisk_house, path, "sim-slow-700") as stream:
        assert next(stream) == (":", "keepalive")
        assert next(stream.words()) == "lorem "
    assert brisk_house.record(stream.request_id)["committed"]


@pytest.mark.parametrize("path", PATHS)
def test_no_first_token_is_a_504_for_a_whole_answer(brisk_house: House, path: str) -> None:
    answer = ask(brisk_house, path, "sim-heartbeats")
    assert answer.status_code == 504
    assert error_of(path, answer)["type"] == ("server_error" if path == CHAT else "timeout_error")
    record = brisk_house.record(answer.headers["x-request-id"])
    assert {attempt["reason"] for attempt in record["attempts"]} == {"timeout"}
    assert brisk_house.database.execute("SELECT count(*) FROM accounts_cooldown").fetchone() == (0,)
    assert [run["ended"] for run in brisk_house.simulator.runs()] == ["cancelled"] * 2


@pytest.mark.parametrize("path", PATHS)
def test_a_gap_in_the_answer_is_an_error_in_band(brisk_house: House, path: str) -> None:
    with streaming(brisk_house, path, "sim-slow-1200") as stream:
        frames = list(stream)
    event, last = frames[-1]
    assert event == ("message" if path == CHAT else "error")
    assert unwrap(path, last)["type"] == ("server_error" if path == CHAT else "timeout_error")
    assert (event, last) != ("message", "[DONE]")
    assert "lorem" in json.dumps(frames)
    record = brisk_house.record(stream.request_id)
    assert (record["outcome"], record["code"], record["committed"]) == ("interrupted", "timeout", True)
    assert len(record["attempts"]) == 1


@pytest.mark.parametrize("path", PATHS)
def test_leaving_among_the_keepalives(brisk_house: House, path: str) -> None:
    with streaming(brisk_house, path, "sim-hang") as stream:
        assert next(stream)[0] == ":"
        next(stream)
    left = time.time()
    run = eventually(lambda: next((run for run in brisk_house.simulator.runs() if run["ended"]), None), 5)
    assert (run["ended"], run["time"] + run["seconds"] - left < 1) == ("cancelled", True)
    record = brisk_house.record(stream.request_id)
    assert (record["outcome"], record["committed"]) == ("client_gone", False)


@pytest.mark.parametrize("path", PATHS)
def test_a_caller_that_takes_nothing_is_as_good_as_gone(brisk_house: House, path: str) -> None:
    """It keeps the connection open and does not read: it must not hold a slot for ever."""
    began = time.time()
    with Wire(brisk_house) as wire:
        wire.socket.setsockopt(1, 8, 4096)  # SO_RCVBUF
        wire.send(path, json.dumps(body_of(path, "sim-lorem-200000", stream=True, max_tokens=60_000)).encode())
        [record] = eventually(lambda: brisk_house.records("started_at >= to_timestamp(%s)", began), 15)
        assert record["outcome"] == "client_gone"
        assert brisk_house.slots_in_use() == 0
        assert brisk_house.simulator.runs()[0]["ended"] == "cancelled"
