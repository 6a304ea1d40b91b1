"""The processes that a bench needs: the mock, the relay, and a whole installation by ``manage.py up``.

Each is started on a free port of 127.0.0.1 and stopped when its ``with`` block ends. With two cores or more the
server under test has one for itself and everything else shares the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from msgspec import Struct

from bench import relay
from bench.load import Target

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 90.0
_OURS = ("POOLGATE_", "DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE", "PROMETHEUS_MULTIPROC_DIR")


class Server(Struct, frozen=True):
    """A server under test. ``pid`` is the process whose cost counts, ``store_pid`` its Valkey's (0: it has none)."""

    target: Target
    pid: int
    store_pid: int = 0


@contextmanager
def mock() -> Iterator[str]:
    """Yields the mock's address."""
    with _printing_its_port("bench.mock") as (port, _):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def start_relay(mock_url: str) -> Iterator[Server]:
    with _printing_its_port("bench.relay", "--upstream", mock_url) as (port, pid):
        yield Server(Target("relay", f"http://127.0.0.1:{port}", relay.KEY), pid)


@contextmanager
def start_gateway(mock_url: str, data_dir: Path) -> Iterator[Server]:
    """An installation with embedded engines, one server process, worker and beat, its accounts at the mock."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    env |= {"POOLGATE_UPSTREAM_HOSTS": mock_url.removeprefix("http://"), "POOLGATE_DATA_DIR": str(data_dir)}
    ready_file, output = data_dir / "ready.json", data_dir / "up.log"
    data_dir.mkdir(parents=True, exist_ok=True)
    arguments = ["manage.py", "up", "--port", "0", "--data-dir", str(data_dir), "--ready-file", str(ready_file)]
    with output.open("wb") as log:
        up = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=env, stdout=log, stderr=log)
    try:
        ready = _await_ready(up, ready_file, output)
        key = _furnish(mock_url, env)
        target = Target("gateway", str(ready["base_url"]), key)
        yield Server(target, _find(up.pid, "config.web"), _find(up.pid, "valkey"))
    finally:
        _stop(up)


def give_cores(server: Server) -> None:
    """One core for the server alone. Does nothing on a machine with one core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        for thread in psutil.Process(server.pid).threads():
            os.sched_setaffinity(thread.id, cores[-1:])


@contextmanager
def beside() -> Iterator[None]:
    """While inside, this process and the children it starts keep off the core of the servers under test."""
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, sorted(cores)[:-1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def _printing_its_port(module: str, *arguments: str) -> Iterator[tuple[int, int]]:
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{module} did not start")
        yield int(line), process.pid
    finally:
        _stop(process)


def _await_ready(up: subprocess.Popen[bytes], ready_file: Path, output: Path) -> Mapping[str, object]:
    deadline = time.monotonic() + START_SECONDS
    while not ready_file.exists():
        if up.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the gateway did not start:\n{output.read_text()}")
        time.sleep(0.05)
    ready: Mapping[str, object] = json.loads(ready_file.read_text())
    return ready


def _furnish(mock_url: str, env: Mapping[str, str]) -> str:
    command = [sys.executable, "-m", "bench.furnish", mock_url]
    return subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout.strip()


def _find(parent: int, word: str) -> int:
    """The one child of ``parent`` with ``word`` in its command line."""
    found: list[int] = []
    for child in psutil.Process(parent).children():
        with suppress(psutil.Error):
            if word in " ".join(child.cmdline()):
                found.append(child.pid)
    [pid] = found
    return pid


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(45)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
