"""What jobs found out about accounts, as a serving process knows it: models that each may use, quotas that are spent.

Jobs write two hashes in Redis and move a counter; a process looks at the counter with its beat and reads the hashes
when it moved. So a request costs nothing, waits for nothing, and whatever is not known, or not lately, is allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from accounts.pool import Verdict
from core.redis_pipe import Pipe

T = TypeVar("T")

USABLE = "poolgate:usable"
"""A hash: field = account id, value = ``Usable`` as JSON."""

QUOTA = "poolgate:quota"
"""A hash: field = account id, value = ``Quota`` as JSON."""

SERVED = "poolgate:served"
"""A hash: field = account id, value = Unix seconds at which a process last knew that it had served."""

COUNTER = "poolgate:known"
BELIEVED = 1800.0
"""Seconds for which a list of usable models is believed; it is asked for every five minutes."""

QUOTA_BELIEVED = 3600.0
"""Seconds for which a quota is believed; it is asked for every ten minutes."""

OWN_MODELS = ("default", "auto", "composer", "grok")
"""What the names of models begin with that count as the upstream's own; every other is of the API bucket."""

UNLISTED = frozenset({"default"})
"""Models that no upstream lists everywhere: what they stand for is the account's own choice."""


class Usable(Struct, frozen=True):
    """``models``: every name that the account may ask for; ``at``: Unix seconds at which the upstream said so."""

    models: tuple[str, ...]
    at: float


class Quota(Struct, frozen=True):
    """Shares of the two buckets that are used, 0 to 1 and beyond; None: not told. Times in Unix seconds; ``ends_at`` is
    0.0 where it was not told."""

    at: float
    auto: float | None = None
    api: float | None = None
    spent_cents: int | None = None
    limit_cents: int | None = None
    ends_at: float = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left of either."""
        return min(self.auto or 0.0, self.api or 0.0) >= 1.0

    def is_believed(self, now: float) -> bool:
        return now < self.at + QUOTA_BELIEVED and (not self.ends_at or now < self.ends_at)


def read_quota(answer: Mapping[str, Any], now: float) -> Quota:
    """From what ``GetCurrentPeriodUsage`` answers (``accounts.quota``). Raises ``ValueError``, ``TypeError`` or
    ``AttributeError`` for what tells nothing."""
    plan = answer.get("planUsage") or {}
    total = _number(plan.get("totalPercentUsed"))
    auto, api = (_number(plan.get(f"{bucket}PercentUsed"), total) for bucket in ("auto", "api"))
    if auto is None and api is None:
        raise ValueError("no percentages")
    spent, limit, ends = plan.get("totalSpend"), plan.get("limit"), _number(answer.get("billingCycleEnd"))
    return Quota(
        at=now,
        auto=None if auto is None else auto / 100,
        api=None if api is None else api / 100,
        spent_cents=None if spent is None else int(float(spent)),
        limit_cents=None if limit is None else int(float(limit)),
        ends_at=(ends or 0.0) / 1000,
    )


def bucket_of(model: str) -> str:
    """``auto`` or ``api``: the one that the upstream's model counts for."""
    return "auto" if model.startswith(OWN_MODELS) else "api"


class _Listed(Struct, frozen=True):
    names: frozenset[str]
    at: float


_decode_quota = msgspec.json.Decoder(Quota).decode
_decode_usable = msgspec.json.Decoder(Usable).decode


async def announce(pipe: Pipe) -> None:
    """Tells every process that the hashes have changed. Raises ``PipeDown``."""
    await pipe.call("INCR", COUNTER)


async def note_served(pipe: Pipe, account_ids: Iterable[int], now: float) -> None:
    """These have served a moment ago. Raises ``PipeDown``."""
    pairs = [part for number in account_ids for part in (number, int(now))]
    if pairs:
        await pipe.call("HSET", SERVED, *pairs)


async def served_since(pipe: Pipe, since: float) -> set[int]:
    """The accounts that have served since then (Unix seconds): nobody need ask them whether they can. Raises
    ``PipeDown``."""
    found: list[bytes] = await pipe.call("HGETALL", SERVED)
    pairs = zip(found[::2], found[1::2], strict=True)
    return {int(number) for number, at in pairs if float(at) >= since}


class Knowledge:
    """For one process. ``now`` gives Unix seconds."""

    def __init__(self, pipe: Pipe, *, now: Callable[[], float] = time.time) -> None:
        self._pipe = pipe
        self._now = now
        self._counter: bytes | None = None
        self._lists: Mapping[int, _Listed] = {}
        self._usable: Mapping[int, frozenset[str]] = {}
        self._kept: Mapping[int, Quota] = {}
        self._used: Mapping[str, Mapping[int, float]] = {"auto": {}, "api": {}}
        self._known: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        """Reads what has changed, and forgets what is too old. Raises ``PipeDown`` or ``PipeError``."""
        counter = await self._pipe.call("GET", COUNTER)
        if counter != self._counter:
            lists, quotas = [await self._pipe.call("HGETALL", key) for key in (USABLE, QUOTA)]
            self._counter = counter
            usable = _read(lists, _decode_usable)
            self._lists = {number: _Listed(frozenset(one.models), one.at) for number, one in usable.items()}
            self._kept = _read(quotas, _decode_quota)
        now = self._now()
        oldest = now - BELIEVED
        self._usable = {number: listed.names for number, listed in self._lists.items() if listed.at >= oldest}
        believed = {number: quota for number, quota in self._kept.items() if quota.is_believed(now)}
        self._used = {
            "auto": {number: quota.auto for number, quota in believed.items() if quota.auto is not None},
            "api": {number: quota.api for number, quota in believed.items() if quota.api is not None},
        }
        self._known = frozenset().union(*self._usable.values()) - UNLISTED

    def barred(self, account_id: int, model: str) -> Verdict | None:
        """Why the account must not be asked for the upstream's model; None when nothing is known against it.

        A model that is on nobody's list is none that lists tell anything about.
        """
        usable = self._usable.get(account_id)
        if usable is not None and model in self._known and model not in usable:
            return Verdict.NOT_USABLE
        if self._used[bucket_of(model)].get(account_id, 0.0) >= 1.0:
            return Verdict.QUOTA_SPENT
        return None

    def used(self, model: str) -> Mapping[int, float]:
        """By account id, the share that is used of the bucket that the upstream's model counts for."""
        return self._used[bucket_of(model)]


def _number(value: Any, otherwise: float | None = None) -> float | None:
    """Raises ``ValueError`` or ``TypeError``."""
    return otherwise if value is None else float(value)


def _read(found: Sequence[bytes], decode: Callable[[bytes], T]) -> dict[int, T]:
    """By account id; what another version wrote and cannot be read is not known."""
    known: dict[int, T] = {}
    for field, value in zip(found[::2], found[1::2], strict=True):
        with suppress(msgspec.MsgspecError):
            known[int(field)] = decode(value)
    return known
