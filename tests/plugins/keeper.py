"""Keeps the engines of one test session: starts them, says "ready", stops them when told or when the session died.

A process of its own, because with several pytest workers the one that needed the engines first may end first.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from config import embedded

# No test may depend on surviving a power cut.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


def main(directory: Path, session: int) -> None:
    """``session`` is the process id of the test session."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    embedded.Postgres.options = FAST
    engines = embedded.plan(directory, os.environ)
    embedded.start(directory, engines)
    print("ready", flush=True)
    while not stopped.wait(0.5) and Path(f"/proc/{session}").exists():
        pass
    embedded.stop(directory, engines)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
