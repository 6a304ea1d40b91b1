"""What the faults of one turn do to others: to the accounts that it asked, and to who comes with the same request.

Only faults of the account scopes leave a mark on an account (``accounts.failures``); everything else passes by it. Some
refusals speak of a request as well as of an account. They only hold the account, until the turn knows better:

* another account answers: the accounts were to blame, their holds become real (``answered``);
* every account that was asked refuses alike: the request is to blame. The holds are dropped, and the very same request
  is remembered for a while (``gateway.refusals``), so that an instant retry does not burn the pool (``gave_up``);
* anything between the two proves nothing, and the holds pass by themselves within seconds.

What no account answered is counted against the upstream, once for each account: one bad account among good ones never
opens a circuit (``accounts.troubles``), because then another one answers.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from accounts import cooldowns
from accounts.compile import AccountView
from accounts.cooldowns import Applied
from accounts.failures import CONSEQUENCES
from accounts.leases import Lease
from accounts.troubles import egress_of, upstream_of
from core.redis_pipe import PipeDown, PipeError
from core.settings import Settings
from gateway import refusals
from gateway.attempts import Errand
from gateway.registry import Services
from gateway.rests import PACE
from ir.errors import Fault, Reason
from ops.trace import Mark, Trouble, Verdict

log = logging.getLogger(__name__)


class Effect(Struct, frozen=True):
    """``rest``: seconds that the account rests from now."""

    mark: Mark = Mark.NONE
    rest: float = 0.0


CIRCUIT = PACE | {Reason.CAPACITY, Reason.TRANSIENT, Reason.TIMEOUT, Reason.CUT}
"""Reasons that say that an upstream is in trouble, when no account could answer."""


class Sentence(Struct, frozen=True):
    """What became of the holds of ``accounts``."""

    verdict: Verdict
    accounts: tuple[int, ...]


Settled = Sentence | Trouble
"""Something that a turn found out for others."""


class _Hold(Struct, frozen=True):
    account: AccountView
    fault: Fault


UNMARKED = Effect()


class Blame:
    """For one turn. Nothing here raises where Redis is away: the request's own fate does not hang on it."""

    def __init__(
        self, services: Services, errand: Errand, settings: Settings, draws: Callable[[], float] = random.random
    ) -> None:
        self._services = services
        self._model = errand.route.upstream_id
        self._candidates = errand.route.candidates
        self._fingerprint = errand.fingerprint
        self._draws = draws
        self._settings = settings
        self._holds: list[_Hold] = []
        self._in_vain: dict[int, AccountView] = {}
        self._canary = ""
        self._back: dict[int, float] = {}
        """When the accounts that this turn sent to rest may serve again; those that an admin must wake never do."""

    async def suffer(self, account: AccountView, fault: Fault, *, answered: bool = False) -> Effect:
        """Does to the account what the fault calls for. ``answered``: it had begun to answer, so that the request is
        not to blame."""
        if fault.reason is Reason.INTERNAL:
            log.error("ALARM account %d could not be asked: %s at %s", account.id, fault.upstream_code, fault.stage)
        if fault.reason in CIRCUIT:
            self._in_vain[account.id] = account
        if fault.reason is Reason.EGRESS:
            return await self._egress(account)
        if CONSEQUENCES[fault.reason].rest is None:
            return UNMARKED
        do = cooldowns.confirm if answered else cooldowns.apply
        try:
            applied = await do(
                self._services.ledger.pipe, account, self._model, fault, self._draws(), peers=self._candidates
            )
            if applied.held:
                self._holds.append(_Hold(account, fault))
            return await self._note(account, fault, applied)
        except (PipeDown, PipeError):
            return Effect(Mark.UNKNOWN)

    async def answered(self, lease: Lease) -> list[Settled]:
        """The account answers the request. What else refused it is to blame for that, it alone is not; and where it
        came back from a rest, that is over."""
        account = lease.account
        troubles, upstream = self._services.troubles, upstream_of(account, self._model)
        troubles.served(upstream)
        holds, self._holds = self._holds, []
        settled: list[Settled] = []
        try:
            if lease.canary:
                await cooldowns.recovered(self._services.ledger.pipe, account, self._model)
            if self._canary == upstream:
                await troubles.close(upstream)
                settled.append(Trouble.CIRCUIT_CLOSED)
            if holds:
                settled += await self._confirm(account, holds)
        except (PipeDown, PipeError):
            pass
        return settled

    async def gave_up(self, *, alike: bool) -> list[Settled]:
        """Nobody answered. ``alike``: all attempts failed for one reason. Where accounts were held for it, they are not
        to blame; where there were several of them, the request is, and it is remembered."""
        holds, self._holds = self._holds, []
        settled: list[Settled] = []
        try:
            if holds and alike:
                settled.append(await self._drop(holds))
            troubles = self._services.troubles
            upstreams = [upstream_of(account, self._model) for account in self._in_vain.values()]
            opened = [upstream for upstream in upstreams if await troubles.failed(upstream, self._settings)]
            settled += [Trouble.CIRCUIT_OPENED] * len(opened)
        except (PipeDown, PipeError):
            pass
        return settled

    async def ask_leave(self, accounts: Sequence[AccountView]) -> tuple[tuple[AccountView, ...], float]:
        """All ``accounts`` are behind open circuits. Those that this request may ask nevertheless, as a canary; without
        any, the seconds until one may. Raises ``PipeDown``."""
        waits = []
        for upstream in dict.fromkeys(upstream_of(account, self._model) for account in accounts):
            wait = await self._services.troubles.canary(upstream, self._settings)
            if not wait:
                self._canary = upstream
                return tuple(account for account in accounts if upstream_of(account, self._model) == upstream), 0.0
            waits.append(wait)
        return (), min(waits)

    async def _confirm(self, account: AccountView, holds: Sequence[_Hold]) -> list[Settled]:
        pipe, guilty = self._services.ledger.pipe, [hold for hold in holds if hold.account.id != account.id]
        settled: list[Settled] = [Sentence(Verdict.CONFIRMED, _accounts(guilty))] if guilty else []
        for hold in guilty:
            applied = await cooldowns.confirm(
                pipe, hold.account, self._model, hold.fault, self._draws(), peers=self._candidates
            )
            await self._note(hold.account, hold.fault, applied)
        for hold in holds:
            if hold.account.id == account.id:
                await cooldowns.drop(pipe, account, self._model, hold.fault)
        return settled

    async def _drop(self, holds: Sequence[_Hold]) -> Sentence:
        accounts, reason = _accounts(holds), holds[0].fault.reason
        pipe, memory = self._services.ledger.pipe, self._settings.refusal_memory
        for hold in holds:
            await cooldowns.drop(pipe, hold.account, self._model, hold.fault)
            self._back.pop(hold.account.id, None)
        if len(accounts) > 1 and reason in PACE and self._fingerprint and memory:
            await refusals.remember(pipe, self._fingerprint, reason, time.time(), memory)
            self._back = {account.id: time.monotonic() + memory for account in self._candidates}
        return Sentence(Verdict.DROPPED, accounts)

    async def _egress(self, account: AccountView) -> Effect:
        """Not the account rests, but its way out."""
        try:
            rest = await self._services.troubles.egress_failed(egress_of(account), self._settings)
        except (PipeDown, PipeError):
            return UNMARKED
        return Effect(Mark.EGRESS, rest) if rest else UNMARKED

    def soonest(self, accounts: Sequence[AccountView]) -> float | None:
        """Seconds until the first of ``accounts`` may serve the request, all of which this turn has asked. None when
        that is not known: one of them was not sent to rest, or none comes back by itself."""
        if not all(account.id in self._back for account in accounts):
            return None
        first = min((self._back[account.id] for account in accounts), default=math.inf)
        return max(0.0, first - time.monotonic()) if first < math.inf else None

    async def _guard(self, upstream: str, fault: Fault) -> None:
        """Too few accounts would be left: it is the upstream's trouble. A passing error proves that only in numbers."""
        if fault.reason is Reason.TRANSIENT:
            await self._services.troubles.failed(upstream, self._settings)
        else:
            await self._services.troubles.open(upstream, self._settings)

    async def _note(self, account: AccountView, fault: Fault, applied: Applied) -> Effect:
        if applied.guarded:
            await self._guard(upstream_of(account, self._model), fault)
            return Effect(Mark.GUARDED)
        if not applied.rest:
            return Effect(Mark.HELD) if applied.held else UNMARKED
        self._services.rests.note(account, self._model, fault.reason, applied.rest)
        comes_back = CONSEQUENCES[fault.reason].state is None
        self._back[account.id] = time.monotonic() + applied.rest if comes_back else math.inf
        return Effect(Mark.HELD if applied.held else Mark.RESTED, applied.rest)


def _accounts(holds: Sequence[_Hold]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(hold.account.id for hold in holds))
