"""Children that die with their parent, and a database server that need not run as root.

On Linux the kernel does both: ``PR_SET_PDEATHSIG`` sends a signal to a child whose parent died (a ``kill -9``
included), and a process that gives up root may keep one capability. Elsewhere ``python -m config.tether COMMAND``
stands between parent and child and watches.

PostgreSQL refuses to run as root, so started by root it runs as an unprivileged user. When the data dir or the
wheel lies below a folder that only root may enter (``/root``, most often), that user would not reach them. Opening
the folder to everybody is not ours to do; instead the server keeps the one capability to read past permissions.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

LINUX = sys.platform == "linux"
SERVICE_USER = "poolgate"

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_CAPBSET_READ = 23
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522
# Reading past permissions is all that is needed; containers often grant only the wider one.
_CAP_DAC_READ_SEARCH = 2
_CAP_DAC_OVERRIDE = 1


class Owner(Struct, frozen=True):
    """The user a child runs as, and the capability it keeps to reach its files (``None``: none is needed)."""

    uid: int
    gid: int
    capability: int | None = None


def tether(argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` so that it dies with this process; see ``prepare`` for the Linux half."""
    return list(argv) if LINUX else [sys.executable, "-m", "config.tether", *argv]


def prepare(death: signal.Signals, owner: Owner | None = None) -> Callable[[], None]:
    """What the child must do between fork and exec: become ``owner`` and ask for ``death`` when the parent dies."""
    parent = os.getpid()
    prctl = _libc().prctl if LINUX else None

    def in_child() -> None:
        if owner is not None:
            _become(owner)
        if prctl is not None:  # after the change of user, which would clear it
            prctl(_PR_SET_PDEATHSIG, int(death), 0, 0, 0)
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)

    return in_child


def service_owner(paths: Sequence[Path]) -> Owner | None:
    """Who runs the database when we are root; ``None`` when we are not. ``paths`` are what it must reach.

    Raises ``PermissionError`` when that user cannot be made to reach them.
    """
    if os.geteuid() != 0:
        return None
    entry = _service_user()
    hidden = [path for path in paths if not _open_to_all(path)]
    if not hidden:
        return Owner(entry.pw_uid, entry.pw_gid)
    for capability in (_CAP_DAC_READ_SEARCH, _CAP_DAC_OVERRIDE):
        if LINUX and _libc().prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) == 1:
            return Owner(entry.pw_uid, entry.pw_gid, capability)
    raise PermissionError(
        f"PostgreSQL does not run as root, and the user {entry.pw_name} may not enter {hidden[0]}. "
        "Start Poolgate as an ordinary user, or choose a --data-dir that other users may enter."
    )


def _service_user() -> pwd.struct_passwd:
    """A user of our own, made when it is missing; ``nobody`` where users cannot be added."""
    commands = (
        ["useradd", "--system", "--no-create-home", "--shell", "/bin/false", SERVICE_USER],
        ["adduser", "-S", "-D", "-H", SERVICE_USER],
    )
    for command in (None, *commands):
        if command is not None and shutil.which(command[0]):
            subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - fixed words
        try:
            return pwd.getpwnam(SERVICE_USER)
        except KeyError:
            continue
    return pwd.getpwnam("nobody")


def _open_to_all(path: Path) -> bool:
    """Whether any user may enter the folders above ``path`` and read it."""
    resolved = path.resolve()
    folders = [*resolved.parents, resolved] if resolved.is_dir() else resolved.parents
    enterable = all(folder.stat().st_mode & 0o001 for folder in folders)
    return enterable and (resolved.is_dir() or bool(resolved.stat().st_mode & 0o004))


def _become(owner: Owner) -> None:
    libc = _libc()
    if owner.capability is not None:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(owner.gid)
    os.setuid(owner.uid)
    if owner.capability is not None:
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        bit = 1 << owner.capability
        # Effective, permitted and inheritable, for capabilities 0-31 and then for 32-63.
        sets = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
        if libc.capset(header, sets) != 0:
            raise PermissionError("capset")
        libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, owner.capability, 0, 0)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def main(argv: list[str]) -> int:
    """Runs ``argv``, hands signals on, and kills it when our own parent is gone. Returns its exit code."""
    parent = os.getppid()
    child = subprocess.Popen(argv)  # noqa: S603 - our own supervisor's command
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    while child.poll() is None:
        if os.getppid() != parent:
            child.kill()
        time.sleep(0.5)
    return child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
