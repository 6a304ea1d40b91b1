"""What jobs found out about accounts, as a serving process knows it: models that each may use, quotas that are spent.

Jobs write two hashes in Redis and move a counter; a process looks at the counter with its beat and reads the hashes
when it moved. So a request costs nothing, waits for nothing, and whatever is not known, or not lately, is allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from accounts.pool import Verdict
from core.redis_pipe import Pipe

USABLE = "poolgate:usable"
"""A hash: field = account id, value = ``Usable`` as JSON."""

COUNTER = "poolgate:known"
BELIEVED = 1800.0
"""Seconds for which a list of usable models is believed."""

UNLISTED = frozenset({"default"})
"""Models that no upstream lists everywhere: what they stand for is the account's own choice."""


class Usable(Struct, frozen=True):
    """``models``: every name that the account may ask for; ``at``: Unix seconds at which the upstream said so."""

    models: tuple[str, ...]
    at: float


class _Listed(Struct, frozen=True):
    names: frozenset[str]
    at: float


_decode_usable = msgspec.json.Decoder(Usable).decode


async def announce(pipe: Pipe) -> None:
    """Tells every process that the hashes have changed. Raises ``PipeDown``."""
    await pipe.call("INCR", COUNTER)


class Knowledge:
    """For one process. ``now`` gives Unix seconds."""

    def __init__(self, pipe: Pipe, *, now: Callable[[], float] = time.time) -> None:
        self._pipe = pipe
        self._now = now
        self._counter: bytes | None = None
        self._lists: Mapping[int, _Listed] = {}
        self._usable: Mapping[int, frozenset[str]] = {}
        self._known: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        """Reads what has changed, and forgets what is too old. Raises ``PipeDown`` or ``PipeError``."""
        counter = await self._pipe.call("GET", COUNTER)
        if counter != self._counter:
            found: list[bytes] = await self._pipe.call("HGETALL", USABLE)
            self._counter = counter
            self._lists = {int(field): _listed(value) for field, value in zip(found[::2], found[1::2], strict=True)}
        oldest = self._now() - BELIEVED
        self._usable = {number: listed.names for number, listed in self._lists.items() if listed.at >= oldest}
        self._known = frozenset().union(*self._usable.values()) - UNLISTED

    def barred(self, account_id: int, model: str) -> Verdict | None:
        """Why the account must not be asked for the upstream's model; None when nothing is known against it.

        A model that is on nobody's list is none that lists tell anything about.
        """
        usable = self._usable.get(account_id)
        if usable is not None and model in self._known and model not in usable:
            return Verdict.NOT_USABLE
        return None


def _listed(value: bytes) -> _Listed:
    usable = _decode_usable(value)
    return _Listed(frozenset(usable.models), usable.at)
