"""What a process costs, read from ``/proc`` (Linux): the clock of the kernel, not of the wall."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_USER, _SYSTEM, _RESIDENT = 11, 12, 21  # fields of /proc/PID/stat, counted after the command's closing bracket


def cpu_seconds(pid: int) -> float:
    """User and system time of one process, all its threads, in seconds; the kernel counts in steps of 10 ms."""
    fields = _stat(pid)
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS


def resident_mib(pid: int) -> float:
    return int(_stat(pid)[_RESIDENT]) * _PAGE / 2**20


def _stat(pid: int) -> list[str]:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2 :].split()
