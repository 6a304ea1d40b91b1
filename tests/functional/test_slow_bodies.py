"""Bodies that come slowly or not at all, with a wait of one second for the next piece."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.functional.callers import PATHS, Wire, body_of, unwrap
from tests.plugins.house import House


@pytest.fixture(scope="module")
def hurried_house(house_process: House) -> Iterator[House]:
    house_process.reset()
    house_process.set(body_timeout=1)
    yield house_process
    house_process.reset()


@pytest.mark.parametrize("path", PATHS)
def test_a_silent_caller_is_told_after_the_wait(hurried_house: House, path: str) -> None:
    body = json.dumps(body_of(path)).encode()
    with Wire(hurried_house) as wire:
        began = time.monotonic()
        status, headers, told = wire.send(path, body[:20], length=len(body)).answer()
        assert status == 408
        assert 0.9 < time.monotonic() - began < 2.5
        assert unwrap(path, json.loads(told), headers["x-request-id"])["type"] == "timeout_error"
    record = hurried_house.record(headers["x-request-id"])
    assert (record["status"], record["code"], record["attempts"]) == (408, "request_timeout", [])
    assert hurried_house.simulator.log() == []


@pytest.mark.parametrize("path", PATHS)
def test_a_slow_caller_is_served_as_long_as_pieces_come(hurried_house: House, path: str) -> None:
    body = json.dumps(body_of(path)).encode()
    with Wire(hurried_house) as wire:
        wire.send(path, body[:10], length=len(body))
        for at in range(10, len(body), 20):
            time.sleep(0.25)
            wire.socket.sendall(body[at : at + 20])
        assert wire.answer()[0] == 200
    hurried_house.simulator.reset()
