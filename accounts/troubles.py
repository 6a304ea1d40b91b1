"""What befalls more than one account: a way out that is broken, an upstream that is down.

Both are kept in one hash for all processes, which is absent nearly always:

* ``egress|NAME``: Unix milliseconds until which a way out rests. Two faults within a minute, and it rests for ten;
* ``circuit|UPSTREAM``: an open circuit. Each process counts what its requests met; when enough of them failed, nobody
  asks that upstream any more but one request at a time, a canary: the first after five seconds, then ever more rarely.
  The first canary that is answered closes the circuit. A circuit that nobody asks to pass (others serve, or no request
  came) is over ten minutes after a canary was due: what was true then says little about now;
* ``paused|NAME``: a way out that nobody takes, not even where there is no other (``accounts.blocks``).

A process knows of the hash what it read last, and believes it for a second. Who comes later reads it again, and all who
come meanwhile wait for the same answer: else a crowd would run into what its first request is about to hear of. While
Redis is away no trouble is known.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec
import redis
from msgspec import Struct

from accounts.compile import AccountView, Transport
from core import metrics
from core.metrics import Circuit
from core.redis_pipe import Pipe, Script
from core.settings import Settings

TROUBLE = "poolgate:trouble"
DIRECT = "direct"
PAUSED = "paused|"

WINDOW = 10.0
"""Seconds for which a process remembers what its requests met."""

FORGOTTEN = 600.0
"""Seconds after a canary was due, without anybody who asked, until a circuit is over by itself."""

KEPT = 3600.0
"""Seconds for which the hash outlives the last pause of a way out."""

DEFAULTS = Settings()

BELIEVED = 1.0

OPEN = Script("""
-- KEYS: the troubles. ARGV: field, interval in ms, ms after which it is forgotten
-- Returns 1 when the circuit was not open before.
local clock = redis.call('TIME')
local now, interval = clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(ARGV[2])
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found and now < cjson.decode(found).next_canary + ARGV[3] then return 0 end
local circuit = {opened_at = now, next_canary = now + interval, interval = interval}
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(circuit))
local kept = interval + ARGV[3]
if redis.call('PTTL', KEYS[1]) < kept then redis.call('PEXPIRE', KEYS[1], kept) end
return 1
""")

CANARY = Script("""
-- KEYS: the troubles. ARGV: field, longest interval in ms, ms after which it is forgotten
-- Returns {ms to the next one, 0 when granted; 1 when the circuit is open at all}.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local found = redis.call('HGET', KEYS[1], ARGV[1])
if not found then return {0, 0} end
local circuit = cjson.decode(found)
if now < circuit.next_canary then return {circuit.next_canary - now, 1} end
if now >= circuit.next_canary + ARGV[3] then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return {0, 0}
end
circuit.interval = math.max(circuit.interval, math.min(circuit.interval * 2, tonumber(ARGV[2])))
circuit.next_canary = now + circuit.interval
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(circuit))
local kept = circuit.interval + ARGV[3]
if redis.call('PTTL', KEYS[1]) < kept then redis.call('PEXPIRE', KEYS[1], kept) end
return {0, 1}
""")

EGRESS = Script("""
-- KEYS: the troubles, the faults of this way out. ARGV: field, faults that are too many, their window in ms, rest in ms
-- Returns {milliseconds that it rests from now, 1 when that began just now}.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ends = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if ends > now then return {ends - now, 0} end
local faults = redis.call('INCR', KEYS[2])
if faults == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
if faults < tonumber(ARGV[2]) then return {0, 0} end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[1], ARGV[1], now + ARGV[4])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return {tonumber(ARGV[4]), 1}
""")


def upstream_of(account: AccountView, model: str) -> str:
    """What fails together: one host, spoken to in one way, for one model of its own."""
    return f"{account.transport}|{urlsplit(account.base_url).netloc}|{account.model_id(model)}"


def egress_of(account: AccountView) -> str:
    """The name of the account's way out."""
    return account.egress


class _Circuit(Struct, frozen=True):
    opened_at: float
    next_canary: float
    interval: float


_read_circuit = msgspec.json.Decoder(_Circuit).decode


class Known(Struct, frozen=True):
    """What the hash holds: ways out with the time until which they rest, open circuits with the time of the next
    canary, in Unix seconds, and ways out that are paused."""

    egress: Mapping[str, float] = {}
    circuits: Mapping[str, float] = {}
    paused: frozenset[str] = frozenset()


def read_trouble(mapping: Mapping[bytes, bytes]) -> Known:
    egress, circuits, paused = {}, {}, set()
    for field, value in mapping.items():
        kind, _, name = field.decode().partition("|")
        if kind == "egress":
            egress[name] = float(value) / 1000
        elif kind == "circuit":
            circuits[name] = _read_circuit(value).next_canary / 1000
        elif kind == "paused":
            paused.add(name)
    return Known(egress, circuits, frozenset(paused))


def is_forgotten(due: float, now: float) -> bool:
    """Whether a circuit whose next canary was ``due`` then is over, because nobody asked for so long."""
    return now >= due + FORGOTTEN


def clear_egress(client: redis.Redis, name: str) -> bool:
    """Ends the rest of a way out, and forgets its faults; processes hear of it within a second. Returns whether there
    was a rest to end. Raises ``RedisError``."""
    client.delete(_faults_key(name))
    return bool(client.hdel(TROUBLE, f"egress|{name}"))


def _faults_key(name: str) -> str:
    return f"poolgate:egress:{name}"


def _transport(upstream: str) -> Transport:
    return Transport(upstream.partition("|")[0])


class Troubles:
    """For one process. ``clock`` and ``now`` give seconds: the one from anywhere, the other Unix time. ``knobs``: the
    settings in force."""

    def __init__(
        self, pipe: Pipe, *, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self._pipe = pipe
        self._clock = clock
        self._now = now
        self._windows: dict[str, _Window] = {}
        self._egress: dict[str, float] = {}
        self._circuits: dict[str, float] = {}
        self._paused: frozenset[str] = frozenset()
        self._heard_at = -BELIEVED
        self._asked: asyncio.Future[list[bytes]] | None = None

    def served(self, upstream: str) -> None:
        """It answered a request."""
        self._window(upstream).note(self._clock(), failed=False)

    async def failed(self, upstream: str, knobs: Settings = DEFAULTS) -> bool:
        """An account of it was asked in vain. Returns whether that opened the circuit. Raises ``PipeDown``."""
        window = self._window(upstream)
        window.note(self._clock(), failed=True)
        return window.is_bad(knobs.circuit_failures, knobs.circuit_share) and await self.open(upstream, knobs)

    async def open(self, upstream: str, knobs: Settings = DEFAULTS) -> bool:
        """From now on only canaries ask it. Returns whether others did until now. Raises ``PipeDown``."""
        interval = int(knobs.circuit_canary * 1000)
        opened = await self._pipe.run(OPEN, [TROUBLE], [f"circuit|{upstream}", interval, int(FORGOTTEN * 1000)])
        if opened:
            self._circuits[upstream] = self._now() + knobs.circuit_canary
            metrics.count_circuit(_transport(upstream), Circuit.OPENED)
        return bool(opened)

    async def close(self, upstream: str) -> None:
        """A canary was answered. Raises ``PipeDown``."""
        self._circuits.pop(upstream, None)
        self._windows.pop(upstream, None)
        if await self._pipe.call("HDEL", TROUBLE, f"circuit|{upstream}"):
            metrics.count_circuit(_transport(upstream), Circuit.CLOSED)

    async def canary(self, upstream: str, knobs: Settings = DEFAULTS) -> float:
        """0.0: this request may ask the upstream though its circuit is open; else the seconds until one may. Raises
        ``PipeDown``."""
        longest = int(knobs.circuit_canary_longest * 1000)
        wait, is_open = await self._pipe.run(CANARY, [TROUBLE], [f"circuit|{upstream}", longest, int(FORGOTTEN * 1000)])
        if is_open and not wait:
            metrics.count_circuit(_transport(upstream), Circuit.CANARY)
        return float(wait) / 1000

    async def egress_failed(self, name: str, knobs: Settings = DEFAULTS) -> float:
        """Nothing came through this way out. Returns the seconds that it rests from now. Raises ``PipeDown``."""
        rest, began = await self._pipe.run(
            EGRESS,
            [TROUBLE, _faults_key(name)],
            [f"egress|{name}", knobs.egress_faults, int(knobs.egress_window * 1000), int(knobs.egress_rest * 1000)],
        )
        if rest:
            self._egress[name] = self._now() + float(rest) / 1000
        if began:
            metrics.count_egress_rest()
        return float(rest) / 1000

    async def are_known(self) -> bool:
        """Whether anything is in trouble, as far as is known; once a second that is asked. Never raises."""
        if self._clock() - self._heard_at >= BELIEVED:
            if self._asked is None:
                self._asked = self._pipe.send("HGETALL", TROUBLE)
                self._asked.add_done_callback(self._hear)
            await asyncio.wait([self._asked])
        return bool(self._egress or self._circuits or self._paused)

    def _hear(self, asked: asyncio.Future[list[bytes]]) -> None:
        """The answer has come; where it is an error, whoever needs Redis next says so."""
        self._asked = None
        found = [] if asked.cancelled() or asked.exception() else asked.result()
        self.learn(dict(zip(found[::2], found[1::2], strict=True)))

    def learn(self, mapping: Mapping[bytes, bytes]) -> None:
        """What the hash holds now."""
        self._heard_at = self._clock()
        known = read_trouble(mapping)
        for upstream in self._circuits.keys() - known.circuits.keys():
            self._windows.pop(upstream, None)  # closed elsewhere: what failed before that must not open it again
        self._egress, self._circuits, self._paused = dict(known.egress), dict(known.circuits), known.paused

    def resting_egress(self) -> set[str]:
        """The ways out that rest."""
        now = self._now()
        return {name for name, until in self._egress.items() if until > now}

    def paused_egress(self) -> frozenset[str]:
        """The ways out that nobody may take."""
        return self._paused

    def open_circuits(self) -> Mapping[str, float]:
        """The upstreams that only canaries ask, with the seconds until the next one."""
        now = self._now()
        return {upstream: max(0.0, due - now) for upstream, due in self._circuits.items() if not is_forgotten(due, now)}

    def _window(self, upstream: str) -> _Window:
        window = self._windows.get(upstream)
        if window is None:
            now = self._clock()
            for name in [name for name, known in self._windows.items() if known.is_over(now)]:
                del self._windows[name]
            window = self._windows[upstream] = _Window()
        return window


class _Window:
    """What the requests of the last seconds met."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, bool]] = deque()
        self._failures = 0

    def note(self, now: float, *, failed: bool) -> None:
        while self._seen and self._seen[0][0] <= now - WINDOW:
            self._failures -= self._seen.popleft()[1]
        self._seen.append((now, failed))
        self._failures += failed

    def is_over(self, now: float) -> bool:
        return not self._seen or self._seen[-1][0] <= now - WINDOW

    def is_bad(self, fewest: int, share: float) -> bool:
        return self._failures >= max(fewest, share * len(self._seen))
