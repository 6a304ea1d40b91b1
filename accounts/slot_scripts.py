"""The scripts by which slots are taken, kept and given back: see ``accounts.leases``.

A holder is named ``team/process/request``, so that a set of slots tells whose they are. What it holds is written in its
process's hash: ``holder`` → the account's set, ``holder|key``, ``|member`` and ``|team`` → the sets in which it counts
against a limit, ``holder|line`` → the line in which it waits, ``holder|canary`` → the mark that it tries an account.
"""

from __future__ import annotations

from core.redis_pipe import Script

SETTLE = """
local ALL = {'', '|canary', '|key', '|member', '|team', '|line'}
local function give_back(held, holder, parts)
  local fields, gone = {}, {}
  for i, part in ipairs(parts) do fields[i] = holder .. part end
  for i, what in ipairs(redis.call('HMGET', held, unpack(fields))) do
    if what then
      gone[#gone + 1] = fields[i]
      if parts[i] == '|canary' then
        local ends, cool, model = string.match(what, '^(%S+) (%S+) (.*)$')
        for _, mark in ipairs({'canary|*', 'canary|' .. model}) do
          if redis.call('HGET', cool, mark) == ends then redis.call('HDEL', cool, mark) end
        end
      else
        redis.call('ZREM', what, holder)
      end
    end
  end
  if gone[1] then redis.call('HDEL', held, unpack(gone)) end
end
local function give_back_account(held, holder) give_back(held, holder, {'', '|canary'}) end
local function give_back_all(held, holder) give_back(held, holder, ALL) end
"""
"""Shared with the script that closes a record and the one that reaps (``ops``)."""

LOOK = (
    SETTLE
    + """
-- KEYS: held, and the script's own
-- ARGV: holder, life in ms, model, then key, limit, member, limit, team, limit (limit 0: none), the life of a canary,
--   the script's own, and from some place on for each account its id and its slots
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local holder, model, team, ends = ARGV[1], ARGV[3], ARGV[8], now + ARGV[2]
local names = {'key', 'member', 'team'}

local function running(set)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', now)
  return redis.call('ZCARD', set)
end

-- -1, -2, -3: the limit of key, member, team is reached; 0: none is.
local function at_limit()
  for i, name in ipairs(names) do
    if ARGV[2 * i + 3] ~= '0' then
      local set = 'poolgate:' .. name .. ':' .. ARGV[2 * i + 2]
      if not redis.call('ZSCORE', set, holder) and running(set) >= tonumber(ARGV[2 * i + 3]) then return -i end
    end
  end
  return 0
end

local function share(recovered)
  local age = now - tonumber(recovered)
  if age < 20000 then return 0.25 elseif age < 40000 then return 0.5 elseif age < 60000 then return 0.75 end
  return 1
end

-- What the account's rests say: for how long it rests, how many of its slots may be used, whether it is tried anew.
local function read_rests(cool, room)
  local told = redis.call('HMGET', cool, '*', model, 'hold|*', 'hold|' .. model, 'canary|*', 'canary|' .. model,
    'warm|*', 'warm|' .. model)
  local rest, tried = 0, 0
  for k = 1, 4 do if told[k] then rest = math.max(rest, told[k] - now) end end
  if rest <= 0 and (told[1] or told[2]) then
    tried = 1
    for k = 1, 2 do if told[k] and told[k + 4] and tonumber(told[k + 4]) > now then room = 0 end end
  end
  for k = 7, 8 do if told[k] then room = math.min(room, math.max(1, math.floor(room * share(told[k])))) end end
  return rest, room, tried
end

local function hold(set, cool, tried)
  local fields = {holder, set}
  redis.call('ZADD', set, ends, holder)
  for i, name in ipairs(names) do
    if ARGV[2 * i + 3] ~= '0' then
      local counted = 'poolgate:' .. name .. ':' .. ARGV[2 * i + 2]
      redis.call('ZADD', counted, ends, holder)
      fields[#fields + 1], fields[#fields + 2] = holder .. '|' .. name, counted
    end
  end
  if tried == 1 then
    local until_then = string.format('%.0f', now + ARGV[10])
    for _, field in ipairs({'*', model}) do
      if redis.call('HEXISTS', cool, field) == 1 then redis.call('HSET', cool, 'canary|' .. field, until_then) end
    end
    fields[#fields + 1], fields[#fields + 2] = holder .. '|canary', until_then .. ' ' .. cool .. ' ' .. model
  end
  redis.call('HSET', KEYS[1], unpack(fields))
end

-- Takes the first account with room that is not ``spared``, once so many free slots are left to others. Returns which
-- one (0: none), whether it is tried anew, and of each that was looked at the requests running, or minus the
-- milliseconds that it still rests.
local function look(first, spared, left)
  local seen = {}
  for place = first, #ARGV, 2 do
    local id, room, rest, tried = ARGV[place], tonumber(ARGV[place + 1]), 0, 0
    local set, cool, i = 'poolgate:slots:' .. id, 'poolgate:cool:' .. id, (place - first) / 2 + 1
    if redis.call('EXISTS', cool) == 1 then rest, room, tried = read_rests(cool, room) end
    if rest > 0 then
      seen[i] = -rest
    else
      seen[i] = running(set)
      local free = tried == 1 and math.min(room, 1) or room - seen[i]
      if seen[i] < room and not spared[id] then
        if free > left then
          hold(set, cool, tried)
          return i, tried, seen
        end
        left = left - free
      end
    end
  end
  return 0, 0, seen
end
"""
)

TAKE = Script(
    LOOK
    + """
-- KEYS: held, who waits for the model. ARGV: as above; own: 1 when the request can wait, and so lets others go first
-- Returns {which, canary, seen...}: which = 0 none has room; -1 to -3 a limit is reached; -4 others are waiting.
give_back_account(KEYS[1], holder)
local limit = at_limit()
if limit < 0 then return {limit, 0} end
if ARGV[11] == '1' and redis.call('EXISTS', KEYS[2]) == 1 then return {-4, 0} end
local which, canary, seen = look(12, {}, 0)
return {which, canary, unpack(seen)}
"""
)

RELEASE = Script(SETTLE + "give_back_account(KEYS[1], ARGV[1])")

RENEW = Script("""
-- KEYS: held. ARGV: life in ms, then the holders that are still at work. Returns how many slots live on.
local clock = redis.call('TIME')
local ends, renewed = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1], 0
for i = 2, #ARGV do
  local who = ARGV[i]
  for _, set in ipairs(redis.call('HMGET', KEYS[1], who, who .. '|key', who .. '|member', who .. '|team')) do
    if set then renewed = renewed + redis.call('ZADD', set, 'XX', 'CH', ends, who) end
  end
end
return renewed
""")
