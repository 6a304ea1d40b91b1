"""One record for every admitted request, whatever dies: the Redis side of it.

At admission the record goes into a hash of the process (``open``); when the request ends, one script gives back what
it holds, takes the entry out and puts the final record on a stream, from which ``ops.drain`` writes rows. A process
shows that it lives with a key that expires; when that is gone, ``ops.drain.reap_lost`` moves what is left open to the
stream as lost. The row's key is the request id, so a record that is put on the stream twice (a lost reply, a process
that only slept) is still one row: closing is safe to repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from accounts.leases import held_key, name_holder
from accounts.slot_scripts import SETTLE
from core.redis_pipe import Pipe, Script
from ops.record import Record, encode

RECORDS = "poolgate:records"
PROCESSES = "poolgate:processes"

LIFE = 15.0
"""Seconds after its last beat at which a process counts as gone."""

CLOSE = Script(
    SETTLE
    + """
-- KEYS: open, held, the records stream. ARGV: request id, record, its trace or "", holder
give_back_all(KEYS[2], ARGV[4])
redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[3] == '' then
  redis.call('XADD', KEYS[3], '*', 'record', ARGV[2])
else
  redis.call('XADD', KEYS[3], '*', 'record', ARGV[2], 'trace', ARGV[3])
end
"""
)

BEAT = Script("""
-- KEYS: alive, the set of processes. ARGV: process, life in ms
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], 1, 'PX', ARGV[2])
""")


def open_key(process: str) -> str:
    """A hash: field = request id, value = the record as it was at admission, JSON."""
    return f"poolgate:open:{process}"


def alive_key(process: str) -> str:
    return f"poolgate:alive:{process}"


class Recorder:
    """``process`` names this process and this life of it: never the same twice."""

    def __init__(self, pipe: Pipe, process: str) -> None:
        self._pipe = pipe
        self._process = process
        self._open = open_key(process)
        self._closing = [self._open, held_key(process), RECORDS]

    def open(self, record: Record) -> asyncio.Future[Any]:
        """Sends the record as admitted; the commands that follow on the pipe come after it."""
        return self._pipe.send("HSET", self._open, record.request_id, encode(record))

    def close(self, record: Record, trace: bytes = b"") -> asyncio.Future[Any]:
        """Sends the final record and its trace, and gives back what the request holds. The future may fail: see
        ``close_again``."""
        return self._pipe.start(CLOSE, self._closing, self._closed(record, trace))

    async def close_again(self, record: Record, trace: bytes = b"") -> None:
        """The same, awaited, and for a server that has forgotten the script. Raises ``PipeDown``."""
        await self._pipe.run(CLOSE, self._closing, self._closed(record, trace))

    async def beat(self) -> None:
        """Shows that the process lives. Raises ``PipeDown``."""
        keys: Sequence[str] = [alive_key(self._process), PROCESSES]
        await self._pipe.run(BEAT, keys, [self._process, int(LIFE * 1000)])

    async def leave(self) -> None:
        """Stops living: whatever is still open is lost and may be reaped at once. Raises ``PipeDown``."""
        await self._pipe.call("DEL", alive_key(self._process))

    def _closed(self, record: Record, trace: bytes) -> list[str | bytes]:
        holder = name_holder(record.team_id, self._process, record.request_id)
        return [record.request_id, encode(record), trace, holder]
