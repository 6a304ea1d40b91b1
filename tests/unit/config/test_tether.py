from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from config import tether

PARENT = """
import subprocess, sys, time
from signal import SIGKILL
from config.tether import prepare
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], preexec_fn=prepare(SIGKILL))
print(child.pid, flush=True)
time.sleep(60)
"""
WATCHED = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "config.tether", sys.executable, "-c",
    "import os, time; print(os.getpid(), flush=True); time.sleep(60)"])
time.sleep(60)
"""


def gone(pid: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not tether.LINUX, reason="the kernel's half is Linux's")
@pytest.mark.parametrize("program", [PARENT, WATCHED], ids=["kernel", "watcher"])
def test_a_child_dies_when_its_parent_is_killed(program: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout as output:
        child = int(output.readline())
        parent.kill()
        parent.wait()
    assert gone(child)


def test_the_watcher_hands_signals_and_the_exit_code_on() -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
    code = f"import signal, sys; {handler}; print('on', flush=True); signal.pause()"
    command = [sys.executable, "-m", "config.tether", sys.executable, "-c", code]
    watcher = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    with watcher.stdout as output:
        assert output.readline() == b"on\n"
        watcher.send_signal(signal.SIGTERM)
        assert watcher.wait(10) == 7


@pytest.mark.skipif(os.geteuid() != 0 or not tether.LINUX, reason="only root on Linux gives up root")
@pytest.mark.parametrize(("mode", "keeps_one"), [(0o700, True), (0o755, False)])
def test_root_hands_over_to_a_user_with_no_more_than_it_needs(tmp_path: Path, mode: int, keeps_one: bool) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    (folder / "file").write_text("content")
    folder.chmod(mode)
    for parent in folder.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    owner = tether.service_owner([folder / "file"])
    assert owner is not None
    assert (owner.capability is not None) is keeps_one
    done = subprocess.run(
        ["/bin/cat", str(folder / "file"), "/proc/self/status"],
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=tether.prepare(signal.SIGKILL, owner),
    )
    assert done.stdout.startswith("content")
    fields = dict(line.split(":\t", 1) for line in done.stdout.removeprefix("content").splitlines() if ":\t" in line)
    assert fields["Uid"].split() == [str(owner.uid)] * 4
    assert int(fields["CapEff"], 16) == (1 << owner.capability if owner.capability is not None else 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="an ordinary user stays who it is")
def test_an_ordinary_user_runs_the_database_as_itself(tmp_path: Path) -> None:
    assert tether.service_owner([tmp_path]) is None
