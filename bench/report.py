"""The rounds as a table: medians, spread and paired ratios, in Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from bench.rounds import Load, Round, Sample, ratios

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


class Figure(Struct, frozen=True):
    """One line of a load's part of the table. ``of`` "" means every load."""

    label: str
    read: Callable[[Sample], float]
    of: tuple[str, ...] = ("unary", "burst", "slow")
    digits: int = 0


def _label(each: Load) -> str:
    return "request" if not each.stream else "chunk"


FIGURES = (
    Figure("CPU µs a {unit}", lambda sample: sample.cpu, digits=1),
    Figure("Valkey's CPU µs a {unit}", lambda sample: sample.store_cpu, ("unary",), digits=1),
    Figure("{unit}s a second", lambda sample: sample.rate, ("unary", "burst")),
    Figure("p50 of an answer, ms", lambda sample: sample.duration, ("unary", "slow"), digits=1),
    Figure("p50 of a chunk's lag, ms", lambda sample: sample.lag, ("slow",), digits=1),
    Figure("p99 of a chunk's lag, ms", lambda sample: sample.lag_99, ("slow",), digits=1),
    Figure("resident MiB", lambda sample: sample.memory, ("slow",)),
    Figure("answers not whole", lambda sample: len(sample.faults)),
)


def table(rounds: Sequence[Round]) -> str:
    """One table for all loads. The ratio stands where CPU is compared."""
    lines = ["| load | figure | relay | gateway | ratio | bar |", "|---|---|---|---|---|---|"]
    for each in dict.fromkeys(one.load for one in rounds):
        lines += _lines(each, [one for one in rounds if one.load is each])
    count = len(rounds) // len({one.load for one in rounds})
    return "\n".join([*lines, "", f"Medians of {count} rounds, [lowest–highest]; {_machine()}."])


def write(path: Path, text: str) -> None:
    """Replaces what stands between the two marks. Raises ``ValueError`` when the page has lost them."""
    page = path.read_text()
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path.name} must hold {BEGIN} and {END}")
    path.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}")


def _lines(each: Load, rounds: Sequence[Round]) -> Iterator[str]:
    first = each.what
    for number, figure in enumerate(one for one in FIGURES if each.name in one.of):
        cells = [
            _cell([figure.read(one.samples[name]) for one in rounds], figure.digits) for name in ("relay", "gateway")
        ]
        ratio = _cell(ratios(rounds, each), 1, "×") if number == 0 else ""
        bar = f"≤ {each.bar:g}×" if number == 0 and each.bar else ""
        if figure is FIGURES[-1]:
            bar = "0"
        label = figure.label.format(unit=_label(each))
        yield f"| {first} | {label} | {cells[0]} | {cells[1]} | {ratio} | {bar} |"
        first = ""


def _cell(values: Sequence[float], digits: int, unit: str = "") -> str:
    if not any(values):
        return "0"
    low, middle, high = min(values), statistics.median(values), max(values)
    text = f"{middle:,.{digits}f}{unit}"
    return text if len(values) == 1 else f"{text} [{low:,.{digits}f}–{high:,.{digits}f}]"


def _machine() -> str:
    return f"{os.cpu_count()} cores, {_processor()}, CPython {platform.python_version()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()
