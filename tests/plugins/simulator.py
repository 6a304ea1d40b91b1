"""The fake upstream as a test sees it: one real process a session, started when the first test asks for it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
START_SECONDS = 20.0


class Simulator:
    """``url`` is its base URL; ``keys`` the API key of each account."""

    def __init__(self, url: str, keys: dict[str, str]) -> None:
        self.url = url
        self.keys = keys

    def log(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What it was sent, newest first."""
        query = f"?limit={limit}" if limit is not None else ""
        entries: list[dict[str, Any]] = self._call("GET", f"/_sim/log{query}")["entries"]
        return entries

    def runs(self) -> list[dict[str, Any]]:
        """The log's agent runs alone, newest first."""
        return [entry for entry in self.log() if entry["transport"] == "run_sse"]

    def accounts(self) -> dict[str, dict[str, Any]]:
        """The accounts by name, with counters and faults."""
        return {row["name"]: row for row in self._call("GET", "/_sim/accounts")["accounts"]}

    def reset(self) -> None:
        self._call("POST", "/_sim/reset", {})

    def fault(
        self,
        account: str,
        cause: str | None,
        *,
        times: int | None = None,
        models: Sequence[str] | None = None,
        after: int | None = None,
        latency_ms: int = 0,
    ) -> None:
        """Orders a fault; cause None ends it."""
        listed = list(models) if models is not None else None
        order = {"fault": cause, "times": times, "models": listed, "after": after, "latency_ms": latency_ms}
        self._call("POST", f"/_sim/accounts/{account}", order)

    def chaos(self, seed: int, rate: float, causes: Sequence[str]) -> None:
        self._call("POST", "/_sim/chaos", {"seed": seed, "rate": rate, "causes": list(causes)})

    def cloud(self) -> dict[str, Any]:
        """The Cloud Agents that exist, and how many were made and deleted."""
        found: dict[str, Any] = self._call("GET", "/_sim/cloud")
        return found

    def habits(self, **trouble: Any) -> None:
        """What the Cloud Agents API does amiss until the next reset; none: nothing."""
        self._call("POST", "/_sim/cloud", trouble)

    def settings(self, **seconds: float) -> None:
        """``token_life`` and ``heartbeat`` until the next reset."""
        self._call("POST", "/_sim/settings", seconds)

    def sign_in(self, account: str) -> dict[str, str]:
        """A browser login's ``accessToken`` and ``refreshToken``."""
        tokens: dict[str, str] = self._call("POST", "/_sim/logins", {"account": account})
        return tokens

    def plan(self, account: str, **values: Any) -> None:
        """What the dashboard tells: ``auto`` and ``api`` in percent, ``ends_in`` seconds, ``texts``, ``told``."""
        self._call("POST", f"/_sim/plans/{account}", values)

    def approve(self, account: str, uuid: str, challenge: str) -> None:
        """Approves a browser login that somebody polls for."""
        self._call("POST", "/_sim/logins", {"account": account, "uuid": uuid, "challenge": challenge})

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise ValueError(error.read().decode()) from None


def start(folder: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], str]:
    """Starts a process on a free port. Returns it and its base URL; the caller stops it."""
    ready = folder / "simulator.json"
    command = [sys.executable, "-m", "simulator", "--port", "0", "--ready-file", str(ready), *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise RuntimeError(f"the simulator did not start (exit status {process.returncode})")
        time.sleep(0.02)
    return process, json.loads(ready.read_text())["url"]


@pytest.fixture(scope="session")
def simulator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """The session's process. Tests ask for ``simulator``, which is reset for them."""
    process, url = start(tmp_path_factory.mktemp("simulator"))
    try:
        yield Simulator(url, {name: f"crsr_sim_{name}" for name in ("alpha", "beta", "gamma")})
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture
def simulator(simulator_process: Simulator) -> Simulator:
    """The fake upstream, with an empty log and nothing ordered."""
    simulator_process.reset()
    return simulator_process
