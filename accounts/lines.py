"""Lines: who found no room waits here, in the order of coming, for all processes together.

There is a line for each team, upstream model and set of accounts (a sorted set, score = when it was joined, by the
server's clock). Whoever stands in it leaves one free slot to each who stands before, so within a line nobody is
overtaken, and many slots that become free at once need not be handed out one by one. Who could be served by other
accounts than the first stands in another line.

Beside the lines of a model there is a hash of who waits: field = team, line and process, value = when that process last
asked, whether the team is held back, and the accounts that would do. It is what a request looks at that could be served
at once (nearly always it is not there), and what the lines know of each other. A process that has not asked for
``SILENCE`` is gone, and with it all that stood in line for it.

Fair shares: while four fifths of the accounts' slots are in use or waited for, a team that has its equal share of them
gets none that another team waits for. Who is held back for that holds nobody back, so one of those who wait always goes
on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from accounts.compile import AccountView
from accounts.leases import Caller, Lease, Refused, Shortage, Slots, held_key, waiting_key
from accounts.slot_scripts import LOOK
from core.redis_pipe import Pipe, Script

SILENCE = 2.0
"""Seconds. Whoever is first of a line in its process asks several times a second."""

WIDEST_LOOK = 100
"""Accounts that are looked at for who waits, at the most."""

PLACES_A_SLOT = 2
"""A line may be so many times as long as there are slots."""

_STEP_OUT = """
local function step_out(holder, prefix)
  redis.call('HDEL', KEYS[1], holder .. '|line')
  redis.call('ZREM', KEYS[2], holder)
  if redis.call('EXISTS', KEYS[2]) == 0 then
    for _, place in ipairs(redis.call('HKEYS', KEYS[3])) do
      if string.sub(place, 1, #prefix) == prefix then redis.call('HDEL', KEYS[3], place) end
    end
  end
end
"""

TURN = Script(
    LOOK
    + _STEP_OUT
    + """
-- KEYS: held, the line, who waits for the model. ARGV: as above; own: process, when the line was joined (microseconds;
--   0: it is not yet), the line's set of accounts, silence in ms
-- Returns {which, canary, ahead, teams, joined, spared, seen...}: which = 0 none; -1 to -3 a limit is reached; -5 too
-- many wait already. teams = how many wait for the same accounts; spared = 1 when the team has its share.
local process, joined, pool, silence, first = ARGV[11], tonumber(ARGV[12]), ARGV[13], tonumber(ARGV[14]), 15
local whole = team .. '|' .. pool .. '|'
local place = whole .. process

local function drop(line, gone)
  for _, member in ipairs(redis.call('ZRANGE', line, 0, -1)) do
    if string.match(member, '^[^/]*/([^/]*)/') == gone then redis.call('ZREM', line, member) end
  end
end

local limit = at_limit()
if limit < 0 then
  step_out(holder, whole)
  return {limit, 0, 0, 0, 0, 0}
end

local ours, ids, slots = {}, {}, 0
for i = first, #ARGV, 2 do
  ours[ARGV[i]] = true
  ids[#ids + 1] = ARGV[i]
  slots = slots + ARGV[i + 1]
end
local wanted, active, lines, teams, held_back = {}, {[team] = true}, {[KEYS[2]] = true}, 1, '0'
local told = redis.call('HGETALL', KEYS[3])
for i = 1, #told, 2 do
  local whose, where, who = string.match(told[i], '^([^|]*)|([^|]*)|([^|]*)$')
  local asked, back, accounts = string.match(told[i + 1], '^(%d+)|(%d)|(.*)$')
  local line = 'poolgate:line:' .. whose .. ':' .. where .. ':' .. model
  if now - asked > silence and told[i] ~= place then
    redis.call('HDEL', KEYS[3], told[i])
    drop(line, who)
  elseif whose == team then
    if told[i] == place then held_back = back end
  else
    local shared = false
    for id in string.gmatch(accounts, '%d+') do
      if ours[id] then
        shared = true
        if back == '0' then wanted[id] = true end
      end
    end
    if shared then
      lines[line] = true
      if not active[whose] then
        active[whose] = true
        teams = teams + 1
      end
    end
  end
end

if not redis.call('ZSCORE', KEYS[2], holder) then
  if joined == 0 then
    local own, all = redis.call('ZCARD', KEYS[2]), 0
    for line in pairs(lines) do all = all + redis.call('ZCARD', line) end
    local most = slots * PLACES_A_SLOT
    if all >= most and own >= math.ceil(most / teams) then return {-5, 0, own, teams, 0, 0} end
    joined = clock[1] * 1000000 + clock[2]
  end
  redis.call('ZADD', KEYS[2], string.format('%.0f', joined), holder)
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  redis.call('HSET', KEYS[1], holder .. '|line', KEYS[2])
end

local ahead, spared = redis.call('ZRANK', KEYS[2], holder), {}
if next(wanted) then
  local used, own, count = 0, ahead, 0
  for line in pairs(lines) do used = used + redis.call('ZCARD', line) end
  for _, id in ipairs(ids) do
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', 'poolgate:slots:' .. id, '(' .. now, '+inf')) do
      local whose = string.match(member, '^([^/]*)/')
      used = used + 1
      if whose == team then own = own + 1 elseif whose then active[whose] = true end
    end
  end
  for _ in pairs(active) do count = count + 1 end
  if used >= CROWDED * slots and own >= math.ceil(slots / count) then spared = wanted end
end
local which, canary, seen = look(first, spared, ahead)
if ahead == 0 then held_back = (which == 0 and next(spared)) and '1' or '0' end
redis.call('HSET', KEYS[3], place, now .. '|' .. held_back .. '|' .. table.concat(ids, ','))
redis.call('PEXPIRE', KEYS[3], silence + 1000)
if which > 0 then step_out(holder, whole) end
local shared = next(spared) and 1 or 0
return {which, canary, ahead, teams, string.format('%.0f', joined), shared, unpack(seen)}
""".replace("PLACES_A_SLOT", str(PLACES_A_SLOT)).replace("CROWDED", "0.8")
)

LEAVE = Script(
    _STEP_OUT
    + """
-- KEYS: held, the line, who waits for the model. ARGV: holder, how the places of the line begin
step_out(ARGV[1], ARGV[2])
"""
)


class Line(Struct, frozen=True):
    """``pool``: which accounts would do, as a short word."""

    team_id: int
    pool: str
    model: str

    @property
    def key(self) -> str:
        return f"poolgate:line:{self.team_id}:{self.pool}:{self.model}"


def name_pool(account_ids: Iterable[int]) -> str:
    """The same word for the same accounts."""
    return f"{zlib.crc32(repr(sorted(account_ids)).encode()):08x}"


class Place:
    """Where one request stands. ``ahead``: how many stand before it; ``teams``: how many teams wait for the same
    accounts; ``slots``: what those accounts have, resting ones aside; ``closed``: too many wait already."""

    def __init__(
        self, pipe: Pipe, process: str, slots: Slots, line: Line, holder: str, *, life: float, caller: Caller
    ) -> None:
        self.line = line
        self.ahead = self.slots = 0
        self.teams = 1
        self.closed = False
        self._pipe = pipe
        self._process = process
        self._taker = slots
        self._holder = holder
        self._life = life
        self._caller = caller
        self._joined = 0
        self._keys = [held_key(process), line.key, waiting_key(line.model)]

    async def ask(self, accounts: Iterable[AccountView]) -> Lease | Refused:
        """Joins the line, or shows that it still waits; gets a slot where ``accounts`` have more free ones than there
        are requests before it. Raises ``PipeDown``."""
        batch = list(islice(accounts, WIDEST_LOOK))
        if not batch:
            return Refused(Shortage.NO_ACCOUNT)
        self.slots = sum(account.slots for account in batch)
        own: list[str | int] = [self._process, self._joined, self.line.pool, int(SILENCE * 1000)]
        args = self._taker.question(batch, self.line.model, self._holder, self._life, self._caller, own)
        which, canary, self.ahead, self.teams, joined, spared, *seen = await self._pipe.run(TURN, self._keys, args)
        self._joined, self.closed = int(joined), which == CLOSED
        answer = self._taker.hear(batch, self.line.model, self._holder, which, canary, seen)
        if which == 0 and (spared or self.ahead):
            return Refused(Shortage.IN_LINE if self.ahead else Shortage.SHARE, passed=answer.passed)
        return answer

    def leave(self) -> None:
        """Without waiting for the reply. May be called at any time, also twice; closing the record does it too."""
        self._pipe.start(LEAVE, self._keys, [self._holder, f"{self.line.team_id}|{self.line.pool}|"])


CLOSED = -5
