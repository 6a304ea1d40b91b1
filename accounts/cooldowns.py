"""Cooldowns in Redis: what a fault does to its account, at once and for all processes.

A fault with a believable hint, or one that speaks of the account itself, rests the account (or the account for one
model) until a time by the server's clock. A refusal that may just as well be the request's fault only holds the account
for some seconds; the request that met it either confirms that (another account answered it) or drops it. One script
applies a rest: it never shortens one, lets a growing rest grow once per window, leaves alone what would put too much
of a pool to rest, and puts an effect on a stream, from which ``accounts.effects`` writes the rows. Redis is what
selection reads; the rows are what survives Redis: ``restore`` brings them back.

What selection reads is one hash an account; M stands for an upstream model id, or ``*`` for the whole account:

* ``M``: rests until then (Unix milliseconds). Over, but still there: half-open, one request at a time may try;
* ``hold|M``: passed by until then;
* ``canary|M``: half-open, and one request tries it until then at the latest;
* ``warm|M``: recovered then; its slots come back by and by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson
import redis
from msgspec import Struct

from accounts.compile import AccountView
from accounts.failures import CONSEQUENCES, HINT_SPREAD, Consequence, Grain, Rest, hint_of, is_tentative
from accounts.leases import cooldowns_key
from accounts.pool import WHOLE
from core.redis_pipe import Argument, Pipe, Script
from ir.errors import Fault

EFFECTS = "poolgate:effects"
HOLD, CANARY, WARM = "hold|", "canary|", "warm|"
RESTORED = "poolgate:cooldowns:restored"
"""There while Redis has not forgotten everything since the rows were last brought back."""

FORGIVEN_AFTER = 600.0
"""Seconds after the end of a growing rest beyond which the next one starts small again."""

HALF_OPEN_FOR = 600.0
"""Seconds after its end for which a rest is remembered: who comes back is tried with one request first."""

WARM_FOR = 60.0
LEAST_USABLE = 0.3
"""Share of a request's candidates, at least one, that no guess of ours may leave unusable."""

MOST_PEERS = 200

COOL = Script("""
-- KEYS: the account's cooldowns, its strikes, the effects stream, then the cooldowns of its peers
-- ARGV: what to do (JSON), then the effect's names and values
-- Returns {milliseconds that it rests from now, 1 when the guard kept it from resting}.
local clock, todo = redis.call('TIME'), cjson.decode(ARGV[1])
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local field, rest = todo.field, todo.rest
local ends = tonumber(redis.call('HGET', KEYS[1], field) or 0)
local half_open = ends > 0 and ends <= now

local function strike(name, window)
  local count, since = unpack(redis.call('HMGET', KEYS[2], name, 'since|' .. name))
  if not count or now - tonumber(since or 0) > window then
    count = 0
    redis.call('HSET', KEYS[2], 'since|' .. name, now)
  end
  redis.call('HSET', KEYS[2], name, count + 1)
  if redis.call('PTTL', KEYS[2]) < window then redis.call('PEXPIRE', KEYS[2], window) end
  return count + 1
end

redis.call('HDEL', KEYS[1], 'hold|' .. field, 'canary|' .. field)
if todo.growing_to > 0 and ends > now then return {ends - now, 0} end
if todo.strikes > 1 then
  local count = strike('n|' .. field, todo.window)
  if count < todo.strikes and not half_open then return {0, 0} end
  if count > todo.strikes or half_open then rest = todo.after end
end
if todo.least > 0 and ends <= now then
  local usable = 0
  for i = 4, #KEYS do
    local rests = false
    for _, value in ipairs(redis.call('HMGET', KEYS[i], '*', todo.model)) do
      rests = rests or (value and tonumber(value) > now)
    end
    if not rests then usable = usable + 1 end
  end
  if usable < todo.least then return {0, 1} end
end
if todo.growing_to > 0 then
  if now - tonumber(redis.call('HGET', KEYS[2], 'over|' .. field) or 0) > todo.forgiven then
    redis.call('HDEL', KEYS[2], field)
  end
  local strikes = redis.call('HINCRBY', KEYS[2], field, 1)
  rest = math.floor(math.min(rest * 2 ^ math.min(strikes - 1, 20), todo.growing_to))
  redis.call('HSET', KEYS[2], 'over|' .. field, now + rest)
  local kept = rest + todo.forgiven
  if redis.call('PTTL', KEYS[2]) < kept then redis.call('PEXPIRE', KEYS[2], kept) end
end
local rested = ends > now
if now + rest > ends then
  ends = now + rest
  redis.call('HSET', KEYS[1], field, ends)
  redis.call('HDEL', KEYS[1], 'warm|' .. field)
  local kept = rest + todo.half_open
  if redis.call('PTTL', KEYS[1]) < kept then redis.call('PEXPIRE', KEYS[1], kept) end
end
local effect = {unpack(ARGV, 2)}
if todo.times > 0 and not rested and strike('e|' .. field, todo.times_window) >= todo.times then
  effect[#effect] = todo.state
end
redis.call('XADD', KEYS[3], '*', 'until', ends, unpack(effect))
return {ends - now, 0}
""")

TAKE_HOLD = Script("""
-- KEYS: the account's cooldowns. ARGV: field, hold in ms. Returns the milliseconds that it is held.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ends = math.max(tonumber(redis.call('HGET', KEYS[1], 'hold|' .. ARGV[1]) or 0), now + ARGV[2])
redis.call('HSET', KEYS[1], 'hold|' .. ARGV[1], ends)
if redis.call('PTTL', KEYS[1]) < ends - now then redis.call('PEXPIRE', KEYS[1], ends - now) end
return ends - now
""")

RECOVER = Script("""
-- KEYS: the account's cooldowns. ARGV: model, warm in ms. Returns how many rests are over for good.
local clock = redis.call('TIME')
local now, over = clock[1] * 1000 + math.floor(clock[2] / 1000), 0
for _, field in ipairs({'*', ARGV[1]}) do
  local ends = tonumber(redis.call('HGET', KEYS[1], field) or 0)
  if ends > 0 and ends <= now then
    redis.call('HDEL', KEYS[1], field, 'canary|' .. field)
    redis.call('HSET', KEYS[1], 'warm|' .. field, now)
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    over = over + 1
  end
end
return over
""")


class Applied(Struct, frozen=True):
    """What a fault did: ``rest`` in seconds from now; ``held``: tentatively, to be confirmed or dropped; ``guarded``:
    nothing, because too few accounts would have been left."""

    rest: float = 0.0
    held: bool = False
    guarded: bool = False


NOTHING = Applied()


class Resting(Struct, frozen=True):
    """A cooldown as it is kept in a row: ``model`` "" is the whole account, ``until`` Unix seconds."""

    account_id: int
    model: str
    until: float


def strikes_key(account_id: int) -> str:
    return f"poolgate:strikes:{account_id}"


async def apply(
    pipe: Pipe, account: AccountView, model: str, fault: Fault, draw: float, *, peers: Sequence[AccountView] = ()
) -> Applied:
    """Does to the account what the fault calls for. ``model`` is the upstream's name; ``draw`` in [0, 1) spreads hints;
    ``peers``: the accounts that could serve in its place. Raises ``PipeDown``.
    """
    consequence = CONSEQUENCES[fault.reason]
    if _rests(consequence) is None:
        return NOTHING
    if not is_tentative(fault):
        return await _cool(pipe, account, model, fault, draw, peers)
    hold = consequence.rest.hold if consequence.rest is not None else 0.0
    if not hold:
        return Applied(held=True)
    held = await pipe.run(TAKE_HOLD, [cooldowns_key(account.id)], [_field(consequence, model), int(hold * 1000)])
    return Applied(float(held) / 1000, held=True)


async def confirm(
    pipe: Pipe, account: AccountView, model: str, fault: Fault, draw: float, *, peers: Sequence[AccountView] = ()
) -> Applied:
    """A hold becomes real: another account answered the same request. Raises ``PipeDown``."""
    if _rests(CONSEQUENCES[fault.reason]) is None:
        return NOTHING
    return await _cool(pipe, account, model, fault, draw, peers)


async def drop(pipe: Pipe, account: AccountView, model: str, fault: Fault) -> None:
    """Takes a hold back: the account was not to blame. Raises ``PipeDown``."""
    await pipe.call("HDEL", cooldowns_key(account.id), HOLD + _field(CONSEQUENCES[fault.reason], model))


async def recovered(pipe: Pipe, account: AccountView, model: str) -> bool:
    """A half-open account has served: its slots come back within a minute. Returns whether it was half-open.

    Raises ``PipeDown``.
    """
    over = await pipe.run(RECOVER, [cooldowns_key(account.id)], [model, int(WARM_FOR * 1000)])
    return bool(over)


def restore(client: redis.Redis, resting: Iterable[Resting], now: float) -> int:
    """Brings rows back into Redis, which may have forgotten them; never shortens. Returns how many still rest.

    Into a Redis that has forgotten everything, one that ended lately comes back too, as over: who was resting when
    Redis died is tried with one request first.
    """
    since = now if client.set(RESTORED, 1, nx=True) is None else now - HALF_OPEN_FOR
    restored = 0
    for item in resting:
        if item.until <= since:
            continue
        key, field, ends = cooldowns_key(item.account_id), item.model or WHOLE, int(item.until * 1000)
        known = client.hget(key, field)
        if known is None or int(known) < ends:
            client.hset(key, field, str(ends))
            client.pexpire(key, int((item.until - now + HALF_OPEN_FOR) * 1000), gt=client.pttl(key) > 0)
        restored += item.until > now
    return restored


def clear(client: redis.Redis, account_id: int, model: str | None = None) -> None:
    """Ends the rest of one model ("" for the whole account's own), or with None every rest and strike. Who is
    cleared is ready at once, with all slots."""
    if model is None:
        client.delete(cooldowns_key(account_id), strikes_key(account_id))
        return
    field = model or WHOLE
    client.hdel(cooldowns_key(account_id), field, HOLD + field, CANARY + field, WARM + field)
    names = (f"n|{field}", f"e|{field}")
    client.hdel(strikes_key(account_id), field, f"over|{field}", *names, *(f"since|{name}" for name in names))


async def _cool(
    pipe: Pipe, account: AccountView, model: str, fault: Fault, draw: float, peers: Sequence[AccountView]
) -> Applied:
    consequence = CONSEQUENCES[fault.reason]
    rest = consequence.rest
    if rest is None:
        return NOTHING
    others = [peer for peer in peers if peer.id != account.id][:MOST_PEERS] if is_tentative(fault) else []
    todo = _orders(consequence, rest, fault, draw) | {
        "field": _field(consequence, model),
        "model": model,
        "least": max(1.0, LEAST_USABLE * (len(others) + 1)) if is_tentative(fault) and peers else 0,
    }
    effect: list[Argument] = ["account", account.id, "credential", account.credential_id]
    effect += ["model", "" if consequence.grain is Grain.ACCOUNT else model, "reason", fault.reason.value]
    effect += ["state", consequence.state.value if consequence.state else ""]
    keys = [cooldowns_key(account.id), strikes_key(account.id), EFFECTS]
    keys += [cooldowns_key(peer.id) for peer in others]
    ms, guarded = await pipe.run(COOL, keys, [orjson.dumps(todo), *effect])
    return Applied(float(ms) / 1000, guarded=bool(guarded))


def _orders(consequence: Consequence, rest: Rest, fault: Fault, draw: float) -> dict[str, object]:
    """The numbers of the script, in milliseconds. A hint is as it is, whatever would grow or be counted without it."""
    hint, escalation = hint_of(fault), consequence.escalation
    grows = hint is None
    usual = rest.seconds * (1 + rest.spread * (2 * draw - 1))
    return {
        "rest": int((usual if hint is None else hint * (1 + HINT_SPREAD * draw)) * 1000),
        "growing_to": int(rest.growing_to * 1000) if grows else 0,
        "forgiven": int(FORGIVEN_AFTER * 1000),
        "strikes": rest.strikes if grows else 1,
        "window": int(rest.window * 1000),
        "after": int(rest.then * 1000),
        "half_open": int(HALF_OPEN_FOR * 1000),
        "times": escalation.times if escalation else 0,
        "times_window": int(escalation.window * 1000) if escalation else 0,
        "state": escalation.state.value if escalation else "",
    }


def _rests(consequence: Consequence) -> Rest | None:
    return consequence.rest if consequence.grain in (Grain.ACCOUNT, Grain.ACCOUNT_MODEL) else None


def _field(consequence: Consequence, model: str) -> str:
    return WHOLE if consequence.grain is Grain.ACCOUNT else model
