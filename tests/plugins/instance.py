"""A whole installation as a process of its own: ``manage.py up`` with its engines, in a directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import psutil

from config import environment

START_SECONDS = 60


def clean_environment(**changes: str) -> dict[str, str]:
    """This process's environment without the addresses and secrets of the test session."""
    ours = set(environment.ENGINES) | set(environment.SECRETS)
    kept = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("POOLGATE_")}
    return kept | changes


class Instance:
    """Starts on entry and stops on exit. ``ready`` is the content of the ready file."""

    def __init__(self, data_dir: Path, *arguments: str, **changes: str) -> None:
        self.data_dir = data_dir
        self.ready: dict[str, Any] = {}
        self.seconds = 0.0
        self._arguments = arguments
        self._changes = changes
        self._output = data_dir.with_name(data_dir.name + ".out")
        self.process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def ready_file(self) -> Path:
        return self.data_dir.with_name(self.data_dir.name + ".json")

    def launch(self) -> None:
        """Starts it and does not wait."""
        words = ["up", "--port", "0", "--data-dir", str(self.data_dir), "--ready-file", str(self.ready_file)]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", *words, *self._arguments],
                cwd=environment.ROOT,
                env=clean_environment(**self._changes),
                stdout=output,
                stderr=output,
            )

    def start(self) -> None:
        """Starts it and waits until everything answers."""
        began = time.monotonic()
        self.launch()
        while not self.ready_file.exists():
            if self.process.poll() is not None or time.monotonic() > began + START_SECONDS:
                self.stop()
                raise AssertionError(f"it did not start:\n{self.output}")
            time.sleep(0.05)
        self.seconds = time.monotonic() - began
        self.ready = json.loads(self.ready_file.read_text())

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends the signal and waits; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def processes(self) -> list[psutil.Process]:
        """Every running process of this installation, the parent included."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def children(self, word: str) -> list[psutil.Process]:
        """The children of the parent whose command line holds ``word``."""
        return [child for child in psutil.Process(self.process.pid).children() if word in words_of(child)]

    def child(self, word: str) -> psutil.Process:
        [found] = self.children(word)
        return found

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body of a GET. Header names with underscores for dashes."""
        request = urllib.request.Request(self.ready["base_url"] + path)
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def _owns(self, process: psutil.Process) -> bool:
        words = words_of(process)
        if str(self.data_dir) in words:
            return True
        try:
            return "python" in words and process.environ().get("POOLGATE_DATA_DIR") == str(self.data_dir)
        except psutil.Error:
            return False


def words_of(process: psutil.Process) -> str:
    """The command line; empty for one that is gone or only waits to be buried."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def manage(data_dir: Path, *words: str, typed: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs one management command on a data dir, from a second terminal so to say; ``typed`` on standard input."""
    return subprocess.run(
        [sys.executable, "manage.py", *words, "--data-dir", str(data_dir)],
        cwd=environment.ROOT,
        env=clean_environment(**changes),
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
