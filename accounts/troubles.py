"""What befalls more than one account: a way out that is broken, an upstream that is down.

Both are kept in one hash for all processes, which is absent nearly always:

* ``egress|NAME``: Unix milliseconds until which a way out rests. Two faults within a minute, and it rests for ten;
* ``circuit|UPSTREAM``: an open circuit. Each process counts what its requests met; when enough of them failed, nobody
  asks that upstream any more but one request at a time, a canary: the first after five seconds, then ever more rarely.
  The first canary that is answered closes the circuit;
* ``paused|NAME``: a way out that nobody takes, not even where there is no other (``accounts.blocks``).

A process knows of the hash what it read last, and believes it for a second.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from accounts.compile import AccountView
from core.redis_pipe import Pipe, PipeDown, PipeError, Script

TROUBLE = "poolgate:trouble"
DIRECT = "direct"
PAUSED = "paused|"

WINDOW = 10.0
FEWEST_FAILURES, LEAST_SHARE = 5, 0.5
"""A circuit opens at so many failures within the window (the setting ``circuit_failures``), when they are this share of
what was asked."""

FIRST_CANARY, RAREST_CANARY = 5.0, 60.0
EGRESS_FAULTS, EGRESS_WINDOW, EGRESS_REST = 2, 60.0, 600.0
KEPT = 3600.0
"""Seconds for which the hash outlives its last change."""

BELIEVED = 1.0

OPEN = Script("""
-- KEYS: the troubles. ARGV: field, interval in ms, kept in ms. Returns 1 when the circuit was not open before.
local clock = redis.call('TIME')
local now, interval = clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(ARGV[2])
local circuit = cjson.encode({opened_at = now, next_canary = now + interval, interval = interval})
local opened = redis.call('HSETNX', KEYS[1], ARGV[1], circuit)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return opened
""")

CANARY = Script("""
-- KEYS: the troubles. ARGV: field, longest interval in ms, kept in ms. Returns 0: granted, else ms to the next one.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local found = redis.call('HGET', KEYS[1], ARGV[1])
if not found then return 0 end
local circuit = cjson.decode(found)
if now < circuit.next_canary then return circuit.next_canary - now end
circuit.interval = math.min(circuit.interval * 2, tonumber(ARGV[2]))
circuit.next_canary = now + circuit.interval
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(circuit))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 0
""")

EGRESS = Script("""
-- KEYS: the troubles, the faults of this way out. ARGV: field, faults that are too many, their window in ms, rest in ms
-- Returns the milliseconds that it rests from now.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ends = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if ends > now then return ends - now end
local faults = redis.call('INCR', KEYS[2])
if faults == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
if faults < tonumber(ARGV[2]) then return 0 end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[1], ARGV[1], now + ARGV[4])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return tonumber(ARGV[4])
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


class Troubles:
    """For one process. ``clock`` and ``now`` give seconds: the one from anywhere, the other Unix time."""

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

    def served(self, upstream: str) -> None:
        """It answered a request."""
        self._window(upstream).note(self._clock(), failed=False)

    async def failed(self, upstream: str, fewest: int = FEWEST_FAILURES) -> bool:
        """An account of it was asked in vain. Returns whether that opened the circuit. Raises ``PipeDown``."""
        window = self._window(upstream)
        window.note(self._clock(), failed=True)
        return window.is_bad(fewest) and await self.open(upstream)

    async def open(self, upstream: str) -> bool:
        """From now on only canaries ask it. Returns whether others did until now. Raises ``PipeDown``."""
        interval = int(FIRST_CANARY * 1000)
        opened = await self._pipe.run(OPEN, [TROUBLE], [f"circuit|{upstream}", interval, int(KEPT * 1000)])
        if opened:
            self._circuits[upstream] = self._now() + FIRST_CANARY
        return bool(opened)

    async def close(self, upstream: str) -> None:
        """A canary was answered. Raises ``PipeDown``."""
        self._circuits.pop(upstream, None)
        self._windows.pop(upstream, None)
        await self._pipe.call("HDEL", TROUBLE, f"circuit|{upstream}")

    async def canary(self, upstream: str) -> float:
        """0.0: this request may ask the upstream though its circuit is open; else the seconds until one may. Raises
        ``PipeDown``."""
        longest = int(RAREST_CANARY * 1000)
        wait = await self._pipe.run(CANARY, [TROUBLE], [f"circuit|{upstream}", longest, int(KEPT * 1000)])
        return float(wait) / 1000

    async def egress_failed(self, name: str) -> float:
        """Nothing came through this way out. Returns the seconds that it rests from now. Raises ``PipeDown``."""
        rest = await self._pipe.run(
            EGRESS,
            [TROUBLE, f"poolgate:egress:{name}"],
            [f"egress|{name}", EGRESS_FAULTS, int(EGRESS_WINDOW * 1000), int(EGRESS_REST * 1000)],
        )
        if rest:
            self._egress[name] = self._now() + float(rest) / 1000
        return float(rest) / 1000

    async def are_known(self) -> bool:
        """Whether anything is in trouble, as far as is known; once a second that is asked. Never raises."""
        if self._clock() - self._heard_at >= BELIEVED:
            with suppress(PipeDown, PipeError):  # whoever needs Redis next says so
                await self.refresh()
        return bool(self._egress or self._circuits or self._paused)

    async def refresh(self) -> None:
        """Reads the hash. Raises ``PipeDown``."""
        self._heard_at = self._clock()  # the others need not ask as well
        found: list[bytes] = await self._pipe.call("HGETALL", TROUBLE)
        self.learn(dict(zip(found[::2], found[1::2], strict=True)))

    def learn(self, mapping: Mapping[bytes, bytes]) -> None:
        """What the hash holds now."""
        self._heard_at = self._clock()
        known = read_trouble(mapping)
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
        return {upstream: max(0.0, due - now) for upstream, due in self._circuits.items()}

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

    def is_bad(self, fewest: int) -> bool:
        return self._failures >= max(fewest, LEAST_SHARE * len(self._seen))
