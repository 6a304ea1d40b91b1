"""What Redis knows of accounts right now, read from outside the data plane: by pages, commands and route checks.

The data plane itself never reads this: its one script looks and takes in the same step (``accounts.leases``). Here the
same fields are only looked at, so whatever is said may be over a moment later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum

import redis
from msgspec import Struct

from accounts.compile import AccountState, AccountView
from accounts.cooldowns import CANARY, HOLD, WARM
from accounts.leases import WARMING, cooldowns_key, slots_key
from accounts.pool import WHOLE
from accounts.troubles import TROUBLE, egress_of, is_forgotten, read_trouble, upstream_of


class Standing(StrEnum):
    """Whether an account would be taken for a model, and if not, why."""

    READY = "ready"
    PROBING = "probing"  # it comes back from a rest: one request at a time
    WARMING = "warming"
    OFF = "off"
    NO_SLOT = "no_slot"
    RESTING = "resting"
    HELD = "held"  # for some seconds, until it is known who is to blame
    DRAINING = "draining"  # goes on with the conversations that it has
    WAY_OUT_RESTS = "way_out_rests"
    WAY_OUT_PAUSED = "way_out_paused"  # two accounts on it were blocked: an admin has to look
    CIRCUIT_OPEN = "circuit_open"  # its upstream is down: one request now and then tries it


class Look(Struct, frozen=True):
    """``until``: Unix seconds at which a rest ends; ``in_use`` of ``slots`` that may be used now."""

    standing: Standing
    in_use: int
    slots: int
    until: float | None = None

    @property
    def would_serve(self) -> bool:
        return self.standing in (Standing.READY, Standing.PROBING, Standing.WARMING)


class Live(Struct, frozen=True):
    """``in_use``: slots taken, by account; ``rests``: the fields of its rests, Unix milliseconds. ``now`` is Redis'.
    ``ways_out`` that rest and ``circuits`` that are open, with the time until which or at which the next may try."""

    now: float
    in_use: Mapping[int, int]
    rests: Mapping[int, Mapping[str, int]]
    ways_out: Mapping[str, float] = {}
    circuits: Mapping[str, float] = {}
    paused: frozenset[str] = frozenset()

    def look(self, account: AccountView, model: str) -> Look:
        """How the account stands for an upstream model ("" for none in particular)."""
        in_use, fields = self.in_use.get(account.id, 0), self.rests.get(account.id, {})
        if account.state is not AccountState.READY:
            return Look(Standing.OFF, in_use, account.slots)
        if account.draining:
            return Look(Standing.DRAINING, in_use, account.slots)
        if egress_of(account) in self.paused:
            return Look(Standing.WAY_OUT_PAUSED, in_use, account.slots)
        if (until := self.ways_out.get(egress_of(account), 0.0)) > self.now:
            return Look(Standing.WAY_OUT_RESTS, in_use, account.slots, until)
        circuit = self.circuits.get(upstream_of(account, model)) if model else None
        if circuit is not None and not is_forgotten(circuit, self.now):
            return Look(Standing.CIRCUIT_OPEN, in_use, account.slots, circuit)
        names = [WHOLE, model] if model else [WHOLE]
        for prefix, standing in (("", Standing.RESTING), (HOLD, Standing.HELD)):
            until = max((fields.get(prefix + name, 0) / 1000 for name in names), default=0.0)
            if until > self.now:
                return Look(standing, in_use, account.slots, until)
        if any(name in fields and fields.get(CANARY + name, 0) / 1000 > self.now for name in names):
            return Look(Standing.NO_SLOT, in_use, 0)
        slots, standing = self._slots(account, names, fields)
        return Look(Standing.NO_SLOT if in_use >= slots else standing, in_use, slots)

    def _slots(self, account: AccountView, names: list[str], fields: Mapping[str, int]) -> tuple[int, Standing]:
        if any(name in fields for name in names):
            return account.slots, Standing.PROBING
        share = min((self._share(fields.get(WARM + name)) for name in names), default=1.0)
        return max(1, math.floor(account.slots * share)), Standing.READY if share == 1.0 else Standing.WARMING

    def _share(self, recovered_at: int | None) -> float:
        age = self.now - (recovered_at or 0) / 1000
        return next((share for until, share in WARMING if age < until), 1.0)


def read(client: redis.Redis, accounts: Iterable[AccountView]) -> Live:
    """One round trip. Raises ``RedisError``."""
    listed = list(accounts)
    seconds, micros = client.time()
    now = seconds + micros / 1e6
    pipe = client.pipeline(transaction=False)
    for account in listed:
        pipe.zcount(slots_key(account.id), f"({int(now * 1000)}", "+inf")
        pipe.hgetall(cooldowns_key(account.id))
    pipe.hgetall(TROUBLE)
    *answers, trouble = pipe.execute()
    known = read_trouble(trouble)
    in_use = {account.id: int(answers[2 * place]) for place, account in enumerate(listed)}
    rests = {
        account.id: {field.decode(): int(value) for field, value in answers[2 * place + 1].items()}
        for place, account in enumerate(listed)
    }
    return Live(now, in_use, rests, known.egress, known.circuits, known.paused)
