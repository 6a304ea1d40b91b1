from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.supervisor import FIRST_PAUSE, LOG_LIMIT, LONGEST_PAUSE, Child, ChildFailed, Supervisor, turn_over

SLEEP = "import time; time.sleep(60)"
EXIT = "print('out of luck'); raise SystemExit(3)"


class Scene:
    """A supervisor, and what it said."""

    def __init__(self, directory: Path) -> None:
        self.said: list[str] = []
        self.buried: list[int] = []
        self.supervisor = Supervisor(self.said.append, self.buried.append)
        self.directory = directory
        self.children: list[Child] = []

    def child(self, code: str) -> Child:
        child = Child("worker", [sys.executable, "-c", code], dict(os.environ), self.directory / "worker.log")
        self.children.append(child)
        self.supervisor.start(child)
        return child


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    for child in made.children:
        child.stop(0)


def running(child: Child) -> subprocess.Popen[bytes]:
    assert child.process is not None
    return child.process


def test_a_dead_child_waits_its_pause_and_starts_again(scene: Scene) -> None:
    child = scene.child(SLEEP)
    dead = running(child)
    dead.kill()
    dead.wait()
    now = time.monotonic()
    scene.supervisor.tick(now)
    assert scene.buried == [dead.pid]
    assert "worker was ended by SIGKILL; starting it again in 0.5 s" in scene.said[0]
    scene.supervisor.tick(now + FIRST_PAUSE / 2)
    assert running(child) is dead
    scene.supervisor.tick(now + FIRST_PAUSE)
    assert running(child).poll() is None
    assert running(child) is not dead


def test_the_pause_doubles_up_to_its_bound_and_begins_afresh_after_a_steady_minute(scene: Scene) -> None:
    child = scene.child(EXIT)
    now = time.monotonic()
    pauses: list[float] = []
    for _ in range(9):
        running(child).wait()
        scene.supervisor.tick(now)
        pauses.append(float(scene.said[-1].split(" in ")[1].split(" s.")[0]))
        now += pauses[-1]
        scene.supervisor.tick(now)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert pauses[-1] == LONGEST_PAUSE
    running(child).wait()
    scene.supervisor.tick(now + 61)
    assert "in 0.5 s" in scene.said[-1]


def test_while_starting_a_death_is_an_error_that_shows_the_log(scene: Scene) -> None:
    child = scene.child(EXIT)
    running(child).wait()
    with pytest.raises(ChildFailed, match="worker ended with exit code 3") as caught:
        scene.supervisor.check_started()
    assert "out of luck" in str(caught.value)


def test_a_child_that_ignores_the_request_to_end_is_killed(scene: Scene) -> None:
    child = scene.child(
        f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"
    )
    while "deaf" not in child.log.read_text():
        time.sleep(0.01)
    child.stop(0.1)
    assert running(child).returncode == -signal.SIGKILL


def test_a_large_log_is_turned_over_once(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("small")
    turn_over(log)
    assert log.read_text() == "small"
    with log.open("wb") as file:
        file.truncate(LOG_LIMIT + 1)
    turn_over(log)
    assert log.stat().st_size == 0
    assert (tmp_path / "worker.log.1").stat().st_size == LOG_LIMIT + 1


def test_a_large_log_that_cannot_be_kept_is_emptied(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("wb") as file:
        file.truncate(LOG_LIMIT + 1)
    (tmp_path / "worker.log.1").symlink_to("/dev/full")
    turn_over(log)
    assert log.stat().st_size == 0
    assert not (tmp_path / "worker.log.1").exists()


def test_a_log_is_kept_short_while_its_child_goes_on_writing(scene: Scene) -> None:
    child = scene.child(f"import sys, time; print('x' * {LOG_LIMIT + 1}, flush=True); sys.stdin.read(); time.sleep(60)")
    deadline = time.monotonic() + 10
    while not child.log.stat().st_size > LOG_LIMIT and time.monotonic() < deadline:
        time.sleep(0.02)
    scene.supervisor.tick(time.monotonic())
    assert child.log.stat().st_size < LOG_LIMIT
    assert running(child).poll() is None
    assert child.log.with_name("worker.log.1").stat().st_size > LOG_LIMIT
