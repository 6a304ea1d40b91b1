"""Cooldowns in Redis: what a fault does to its account, at once and for all processes.

One script applies a fault: it rests the account (or the account for one model) until a time by the server's clock,
never shortens a rest, lets a growing rest grow once per window, and puts an effect on a stream, from which
``accounts.effects`` writes the rows. Redis is what selection reads; the rows are what survives Redis: ``restore``
brings them back.
"""

from __future__ import annotations

from collections.abc import Iterable

import redis
from msgspec import Struct

from accounts.compile import AccountView
from accounts.failures import CONSEQUENCES, Grain, sentence
from accounts.leases import cooldowns_key
from accounts.pool import WHOLE
from core.redis_pipe import Argument, Pipe, Script
from ir.errors import Fault

EFFECTS = "poolgate:effects"

FORGIVEN_AFTER = 600.0
"""Seconds without a strike after which a growing rest starts small again."""

COOL = Script("""
-- KEYS: the account's cooldowns, its strikes, the effects stream
-- ARGV: field, rest in ms, growing to (ms, 0: fixed), forgiven after (ms), then the effect's names and values
-- Returns the milliseconds that it rests from now.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local field, rest, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ends = tonumber(redis.call('HGET', KEYS[1], field) or 0)
if most > 0 then
  if ends > now then return ends - now end
  local strikes = redis.call('HINCRBY', KEYS[2], field, 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  rest = math.min(rest * 2 ^ math.min(strikes - 1, 20), most)
end
if now + rest > ends then
  ends = now + rest
  redis.call('HSET', KEYS[1], field, ends)
  if redis.call('PTTL', KEYS[1]) < rest then redis.call('PEXPIRE', KEYS[1], rest) end
end
redis.call('XADD', KEYS[3], '*', 'until', ends, unpack(ARGV, 5))
return ends - now
""")


class Resting(Struct, frozen=True):
    """A cooldown as it is kept in a row: ``model`` "" is the whole account, ``until`` Unix seconds."""

    account_id: int
    model: str
    until: float


def strikes_key(account_id: int) -> str:
    return f"poolgate:strikes:{account_id}"


async def apply(pipe: Pipe, account: AccountView, model: str, fault: Fault, draw: float) -> float:
    """Does to the account what the fault calls for. ``model`` is the upstream's name; ``draw`` in [0, 1) spreads hints.

    Returns the seconds that it rests from now (0: it does not). Raises ``PipeDown``.
    """
    consequence = CONSEQUENCES[fault.reason]
    measured = sentence(fault, draw)
    if measured is None or consequence.grain not in (Grain.ACCOUNT, Grain.ACCOUNT_MODEL):
        return 0.0
    resting = "" if consequence.grain is Grain.ACCOUNT else model
    effect: list[Argument] = ["account", account.id, "credential", account.credential_id, "model", resting]
    effect += ["reason", fault.reason.value, "state", consequence.state.value if consequence.state else ""]
    rest = await pipe.run(
        COOL,
        [cooldowns_key(account.id), strikes_key(account.id), EFFECTS],
        [
            resting or WHOLE,
            int(measured.seconds * 1000),
            int(measured.growing_to * 1000),
            int(FORGIVEN_AFTER * 1000),
            *effect,
        ],
    )
    return float(rest) / 1000


def restore(client: redis.Redis, resting: Iterable[Resting], now: float) -> int:
    """Brings rows back into Redis, which may have forgotten them; never shortens. Returns how many still rest."""
    restored = 0
    for item in resting:
        if item.until <= now:
            continue
        key, field, ends = cooldowns_key(item.account_id), item.model or WHOLE, int(item.until * 1000)
        known = client.hget(key, field)
        if known is None or int(known) < ends:
            client.hset(key, field, str(ends))
            client.pexpire(key, int((item.until - now) * 1000), gt=client.pttl(key) > 0)
        restored += 1
    return restored


def clear(client: redis.Redis, account_id: int, model: str | None = None) -> None:
    """Ends the rest of one model ("" for the whole account's own), or with None every rest and strike."""
    if model is None:
        client.delete(cooldowns_key(account_id), strikes_key(account_id))
    else:
        client.hdel(cooldowns_key(account_id), model or WHOLE)
        client.hdel(strikes_key(account_id), model or WHOLE)
