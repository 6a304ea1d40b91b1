"""Keeps child processes alive, and stops them in order.

A child that dies is started again after a pause that doubles while it keeps dying; one that stayed up for a minute
starts afresh. While an installation is starting there is no second try: the start fails and shows the end of the
child's log, because whoever started it is looking.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from config.tether import prepare, tether

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0
LOG_LIMIT = 20 * 1024 * 1024
LOG_LOOK_SECONDS = 5.0
TAIL_LINES = 15


class ChildFailed(Exception):
    """A child died or did not become ready while the installation was starting."""


class Managed(Protocol):
    """What the supervisor needs of a child; an engine is one too."""

    name: str
    log: Path
    process: subprocess.Popen[bytes] | None

    def start(self) -> None: ...

    def stop(self, seconds: float = ...) -> None: ...


class Child:
    """A program of ours. ``pass_fds`` are file descriptors that it inherits under the same numbers."""

    def __init__(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path, pass_fds: Sequence[int] = ()
    ) -> None:
        self.name = name
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self._argv = argv
        self._env = env
        self._pass_fds = pass_fds

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        turn_over(self.log)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own programs
                tether(self._argv),
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=self._pass_fds,
                process_group=0,  # Ctrl-C in the terminal reaches the parent alone, which stops us in order
                preexec_fn=prepare(signal.SIGKILL),  # noqa: PLW1509 - we start no threads
            )

    def stop(self, seconds: float = 10.0) -> None:
        """Asks it to end, and kills it when it does not within ``seconds``."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Supervisor:
    """``report`` takes one line for the operator; ``on_death`` is told the process id of every child that died."""

    def __init__(self, report: Callable[[str], None], on_death: Callable[[int], None]) -> None:
        self._report = report
        self._on_death = on_death
        self._watched: list[_Watch] = []
        self._next_look = 0.0

    def start(self, child: Managed) -> None:
        child.start()
        self.watch(child)

    def watch(self, child: Managed) -> None:
        """Looks after a child that runs already."""
        self._watched.append(_Watch(child))

    def forget(self, child: Managed) -> None:
        """A child that is about to be stopped on purpose."""
        self._watched = [watch for watch in self._watched if watch.child is not child]

    def check_started(self) -> None:
        """Raises ``ChildFailed`` when a child died while starting."""
        for watch in self._watched:
            if watch.child.process is not None and watch.child.process.poll() is not None:
                raise ChildFailed(failure(watch.child))

    def tick(self, now: float) -> None:
        """Notices who died, starts again whoever has waited long enough, and keeps logs short. ``now`` in monotonic
        seconds."""
        if now >= self._next_look:
            self._next_look = now + LOG_LOOK_SECONDS
            for watch in self._watched:
                turn_over(watch.child.log)
        for watch in self._watched:
            process = watch.child.process
            if watch.due is not None:
                if now >= watch.due:
                    watch.due = None
                    watch.since = now
                    watch.child.start()
            elif process is not None and (code := process.poll()) is not None:
                self._on_death(process.pid)
                if now - watch.since >= STEADY_SECONDS:
                    watch.pause = FIRST_PAUSE
                watch.due = now + watch.pause
                ended = f"{watch.child.name} {_ending(code)}"
                self._report(f"{ended}; starting it again in {watch.pause:g} s. Log: {watch.child.log}")
                watch.pause = min(watch.pause * 2, LONGEST_PAUSE)


class _Watch:
    """What is known of one child: since when it runs, when it starts again, and how long the next pause is."""

    def __init__(self, child: Managed) -> None:
        self.child = child
        self.since = time.monotonic()
        self.due: float | None = None
        self.pause = FIRST_PAUSE


def failure(child: Managed) -> str:
    """Why a child did not start, with the end of its log."""
    code = child.process.poll() if child.process is not None else None
    ended = "did not become ready in time" if code is None else _ending(code)
    try:
        lines = child.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except FileNotFoundError:
        lines = []
    return "\n".join([f"{child.name} {ended}. The end of {child.log}:", *(f"  {line}" for line in lines)])


def turn_over(log: Path) -> None:
    """Keeps one older file beside a log that has grown large. Whoever appends to it may go on meanwhile; what comes at
    that very moment may be lost."""
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        older = log.with_name(log.name + ".1")
        try:
            shutil.copyfile(log, older)
        except OSError:  # a full disk: the room is worth more than the lines
            older.unlink(missing_ok=True)
        os.truncate(log, 0)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"
