"""One PostgreSQL and one Valkey for a whole test session, started by the first test that needs them.

Loaded with ``-p`` because Django's settings are read before any conftest: the addresses are fixed here, the engines
start later. With pytest-xdist all workers share them: pytest-django gives each worker a database of its own, and
each has its own numbered Redis database. Addresses already in the environment are used instead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from config import environment

DIRECTORY = "POOLGATE_TEST_DIRECTORY"
SESSION = "POOLGATE_TEST_SESSION"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _choose_addresses() -> None:
    """Sets the environment of this process and, through it, of the workers."""
    if DIRECTORY not in os.environ:
        directory = Path(tempfile.mkdtemp(prefix="poolgate-tests-"))
        os.environ[DIRECTORY] = str(directory)
        os.environ[SESSION] = str(os.getpid())
        os.environ["POOLGATE_DATA_DIR"] = str(directory)
        ports = {"DATABASE_URL_PORT": _free_port(), "REDIS_URL_PORT": _free_port()}
        environment.write_json(directory / environment.ENGINES_FILE, ports)
        secrets = environment.make_secrets(directory)
        os.environ.setdefault(
            "DATABASE_URL",
            f"postgresql://poolgate:{secrets['POSTGRES_PASSWORD']}@127.0.0.1:{ports['DATABASE_URL_PORT']}/poolgate",
        )
        os.environ.setdefault(
            "REDIS_URL", f"redis://:{secrets['VALKEY_PASSWORD']}@127.0.0.1:{ports['REDIS_URL_PORT']}/0"
        )
    number = os.environ.get("PYTEST_XDIST_WORKER", "")
    if number:
        base = os.environ["REDIS_URL"].rsplit("/", 1)[0]
        os.environ["REDIS_URL"] = f"{base}/{int(number.removeprefix('gw')) + 1}"


_choose_addresses()
_DIRECTORY = Path(os.environ[DIRECTORY])


def _ensure_running() -> None:
    """Starts the keeper unless another worker did. Only one worker is in here at a time."""
    with (_DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pid_file = _DIRECTORY / "keeper.pid"
        if pid_file.exists():
            return
        mine = (environment.read_json(_DIRECTORY / environment.SECRETS_FILE))["POSTGRES_PASSWORD"]
        given = {name: value for name, value in os.environ.items() if name not in environment.ENGINES}
        if mine not in os.environ["DATABASE_URL"]:
            given["DATABASE_URL"] = os.environ["DATABASE_URL"]
        if "127.0.0.1" not in os.environ["REDIS_URL"]:
            given["REDIS_URL"] = os.environ["REDIS_URL"]
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.plugins.keeper", str(_DIRECTORY), os.environ[SESSION]],
            env=given,
            cwd=environment.ROOT,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert keeper.stdout is not None
        with keeper.stdout as output:
            if output.readline() != b"ready\n":
                raise RuntimeError(f"the test engines did not start, see {_DIRECTORY}/logs")
        pid_file.write_text(str(keeper.pid))
        keeper.returncode = 0  # it outlives this worker on purpose: nobody here waits for it


def pytest_unconfigure() -> None:
    if os.environ[SESSION] != str(os.getpid()):
        return
    pid_file = _DIRECTORY / "keeper.pid"
    if pid_file.exists():
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not _gone(pid):
            time.sleep(0.02)
    shutil.rmtree(_DIRECTORY, ignore_errors=True)


def _gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # a worker's child: no longer ours to wait for
        return not Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="session")
def engines() -> None:
    """PostgreSQL and Valkey run and answer at ``DATABASE_URL`` and ``REDIS_URL``."""
    _ensure_running()


@pytest.fixture
def redis_url(engines: None) -> Iterator[str]:
    """The address of an empty Redis database that no other worker uses."""
    url = os.environ["REDIS_URL"]
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield url
