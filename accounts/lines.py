"""Lines: who found no room waits here, in the order of coming, for all processes together.

One line for each upstream model (a sorted set, score = when it came, by the server's clock), in which a request stands
as ``team|request``. Within a team nobody is overtaken; between teams who is free to take a slot takes it, up to the
team's share of a crowded pool (``accounts.leases``). Who waits shows that it is alive each time it looks; a request
whose process died falls out after ``ALIVE`` seconds.
"""

from __future__ import annotations

from core.redis_pipe import Pipe, Script

ALIVE = 5.0
KEPT = 600.0

JOIN = Script("""
-- KEYS: the line, its living. ARGV: who, alive for (ms), the most that may stand here, kept (ms)
-- Returns how many stand before; -1 when the line is too long.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('ZREM', KEYS[1], dead)
  redis.call('ZREM', KEYS[2], dead)
end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return -1 end
  redis.call('ZADD', KEYS[1], clock[1] * 1000000 + clock[2], ARGV[1])
end
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return redis.call('ZRANK', KEYS[1], ARGV[1])
""")


def line_key(model: str) -> str:
    return f"poolgate:line:{model}"


class Place:
    """Where one request stands. ``leave`` may be called at any time, also twice."""

    def __init__(self, pipe: Pipe, model: str, team_id: int, holder: str) -> None:
        self._pipe = pipe
        self._keys = [line_key(model), f"{line_key(model)}:alive"]
        self._who = f"{team_id}|{holder}"
        self._joined = False

    async def join(self, most: int) -> int:
        """Joins, or shows that it still waits. How many stand before it; -1 when ``most`` stand here already.

        Raises ``PipeDown``.
        """
        self._joined = True
        before = await self._pipe.run(JOIN, self._keys, [self._who, int(ALIVE * 1000), most, int(KEPT * 1000)])
        return int(before)

    def leave(self) -> None:
        """Without waiting for the reply."""
        if self._joined:
            self._joined = False
            for key in self._keys:
                self._pipe.send("ZREM", key, self._who)
