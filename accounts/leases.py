"""Slots: how many requests an account serves at once, kept in Redis for all processes together.

A slot is a member of a sorted set (one set an account, score = when it expires, by the server's clock); what a caller
has running (per key, member and team, where it has a limit) are such sets too. One script looks at a few accounts in
order, skips what rests, throws out what expired, counts, and takes the first with room (``accounts.slot_scripts``). An
account whose rest is over gives one slot, to a canary, until that was served or has failed or left, and then a growing
share of its slots (``accounts.cooldowns`` says which fields tell).

What a request holds is written beside it, in one hash per process (``held``): field = the holder, value = the set
its slot is in. So a slot can be given back knowing only who holds it. That is what makes every way out safe: a
request that was cancelled before it heard which account it got gives back the right one, giving back twice does
nothing, and the slots of a process that vanished are found without searching. Keys inside the scripts are therefore
not all declared: one Redis server, not a cluster.

Who finds no room may wait in line (``accounts.lines``); while anybody does, whoever could wait asks there.
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
from accounts.slot_scripts import RELEASE, RENEW, TAKE
from core.redis_pipe import Pipe

FIRST_LOOK, FURTHER_LOOKS = 3, 16
"""Accounts looked at in one go: nearly always the first has room, and each more costs here and at the server; where
it has not, the pool is close to full and the next look is a wide one."""

HINT_LIFE = 5.0
"""Seconds after which, at twice as many at the latest, the load of an account that was not looked at is forgotten."""

CANARY_LIFE = 180.0
"""Seconds after which an account that comes back from a rest is tried by another request at the latest, though the one
that tries it has neither been answered nor failed nor left: the longest wait for a first output."""

WARMING = ((20.0, 0.25), (40.0, 0.5), (60.0, 0.75))
"""Up to so many seconds after a recovery, so large a share of an account's slots, though always one."""


def slots_key(account_id: int) -> str:
    return f"poolgate:slots:{account_id}"


def running_key(part: str, number: int) -> str:
    """What a key, a member or a team (``part``) has running, where it has a limit."""
    return f"poolgate:{part}:{number}"


def cooldowns_key(account_id: int) -> str:
    """A hash: see ``accounts.cooldowns``."""
    return f"poolgate:cool:{account_id}"


def held_key(process: str) -> str:
    return f"poolgate:held:{process}"


def waiting_key(model: str) -> str:
    """A hash, there while anybody waits: see ``accounts.lines``."""
    return f"poolgate:waiting:{model}"


def name_holder(team_id: int | None, process: str, request_id: str) -> str:
    """A request as the scripts know it."""
    return f"{team_id or 0}/{process}/{request_id}"


class Shortage(StrEnum):
    """Why no slot was given."""

    KEY_BUSY = "key_busy"
    MEMBER_BUSY = "member_busy"
    TEAM_BUSY = "team_busy"
    IN_LINE = "in_line"  # others wait already
    LINE_FULL = "line_full"  # too many do
    SHARE = "share"  # the pool is crowded, and the team has its share of it
    FULL = "full"
    COOLED = "cooled"
    NO_ACCOUNT = "no_account"


_REFUSALS = {
    -1: Shortage.KEY_BUSY, -2: Shortage.MEMBER_BUSY, -3: Shortage.TEAM_BUSY, -4: Shortage.IN_LINE,
    -5: Shortage.LINE_FULL,
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
        polite: bool = False,
    ) -> Lease | Refused:
        """The first of ``accounts`` with room, in ``life`` seconds' trust. What ``holder`` held before is given back.
        ``polite``: not while others wait for the model.

        Raises ``PipeDown``; when that or a cancellation strikes, ``release`` (or closing the record) still gives back
        whatever was taken.
        """
        refused = Refused(Shortage.NO_ACCOUNT)
        order, size = iter(accounts), FIRST_LOOK
        keys = [self._held, waiting_key(model)]
        while batch := list(islice(order, size)):
            size = FURTHER_LOOKS
            args = self.question(batch, model, holder, life, caller, [int(polite)])
            which, canary, *seen = await self._pipe.run(TAKE, keys, args)
            answer = self.hear(batch, model, holder, which, canary, seen, refused)
            if isinstance(answer, Lease) or which < 0:
                return answer
            refused = answer
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

    def question(
        self,
        batch: Sequence[AccountView],
        model: str,
        holder: str,
        life: float,
        caller: Caller,
        own: Sequence[str | int],
    ) -> list[str | int]:
        """What the scripts are told; ``own``: what only one of them wants to know."""
        args: list[str | int] = [
            holder, int(life * 1000), model, caller.key_id, caller.limit, caller.member_id, caller.member_limit,
            caller.team_id, caller.team_limit, int(CANARY_LIFE * 1000), *own,
        ]  # fmt: skip
        for account in batch:
            args.append(account.id)
            args.append(account.slots)
        return args

    def hear(
        self,
        batch: Sequence[AccountView],
        model: str,
        holder: str,
        which: int,
        canary: int,
        seen: Sequence[int],
        before: Refused | None = None,
    ) -> Lease | Refused:
        """What a script's answer means, and remembers it. ``before``: what earlier looks came to."""
        if which < 0:
            return Refused(_REFUSALS[which])
        self._learn(batch, seen, model)
        known = before.passed if before is not None else ()
        passed = (*known, *_passed(batch, seen, which))[:MOST_PASSED]
        if which == 0:
            return _merge(before or Refused(Shortage.NO_ACCOUNT), seen, passed)
        account, load = batch[which - 1], seen[which - 1]
        self._loads[account.id] = load + 1
        return Lease(account, holder, load, bool(canary), passed)

    def _learn(self, batch: Sequence[AccountView], seen: Sequence[int], model: str) -> None:
        for account, load in zip(batch, seen, strict=False):  # the script stops at the first with room
            self._heard.add(account.id)
            if load >= 0:
                self._loads[account.id] = load
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
