"""Runs a client to its end: an environment with nothing of ours in it, no way out but loopback, bounded in time."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

SECONDS = 60
NOWHERE = "http://127.0.0.1:9"  # whatever a client wants from the network beside its model fails at once


class Ended(Struct):
    """``said`` is standard output."""

    code: int
    said: str
    errors: str


class Command:
    """``home`` is the client's own, empty at first."""

    def __init__(self, workspace: Path, home: Path) -> None:
        self.workspace = workspace
        self.home = home
        home.mkdir(exist_ok=True)

    def run(self, program: Path, *words: str, given: str = "", **environment: str) -> Ended:
        """``given`` goes to standard input. The client and all that it started are gone when this returns."""
        process = subprocess.Popen(
            [program, *words],
            cwd=self.workspace,
            env=self._environment(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said, errors = process.communicate(given, SECONDS)
        finally:
            _end_group(process)
        return Ended(process.returncode, said, errors)

    def _environment(self, own: dict[str, str]) -> dict[str, str]:
        away = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE)
        near = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "dumb", "LANG": "C.UTF-8"}
        return base | away | near | own


def _end_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
