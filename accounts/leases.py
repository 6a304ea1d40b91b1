"""Slots: how many requests an account serves at once, kept in Redis for all processes together.

A slot is a member of a sorted set (one set an account, score = when it expires, by the server's clock); what a caller
has running (per key, member and team) are such sets too. One script looks at a few accounts in order, skips what rests,
throws out what expired, counts, and takes the first with room. An account whose rest is over gives one slot, to a
canary, until that was served, and then a growing share of its slots (``accounts.cooldowns`` says which fields tell).

What a request holds is written beside it, in one hash per process (``held``): field = the request, value = the set
its slot is in. So a slot can be given back knowing only who holds it. That is what makes every way out safe: a
request that was cancelled before it heard which account it got gives back the right one, giving back twice does
nothing, and the slots of a process that vanished are found without searching. Keys inside the scripts are therefore
not all declared: one Redis server, not a cluster.

Who finds no room may wait in line (``accounts.lines``): nobody overtakes an earlier request of the same team.
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
from accounts.hints import Hints
from accounts.pool import Choice
from core.redis_pipe import Pipe, Script

FIRST_LOOK, FURTHER_LOOKS = 3, 16
"""Accounts looked at in one go: nearly always the first has room, and each more costs here and at the server; where
it has not, the pool is close to full and the next look is a wide one."""

HINT_LIFE = 5.0
"""Seconds after which, at twice as many at the latest, the load of an account that was not looked at is forgotten."""

CANARY_LIFE = 30.0
"""Seconds for which nobody else is let at an account that comes back from a rest while one request tries it."""

WARMING = ((20.0, 0.25), (40.0, 0.5), (60.0, 0.75))
"""Up to so many seconds after a recovery, so large a share of an account's slots, though always one."""

CROWDED = 0.8
"""Share of a pool's slots in use from which teams are held to equal shares."""

PARTS = ("key", "member", "team")
"""Whose requests are counted: each has a set of its own, and a limit or none."""

SETTLE = """
local function give_back(held, field, holder)
  local set = redis.call('HGET', held, field)
  if set then
    redis.call('ZREM', set, holder)
    redis.call('HDEL', held, field)
  end
end
local function give_back_all(held, holder)
  for _, part in ipairs({'', '|key', '|member', '|team'}) do give_back(held, holder .. part, holder) end
end
"""
"""Shared with the script that closes a record: see ``ops.recorder``."""

TAKE = Script(
    SETTLE
    + """
-- KEYS: held
-- ARGV: holder, life in ms, model, then key, limit, member, limit, team, limit (limit 0: none; id 0: nobody),
--   the pool's slots when it is crowded (0: it is not), whether this is the first look (1) or a further one (0), the
--   life of a canary, then for each account its id and its slots
-- Returns {which, canary, seen...}: which = 0 none has room; -1, -2, -3 the limit of key, member, team is reached; -4
-- an earlier request of the team is in line; -5 the team has its share. seen = requests running, or minus the
-- milliseconds that the account still rests.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local holder, model, ends = ARGV[1], ARGV[3], now + ARGV[2]
local team, crowd, first = ARGV[8], tonumber(ARGV[10]), ARGV[11] == '1'
local line = 'poolgate:line:' .. model
give_back(KEYS[1], holder, holder)

local function running(set)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', now)
  return redis.call('ZCARD', set)
end
local names = {'key', 'member', 'team'}
for i, name in ipairs(names) do
  local set, limit = 'poolgate:' .. name .. ':' .. ARGV[2 * i + 2], tonumber(ARGV[2 * i + 3])
  if limit > 0 and not redis.call('ZSCORE', set, holder) and running(set) >= limit then return {-i, 0} end
end
if first and redis.call('EXISTS', line) == 1 then
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', line .. ':alive', '-inf', now)) do
    redis.call('ZREM', line, dead)
    redis.call('ZREM', line .. ':alive', dead)
  end
  local mine, others = false, false
  for _, member in ipairs(redis.call('ZRANGE', line, 0, -1)) do
    local whose, who = string.match(member, '^([^|]*)|(.*)$')
    if whose ~= team then others = true
    elseif who == holder then mine = true
    elseif not mine then return {-4, 0} end
  end
  if crowd > 0 and others then
    local active = 1
    for _, one in ipairs(redis.call('SMEMBERS', 'poolgate:teams')) do
      if one ~= team then
        local has = running('poolgate:team:' .. one) > 0
        if has then active = active + 1 else redis.call('SREM', 'poolgate:teams', one) end
      end
    end
    if running('poolgate:team:' .. team) >= math.ceil(crowd / math.max(active, 2)) then return {-5, 0} end
  end
end

local function share(recovered)
  local age = now - tonumber(recovered)
  if age < 20000 then return 0.25 elseif age < 40000 then return 0.5 elseif age < 60000 then return 0.75 end
  return 1
end
local seen, place = {}, 13
while ARGV[place] do
  local id, room, canary = ARGV[place], tonumber(ARGV[place + 1]), 0
  local set, cool, i = 'poolgate:slots:' .. id, 'poolgate:cool:' .. id, (place - 11) / 2
  local rest = 0
  if redis.call('EXISTS', cool) == 1 then
    local told = redis.call('HMGET', cool, '*', model, 'hold|*', 'hold|' .. model, 'canary|*', 'canary|' .. model,
      'warm|*', 'warm|' .. model)
    for k = 1, 4 do if told[k] then rest = math.max(rest, told[k] - now) end end
    if rest <= 0 and (told[1] or told[2]) then
      canary = 1
      if (told[1] and told[5] and tonumber(told[5]) > now) or (told[2] and told[6] and tonumber(told[6]) > now) then
        room = 0
      end
    end
    for k = 7, 8 do if told[k] then room = math.min(room, math.max(1, math.floor(room * share(told[k])))) end end
  end
  if rest > 0 then
    seen[i] = -rest
  else
    seen[i] = running(set)
    if seen[i] < room then
      redis.call('ZADD', set, ends, holder)
      redis.call('HSET', KEYS[1], holder, set)
      for k, name in ipairs(names) do
        local whose = ARGV[2 * k + 2]
        if whose ~= '0' and (name == 'team' or tonumber(ARGV[2 * k + 3]) > 0) then
          redis.call('ZADD', 'poolgate:' .. name .. ':' .. whose, ends, holder)
          redis.call('HSET', KEYS[1], holder .. '|' .. name, 'poolgate:' .. name .. ':' .. whose)
        end
      end
      if team ~= '0' then redis.call('SADD', 'poolgate:teams', team) end
      if canary == 1 then
        for _, field in ipairs({'*', model}) do
          local open = redis.call('HEXISTS', cool, field) == 1
          if open then redis.call('HSET', cool, 'canary|' .. field, now + ARGV[12]) end
        end
      end
      redis.call('ZREM', line, team .. '|' .. holder)
      redis.call('ZREM', line .. ':alive', team .. '|' .. holder)
      return {i, canary, unpack(seen)}
    end
  end
  place = place + 2
end
return {0, 0, unpack(seen)}
"""
)

RELEASE = Script(SETTLE + "give_back(KEYS[1], ARGV[1], ARGV[1])")

RENEW = Script("""
-- KEYS: held. ARGV: life in ms, then the holders that are still at work. Returns how many slots live on.
local clock = redis.call('TIME')
local ends, renewed = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1], 0
for i = 2, #ARGV do
  for _, part in ipairs({'', '|key', '|member', '|team'}) do
    local set = redis.call('HGET', KEYS[1], ARGV[i] .. part)
    if set then renewed = renewed + redis.call('ZADD', set, 'XX', 'CH', ends, ARGV[i]) end
  end
end
return renewed
""")


def slots_key(account_id: int) -> str:
    return f"poolgate:slots:{account_id}"


def running_key(part: str, number: int) -> str:
    """What a key, a member or a team (``part`` of ``PARTS``) has running."""
    return f"poolgate:{part}:{number}"


def cooldowns_key(account_id: int) -> str:
    """A hash: see ``accounts.cooldowns``."""
    return f"poolgate:cool:{account_id}"


def held_key(process: str) -> str:
    return f"poolgate:held:{process}"


class Shortage(StrEnum):
    """Why no slot was given."""

    KEY_BUSY = "key_busy"
    MEMBER_BUSY = "member_busy"
    TEAM_BUSY = "team_busy"
    IN_LINE = "in_line"  # an earlier request of the team waits already
    SHARE = "share"  # the pool is crowded, and the team has its share of it
    FULL = "full"
    COOLED = "cooled"
    NO_ACCOUNT = "no_account"


_REFUSALS = {
    -1: Shortage.KEY_BUSY, -2: Shortage.MEMBER_BUSY, -3: Shortage.TEAM_BUSY, -4: Shortage.IN_LINE, -5: Shortage.SHARE,
}  # fmt: skip


class Passed(Struct, frozen=True):
    """An account that was looked at and not taken, and why: ``full`` or ``resting``, for so many ``seconds``."""

    account_id: int
    verdict: str
    seconds: float = 0.0


class Lease(Struct, frozen=True):
    """A slot on an account, held by a request. ``load``: how many others the account was serving. ``canary``: the
    account comes back from a rest, and this request tries it. ``choice``: why it was looked at."""

    account: AccountView
    holder: str
    load: int
    canary: bool = False
    passed: tuple[Passed, ...] = ()
    choice: Choice | None = None


class Refused(Struct, frozen=True):
    """``soonest``: seconds until the first cooldown ends; None when only slots are short, one may be free any time."""

    shortage: Shortage
    soonest: float | None = None
    passed: tuple[Passed, ...] = ()


class Caller(Struct, frozen=True):
    """Whose limits a request counts against; a limit of 0 means none, an id of 0 nobody."""

    key_id: int = 0
    limit: int = 0
    member_id: int = 0
    member_limit: int = 0
    team_id: int = 0
    team_limit: int = 0


NOBODY = Caller()
MOST_PASSED = 16


class Slots:
    """Takes and returns slots for one process, and remembers what the server said about loads and cooldowns."""

    def __init__(self, pipe: Pipe, process: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipe = pipe
        self._held = held_key(process)
        self._clock = clock
        self.hints = Hints(clock)
        self._loads: dict[int, int] = {}
        self._heard: set[int] = set()
        self._crowded_until = 0.0
        self._forgets_at = clock() + HINT_LIFE

    def loads(self) -> Mapping[int, int]:
        """Requests running, by account id, as far as was heard lately."""
        if self._clock() >= self._forgets_at:
            self._loads = {number: load for number, load in self._loads.items() if number in self._heard}
            self._heard.clear()
            self._forgets_at = self._clock() + HINT_LIFE
        return self._loads

    async def take(
        self,
        accounts: Iterable[AccountView],
        model: str,
        holder: str,
        *,
        life: float,
        caller: Caller = NOBODY,
        crowd: int = 0,
    ) -> Lease | Refused:
        """The first of ``accounts`` with room, in ``life`` seconds' trust. What ``holder`` held before is given back.
        ``crowd``: the slots of the whole pool, where so many are in use that teams are held to their shares; else 0.

        Raises ``PipeDown``; when that or a cancellation strikes, ``release`` (or closing the record) still gives back
        whatever was taken.
        """
        refused = Refused(Shortage.NO_ACCOUNT)
        order, size = iter(accounts), FIRST_LOOK
        first = True
        while batch := list(islice(order, size)):
            size = FURTHER_LOOKS
            args = self._question(batch, model, holder, life, caller, crowd if first else 0, first)
            which, canary, *seen = await self._pipe.run(TAKE, [self._held], args)
            self._learn(batch, seen, model)
            if which < 0:
                return Refused(_REFUSALS[which])
            passed = (*refused.passed, *_passed(batch, seen, which))[:MOST_PASSED]
            if which > 0:
                account = batch[which - 1]
                self._loads[account.id] = seen[which - 1] + 1
                return Lease(account, holder, seen[which - 1], bool(canary), passed)
            refused, first = _merge(refused, seen, passed), False
        return refused

    def crowd(self, candidates: Sequence[AccountView]) -> int:
        """The slots of all ``candidates``, where most of them are in use; else 0. Summed up only while the accounts
        that were looked at lately had little room."""
        if self._clock() >= self._crowded_until:
            return 0
        slots = sum(account.slots for account in candidates)
        running = sum(self._loads.get(account.id, 0) for account in candidates)
        return slots if running >= CROWDED * slots else 0

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
        self,
        batch: Sequence[AccountView],
        model: str,
        holder: str,
        life: float,
        caller: Caller,
        crowd: int,
        first: bool,
    ) -> list[str | int]:
        args: list[str | int] = [
            holder, int(life * 1000), model, caller.key_id, caller.limit, caller.member_id, caller.member_limit,
            caller.team_id, caller.team_limit, crowd, int(first), int(CANARY_LIFE * 1000),
        ]  # fmt: skip
        for account in batch:
            args.append(account.id)
            args.append(account.slots)
        return args

    def _learn(self, batch: Sequence[AccountView], seen: Sequence[int], model: str) -> None:
        for account, load in zip(batch, seen, strict=False):  # the script stops at the first with room
            self._heard.add(account.id)
            if load >= 0:
                self._loads[account.id] = load
                if load + 1 >= CROWDED * account.slots:
                    self._crowded_until = self._clock() + HINT_LIFE
            else:
                self.hints.hear(account.id, model, -load / 1000)


def _passed(batch: Sequence[AccountView], seen: Sequence[int], which: int) -> list[Passed]:
    """The accounts before the one that was taken."""
    if which == 1:
        return []
    looked = zip(batch, seen[: which - 1] if which else seen, strict=False)
    return [
        Passed(account.id, "resting", round(-load / 1000, 1)) if load < 0 else Passed(account.id, "full")
        for account, load in looked
    ]


def _merge(refused: Refused, seen: Sequence[int], passed: tuple[Passed, ...]) -> Refused:
    """What a further batch without room adds to the reason."""
    rests = [-load / 1000 for load in seen if load < 0]
    if refused.soonest is not None:
        rests.append(refused.soonest)
    full = refused.shortage is Shortage.FULL or any(load >= 0 for load in seen)
    return Refused(Shortage.FULL if full else Shortage.COOLED, min(rests, default=None), passed)
