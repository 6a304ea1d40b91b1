"""Requests that every account refused alike: remembered for a while, so that an instant retry does not burn the pool.

When all accounts that were asked refuse a request for its pace or its size, the request is to blame. The very same
request is then answered the same way, and nobody is asked, for as long as ``refusal_memory`` says. A request is known
by a digest of its team, its path and its body; nothing of it can be read back.
"""

from __future__ import annotations

import asyncio
import hashlib

from msgspec import Struct

from core.redis_pipe import Pipe
from ir.errors import Fault, Reason, Stage


class Refusal(Struct, frozen=True):
    """What was answered, and for how many seconds more it will be."""

    reason: Reason
    seconds: float

    @property
    def fault(self) -> Fault:
        return Fault(self.reason, Stage.HEADERS, retry_after=self.seconds)


def fingerprint(team_id: int, endpoint: str, raw: bytes) -> str:
    """The request's key in Redis. ``raw``: the body as it came."""
    digest = hashlib.blake2b(raw, digest_size=16, person=team_id.to_bytes(8, "big"))
    digest.update(endpoint.encode())
    return f"poolgate:refused:{digest.hexdigest()}"


def ask(pipe: Pipe, key: str) -> asyncio.Future[bytes | None]:
    """Sends the question; what is sent after it on the pipe is answered after it. ``hear`` takes the answer."""
    return pipe.send("GET", key)


async def hear(asked: asyncio.Future[bytes | None], now: float, memory: float) -> Refusal | None:
    """What is remembered of the request, if anything; ``now`` in Unix seconds, ``memory``: seconds that no wait is
    longer than, however much clocks disagree. Raises ``PipeDown``."""
    found = await asked
    if found is None:
        return None
    reason, _, until = found.decode().partition(" ")
    return Refusal(Reason(reason), min(max(float(until) - now, 1.0), max(memory, 1.0)))


async def remember(pipe: Pipe, key: str, reason: Reason, now: float, memory: float) -> None:
    """For ``memory`` seconds, more than 0. Raises ``PipeDown``."""
    await pipe.call("SET", key, f"{reason.value} {now + memory:.3f}", "PX", max(1, int(memory * 1000)))
