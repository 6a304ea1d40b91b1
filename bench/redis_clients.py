"""What one slot costs with different Redis clients: ``python -m bench.redis_clients redis://… [rounds]``.

Each way takes a slot (``accounts.leases``, five accounts to look at) and gives it back, one request at a time and fifty
at once, in interleaved rounds; the table shows medians of this process's CPU time and of the wall time, in
microseconds for the pair. valkey-glide is measured where it is installed. The database is emptied first: give it a
number of its own.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio
import uvloop

from accounts.leases import held_key, waiting_key
from accounts.slot_scripts import RELEASE, TAKE
from core.redis_pipe import Pipe

ACCOUNTS = range(1, 6)
KEYS = [held_key("bench"), waiting_key("model")]
COUNT = 2000

Pair = Callable[[str], Awaitable[None]]


def arguments(holder: str) -> list[str]:
    caller = ["7", "0", "0", "0", "3", "0"]
    accounts = [text for number in ACCOUNTS for text in (str(number), "1000")]
    return [holder, "600000", "model", *caller, "180000", "1", *accounts]


async def with_pipe(url: str) -> Pair:
    pipe = await Pipe.connect(url)
    await pipe.learn(TAKE, RELEASE)

    async def pair(holder: str) -> None:
        await pipe.run(TAKE, KEYS, arguments(holder))
        await pipe.run(RELEASE, KEYS[:1], [holder])

    return pair


async def with_redis_py(url: str) -> Pair:
    client = redis.asyncio.Redis.from_url(url, max_connections=50)

    async def pair(holder: str) -> None:
        await client.evalsha(TAKE.sha, len(KEYS), *KEYS, *arguments(holder))
        await client.evalsha(RELEASE.sha, 1, KEYS[0], holder)

    return pair


async def with_glide(url: str) -> Pair:
    glide = importlib.import_module("glide")  # only where it is there

    parts = urlsplit(url)
    config = glide.GlideClientConfiguration(
        [glide.NodeAddress(parts.hostname, parts.port)],
        credentials=glide.ServerCredentials(parts.password) if parts.password else None,
        database_id=int(parts.path.strip("/") or 0),
    )
    client = await glide.GlideClient.create(config)
    take, release = glide.Script(TAKE.text), glide.Script(RELEASE.text)

    async def pair(holder: str) -> None:
        await client.invoke_script(take, keys=KEYS, args=arguments(holder))
        await client.invoke_script(release, keys=KEYS[:1], args=[holder])

    return pair


async def measure(pair: Pair, at_once: int) -> tuple[float, float]:
    """CPU and wall microseconds for one pair."""
    gc.collect()
    wall, used = time.perf_counter(), time.process_time()

    async def lane(number: int) -> None:
        for turn in range(COUNT // at_once):
            await pair(f"r{number}-{turn}")

    await asyncio.gather(*[lane(number) for number in range(at_once)])
    return (time.process_time() - used) / COUNT * 1e6, (time.perf_counter() - wall) / COUNT * 1e6


async def main(url: str, rounds: int) -> None:
    ways: dict[str, Any] = {"pipe": await with_pipe(url), "redis-py": await with_redis_py(url)}
    try:
        ways["valkey-glide"] = await with_glide(url)
    except ImportError:
        print("valkey-glide is not installed")
    results: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for number in range(rounds + 1):
        for way, pair in ways.items():
            for at_once in (1, 50):
                result = await measure(pair, at_once)
                if number:  # the first round warms up
                    results.setdefault((way, at_once), []).append(result)
    for (way, at_once), measured in results.items():
        cpu, wall = (statistics.median(column) for column in zip(*measured, strict=True))
        print(f"{way:14}{at_once:4} at once  CPU {cpu:7.1f} µs  wall {wall:7.1f} µs")


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5))
    os._exit(0)  # glide's threads do not end by themselves
