"""Reading a Redis stream at least once: the side of background jobs.

A batch is read for the group and stays pending until it is settled; one that its reader never settled (it died) is
taken over by a later read after ``claim_after``. So whatever is done with an entry must be safe to do twice. Entries
that cannot be used go to the stream's dead list (a capped stream; its length is their count) and hold up nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import redis
from msgspec import Struct

GROUP = "poolgate"
CLAIM_AFTER = 30.0
DEAD_KEPT = 10_000


class Entry(Struct, frozen=True):
    """One message: the server's id of it, and its fields."""

    id: bytes
    fields: Mapping[bytes, bytes]


class Inbox:
    """``claim_after``: seconds after which a batch that was read and not settled is taken over."""

    def __init__(self, client: redis.Redis, stream: str, *, claim_after: float = CLAIM_AFTER) -> None:
        self._client = client
        self._stream = stream
        self._claim_after = claim_after
        try:
            client.xgroup_create(stream, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    @property
    def dead(self) -> str:
        return f"{self._stream}:dead"

    def read(self, count: int) -> list[Entry]:
        """Up to ``count`` entries: those left behind by a reader that died, then new ones. Never waits."""
        idle = int(self._claim_after * 1000)
        answer: Any = self._client.xautoclaim(self._stream, GROUP, "reader", min_idle_time=idle, count=count)
        found = answer[1]
        if len(found) < count:
            fresh: Any = self._client.xreadgroup(GROUP, "reader", {self._stream: ">"}, count=count - len(found))
            found += fresh[0][1] if fresh else []
        return [Entry(entry_id, fields) for entry_id, fields in found]

    def settle(self, entries: Collection[Entry], dead: Collection[bytes] = ()) -> None:
        """Takes the entries off the stream, in one step; those whose id is in ``dead`` go to the dead list."""
        if not entries:
            return
        ids = [entry.id for entry in entries]
        with self._client.pipeline(transaction=True) as together:
            for entry in entries:
                if entry.id in dead:
                    fields = cast("Any", dict(entry.fields))
                    together.xadd(self.dead, fields, maxlen=DEAD_KEPT, approximate=True)
            together.xack(self._stream, GROUP, *ids)
            together.xdel(self._stream, *ids)
            together.execute()
