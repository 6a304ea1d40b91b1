"""Slots: how many requests an account serves at once, kept in Redis for all processes together.

A slot is a member of a sorted set (one set an account, score = when it expires, by the server's clock); the caller's
own limit (requests at once per API key) is such a set too. One script looks at a few accounts in order, skips the
cooled ones, throws out what expired, counts, and takes the first with room.

What a request holds is written beside it, in one hash per process (``held``): field = the request, value = the set
its slot is in. So a slot can be given back knowing only who holds it. That is what makes every way out safe: a
request that was cancelled before it heard which account it got gives back the right one, giving back twice does
nothing, and the slots of a process that vanished are found without searching. Keys inside the scripts are therefore
not all declared: one Redis server, not a cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any

from msgspec import Struct

from accounts.compile import AccountView
from core.redis_pipe import Pipe, Script

FIRST_LOOK, FURTHER_LOOKS = 3, 16
"""Accounts looked at in one go: nearly always the first has room, and each more costs here and at the server; where
it has not, the pool is close to full and the next look is a wide one."""

HINT_LIFE = 5.0
"""Seconds for which a cooldown heard of is believed without asking (an admin may clear it at any time), and after
which, at twice as many at the latest, the load of an account that was not looked at is forgotten."""

SETTLE = """
local function give_back(held, field, holder)
  local set = redis.call('HGET', held, field)
  if set then
    redis.call('ZREM', set, holder)
    redis.call('HDEL', held, field)
  end
end
"""
"""Shared with the script that closes a record: see ``ops.recorder``."""

TAKE = Script(
    SETTLE
    + """
-- KEYS: held, the caller's set, then for each account its set and its cooldowns
-- ARGV: holder, life in ms, the caller's limit (0: none), model, then the slots of each account
-- Returns {which, seen...}: which = -1 the caller's limit is reached, 0 none has room; seen = requests running, or
-- minus the milliseconds that the account is still cooled.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local holder, limit, ends = ARGV[1], tonumber(ARGV[3]), now + ARGV[2]
give_back(KEYS[1], holder, holder)
if limit > 0 and not redis.call('ZSCORE', KEYS[2], holder) then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZCARD', KEYS[2]) >= limit then return {-1} end
end
local seen = {}
for i = 1, #KEYS / 2 - 1 do
  local set, rest = KEYS[2 * i + 1], 0
  for _, ends_at in ipairs(redis.call('HMGET', KEYS[2 * i + 2], '*', ARGV[4])) do
    if ends_at then rest = math.max(rest, ends_at - now) end
  end
  if rest > 0 then
    seen[i] = -rest
  else
    redis.call('ZREMRANGEBYSCORE', set, '-inf', now)
    seen[i] = redis.call('ZCARD', set)
    if seen[i] < tonumber(ARGV[4 + i]) then
      redis.call('ZADD', set, ends, holder)
      redis.call('HSET', KEYS[1], holder, set)
      if limit > 0 then
        redis.call('ZADD', KEYS[2], ends, holder)
        redis.call('HSET', KEYS[1], holder .. '|key', KEYS[2])
      end
      return {i, unpack(seen)}
    end
  end
end
return {0, unpack(seen)}
"""
)

RELEASE = Script(SETTLE + "give_back(KEYS[1], ARGV[1], ARGV[1])")

RENEW = Script("""
-- KEYS: held. ARGV: life in ms, then the holders that are still at work. Returns how many slots live on.
local clock = redis.call('TIME')
local ends, renewed = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1], 0
for i = 2, #ARGV do
  for _, field in ipairs({ARGV[i], ARGV[i] .. '|key'}) do
    local set = redis.call('HGET', KEYS[1], field)
    if set then renewed = renewed + redis.call('ZADD', set, 'XX', 'CH', ends, ARGV[i]) end
  end
end
return renewed
""")


def slots_key(account_id: int) -> str:
    return f"poolgate:slots:{account_id}"


def caller_key(key_id: int) -> str:
    return f"poolgate:caller:{key_id}"


def cooldowns_key(account_id: int) -> str:
    """A hash: field = model or ``*``, value = Unix milliseconds until which it rests."""
    return f"poolgate:cool:{account_id}"


def held_key(process: str) -> str:
    return f"poolgate:held:{process}"


class Shortage(StrEnum):
    """Why no slot was given."""

    CALLER_BUSY = "caller_busy"
    FULL = "full"
    COOLED = "cooled"
    NO_ACCOUNT = "no_account"


class Lease(Struct, frozen=True):
    """A slot on an account, held by a request. ``load``: how many others the account was serving."""

    account: AccountView
    holder: str
    load: int


class Refused(Struct, frozen=True):
    """``soonest``: seconds until the first cooldown ends; None when only slots are short, one may be free any time."""

    shortage: Shortage
    soonest: float | None = None


class Caller(Struct, frozen=True):
    """Whose limit a request counts against; ``limit`` 0 means none."""

    key_id: int = 0
    limit: int = 0


NOBODY = Caller()


class Slots:
    """Takes and returns slots for one process, and remembers what the server said about loads and cooldowns."""

    def __init__(self, pipe: Pipe, process: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipe = pipe
        self._held = held_key(process)
        self._clock = clock
        self._cooled: dict[tuple[int, str], float] = {}
        self._loads: dict[int, int] = {}
        self._heard: set[int] = set()
        self._forgets_at = clock() + HINT_LIFE

    def loads(self) -> Mapping[int, int]:
        """Requests running, by account id, as far as was heard lately."""
        if self._clock() >= self._forgets_at:
            self._loads = {number: load for number, load in self._loads.items() if number in self._heard}
            self._heard.clear()
            self._forgets_at = self._clock() + HINT_LIFE
        return self._loads

    def cooled(self) -> set[tuple[int, str]]:
        """What was heard to rest, lately enough to be believed."""
        now = self._clock()
        for what in [what for what, until in self._cooled.items() if until <= now]:
            del self._cooled[what]
        return set(self._cooled)

    def forget_rests(self) -> None:
        """Believes nothing that was heard of rests: an admin may have ended some."""
        self._cooled.clear()

    async def take(
        self, accounts: Iterable[AccountView], model: str, holder: str, *, life: float, caller: Caller = NOBODY
    ) -> Lease | Refused:
        """The first of ``accounts`` with room, in ``life`` seconds' trust. What ``holder`` held before is given back.

        Raises ``PipeDown``; when that or a cancellation strikes, ``release`` (or closing the record) still gives back
        whatever was taken.
        """
        refused = Refused(Shortage.NO_ACCOUNT)
        order, size = iter(accounts), FIRST_LOOK
        while batch := list(islice(order, size)):
            size = FURTHER_LOOKS
            which, *seen = await self._pipe.run(TAKE, *self._question(batch, model, holder, life, caller))
            self._learn(batch, seen, model)
            if which > 0:
                account = batch[which - 1]
                self._loads[account.id] = seen[which - 1] + 1
                return Lease(account, holder, seen[which - 1])
            if which < 0:
                return Refused(Shortage.CALLER_BUSY)
            refused = _merge(refused, seen)
        return refused

    def release(self, lease: Lease) -> asyncio.Future[Any]:
        """Gives the slot back, and only once; nothing need wait for the reply."""
        self.note_return(lease)
        return self._pipe.start(RELEASE, [self._held], [lease.holder])

    def note_return(self, lease: Lease) -> None:
        """Takes note that the slot is given back by other means."""
        load = self._loads.get(lease.account.id, 0)
        self._loads[lease.account.id] = max(load - 1, 0)

    async def renew(self, holders: Sequence[str], *, life: float) -> int:
        """Gives what these requests hold ``life`` seconds from now. Raises ``PipeDown``."""
        renewed: int = await self._pipe.run(RENEW, [self._held], [int(life * 1000), *holders])
        return renewed

    def _question(
        self, batch: Sequence[AccountView], model: str, holder: str, life: float, caller: Caller
    ) -> tuple[list[str], list[str | int]]:
        keys = [self._held, caller_key(caller.key_id)]
        args: list[str | int] = [holder, int(life * 1000), caller.limit, model]
        for account in batch:
            keys.append(slots_key(account.id))
            keys.append(cooldowns_key(account.id))
            args.append(account.slots)
        return keys, args

    def _learn(self, batch: Sequence[AccountView], seen: Sequence[int], model: str) -> None:
        for account, load in zip(batch, seen, strict=False):  # the script stops at the first with room
            self._heard.add(account.id)
            if load >= 0:
                self._loads[account.id] = load
            else:
                self._cooled[account.id, model] = self._clock() + min(-load / 1000, HINT_LIFE)


def _merge(refused: Refused, seen: Sequence[int]) -> Refused:
    """What a further batch without room adds to the reason."""
    rests = [-load / 1000 for load in seen if load < 0]
    if refused.soonest is not None:
        rests.append(refused.soonest)
    full = refused.shortage is Shortage.FULL or any(load >= 0 for load in seen)
    return Refused(Shortage.FULL if full else Shortage.COOLED, min(rests, default=None))
