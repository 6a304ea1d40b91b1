"""What is measured: three loads on two servers, in rounds.

Every round runs every load on both servers, one after the other and in an order that is turned round each time, so
that the noise of a shared machine falls on both alike. A ratio is taken within a round; what counts is the median.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from bench import cost, load
from bench.load import Tally
from bench.mock import Shape
from bench.servers import Server


class Load(Struct, frozen=True):
    """One way to ask. ``streams`` 0: unary requests. ``seconds``: how long callers go on, or over how much time the
    streams of a ramp start. ``bar``: the most that the gateway may cost, in relays; 0: no bar but whole answers."""

    name: str
    what: str
    shape: Shape
    callers: int
    seconds: float
    stream: bool = True
    ramp: bool = False
    bar: float = 0.0


class Sample(Struct, frozen=True):
    """One load on one server. ``cpu`` and ``store_cpu`` in microseconds a unit (a request, or a chunk of a stream) of
    the server's process and of its Valkey; ``rate`` in units a second; times in ms; memory in MiB."""

    cpu: float
    store_cpu: float
    rate: float
    duration: float
    lag: float
    lag_99: float
    memory: float
    faults: Sequence[str]


class Round(Struct, frozen=True):
    """The samples of one load, by server name, taken one after the other."""

    load: Load
    samples: dict[str, Sample]


UNARY = Load("unary", "unary requests, 32 callers", Shape(8, 0), 32, 2.0, stream=False, bar=6.0)
BURST = Load("burst", "streams of 200 chunks written at once, 8 callers", Shape(200, 0), 8, 2.0, bar=4.0)
SLOW = Load("slow", "500 streams of 40 chunks, 50 ms apart", Shape(40, 50), 500, 2.0, ramp=True)
FULL = (UNARY, BURST, SLOW)
QUICK = (
    Load("unary", "unary requests, 4 callers", Shape(8, 0), 4, 0.3, stream=False, bar=6.0),
    Load("burst", "streams of 200 chunks written at once, 2 callers", Shape(200, 0), 2, 0.3, bar=4.0),
    Load("slow", "20 streams of 10 chunks, 20 ms apart", Shape(10, 20), 20, 0.2, ramp=True),
)


async def measure(servers: Sequence[Server], loads: Sequence[Load], rounds: int) -> list[Round]:
    """All samples. The first, unmeasured, use of each server fills its caches and pools."""
    for server in servers:
        for each in loads:
            await _run(server, each, min(each.seconds, 0.5))
    return [await _round(each, order) for each, order in _plan(servers, loads, rounds)]


def _plan(servers: Sequence[Server], loads: Sequence[Load], rounds: int) -> Iterator[tuple[Load, Sequence[Server]]]:
    for number in range(rounds):
        turn = number % len(servers)
        for each in loads:
            yield each, [*servers[turn:], *servers[:turn]]


async def _round(each: Load, order: Sequence[Server]) -> Round:
    return Round(each, {server.target.name: await sample(server, each) for server in order})


async def sample(server: Server, each: Load) -> Sample:
    """Runs one load on one server and reads the clocks before and after."""
    pids = [server.pid, *([server.store_pid] if server.store_pid else [])]
    before = [cost.cpu_seconds(pid) for pid in pids]
    began = time.monotonic()
    tally = await _run(server, each, each.seconds)
    elapsed = time.monotonic() - began
    spent = [cost.cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
    units = max(tally.deltas if each.stream else tally.answers, 1)
    return Sample(
        cpu=spent[0] / units * 1e6,
        store_cpu=spent[1] / units * 1e6 if server.store_pid else 0.0,
        rate=units / elapsed,
        duration=_percentile(tally.durations, 0.5) * 1e3,
        lag=_percentile(tally.lags, 0.5) * 1e3,
        lag_99=_percentile(tally.lags, 0.99) * 1e3,
        memory=cost.resident_mib(server.pid),
        faults=tally.faults,
    )


async def _run(server: Server, each: Load, seconds: float) -> Tally:
    if each.ramp:
        return await load.ramp(server.target, each.shape, streams=each.callers, over=seconds)
    return await load.closed_loop(
        server.target, each.shape, stream=each.stream, connections=each.callers, seconds=seconds
    )


def ratios(rounds: Sequence[Round], each: Load) -> list[float]:
    """The gateway's cost in relays, round by round."""
    return [
        found.samples["gateway"].cpu / found.samples["relay"].cpu
        for found in rounds
        if found.load is each and found.samples["relay"].cpu
    ]


def verdicts(rounds: Sequence[Round]) -> list[str]:
    """What is above its bar, or was not answered whole; empty when all is well."""
    found = []
    for each in dict.fromkeys(one.load for one in rounds):
        faults = [
            f"{each.name}, {name}: {fault}"
            for one in rounds
            if one.load is each
            for name, taken in one.samples.items()
            for fault in taken.faults
        ]
        found += faults[:3]
        costs = ratios(rounds, each)
        if each.bar and costs and statistics.median(costs) > each.bar:
            found.append(f"{each.name}: {statistics.median(costs):.1f} relays, the bar is {each.bar:g}")
    return found


def _percentile(values: Sequence[float], share: float) -> float:
    if not values:
        return 0.0
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
