from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from config import embedded, environment


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[embedded.Engine]:
    [engine] = embedded.plan(tmp_path, {"DATABASE_URL": "given"})
    yield engine
    engine.stop()


def test_only_what_the_environment_leaves_out_is_started(tmp_path: Path) -> None:
    assert embedded.plan(tmp_path, {"DATABASE_URL": "given", "REDIS_URL": "given"}) == []
    kinds = [engine.name for engine in embedded.plan(tmp_path, {})]
    assert kinds == ["PostgreSQL", "Valkey"]


def test_an_orphan_is_stopped_and_its_writes_are_there_at_the_next_start(
    tmp_path: Path, valkey: embedded.Engine
) -> None:
    url = embedded.start(tmp_path, [valkey])["REDIS_URL"]
    with redis.Redis.from_url(url) as client:
        client.set("record", "kept")
    orphan = valkey.process
    assert orphan is not None
    [again] = embedded.plan(tmp_path, {"DATABASE_URL": "given"})
    assert orphan.wait(5) == 0
    assert again.port == valkey.port
    try:
        with redis.Redis.from_url(embedded.start(tmp_path, [again])["REDIS_URL"]) as client:
            assert client.get("record") == b"kept"
    finally:
        again.stop()


def test_kill_9_of_the_engine_loses_no_write_that_was_answered(tmp_path: Path, valkey: embedded.Engine) -> None:
    url = embedded.start(tmp_path, [valkey])["REDIS_URL"]
    with redis.Redis.from_url(url) as client:
        for number in range(500):
            client.xadd("records", {"number": str(number)})
        assert valkey.process is not None
        valkey.process.kill()
        valkey.process.wait()
    valkey.start()
    valkey.wait()
    with redis.Redis.from_url(url) as client:
        assert client.xlen("records") == 500


def test_a_stranger_with_the_orphans_number_is_left_alone(tmp_path: Path, valkey: embedded.Engine) -> None:
    valkey.directory.mkdir()
    valkey.pid_file.write_text(str(os.getpid()))
    assert valkey.clear_orphan() is False


def test_the_number_of_a_dead_engine_that_nobody_buried_stops_no_start(
    tmp_path: Path, valkey: embedded.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "BURIAL_SECONDS", 0.1)
    valkey.directory.mkdir()
    with subprocess.Popen(["true"]) as dead:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        valkey.pid_file.write_text(str(dead.pid))
        assert valkey.clear_orphan() is True
    assert not valkey.pid_file.exists()


def test_an_engine_that_is_kept_from_starting_for_a_moment_is_started_again(
    tmp_path: Path, valkey: embedded.Engine
) -> None:
    valkey.prepare()
    config = valkey.directory / "valkey.conf"
    good = config.read_text()
    config.write_text("nonsense yes\n")
    valkey.start()
    assert valkey.process is not None
    valkey.process.wait(10)
    config.write_text(good)
    valkey.wait()
    assert valkey.answers()


def test_nobody_gets_in_without_the_password(tmp_path: Path, valkey: embedded.Engine) -> None:
    url = embedded.start(tmp_path, [valkey])["REDIS_URL"]
    bare = url.replace(f":{valkey.password}@", "")
    with redis.Redis.from_url(bare) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_an_engine_that_cannot_start_names_its_log(valkey: embedded.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LEFTOVER_SECONDS", 0.0)
    valkey.prepare()
    (valkey.directory / "valkey.conf").write_text("nonsense yes\n")
    valkey.start()
    with pytest.raises(embedded.EngineError, match=r"Valkey did not start; the reason is at the end of .*valkey\.log"):
        valkey.wait()
    assert "nonsense" in valkey.log.read_text()


def test_after_a_stop_other_commands_find_no_address_but_the_port_is_kept(
    tmp_path: Path, valkey: embedded.Engine
) -> None:
    embedded.start(tmp_path, [valkey])
    embedded.stop(tmp_path, [valkey])
    assert environment.read_json(tmp_path / "engines.json") == {"REDIS_URL_PORT": valkey.port}
