"""What the faults of one turn do to the accounts that it asked.

Only faults of the account scopes leave a mark on an account (``accounts.failures``); everything else passes by it.
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
from accounts.failures import CONSEQUENCES
from core.redis_pipe import PipeDown, PipeError
from gateway.registry import Services
from gateway.routing import Route
from ir.errors import Fault, Reason
from ops.trace import Mark

log = logging.getLogger(__name__)


class Effect(Struct, frozen=True):
    """``rest``: seconds that the account rests from now."""

    mark: Mark = Mark.NONE
    rest: float = 0.0


UNMARKED = Effect()


class Blame:
    """For one turn."""

    def __init__(self, services: Services, route: Route, draws: Callable[[], float] = random.random) -> None:
        self._services = services
        self._route = route
        self._draws = draws
        self._back: dict[int, float] = {}
        """When the accounts that this turn sent to rest may serve again; those that an admin must wake never do."""

    async def suffer(self, account: AccountView, fault: Fault, *, answered: bool = False) -> Effect:
        """Does to the account what the fault calls for. ``answered``: the answer had begun, so the request is not to
        blame. Never raises: the request's own fate does not hang on it."""
        if fault.reason is Reason.INTERNAL:
            log.error("ALARM account %d could not be asked: %s at %s", account.id, fault.upstream_code, fault.stage)
        if CONSEQUENCES[fault.reason].rest is None:
            return UNMARKED
        try:
            apply = cooldowns.confirm if answered else cooldowns.apply
            applied = await apply(self._services.ledger.pipe, account, self._route.upstream_id, fault, self._draws())
        except (PipeDown, PipeError):
            return Effect(Mark.UNKNOWN)
        if not applied.rest:
            return UNMARKED
        self._services.rests.note(account, self._route.upstream_id, fault.reason, applied.rest)
        comes_back = CONSEQUENCES[fault.reason].state is None
        self._back[account.id] = time.monotonic() + applied.rest if comes_back else math.inf
        return Effect(Mark.HELD if applied.held else Mark.RESTED, applied.rest)

    def soonest(self, accounts: Sequence[AccountView]) -> float | None:
        """Seconds until the first of ``accounts`` may serve again, all of which this turn has asked. None when that is
        not known: one of them was not sent to rest, or none comes back by itself."""
        if not all(account.id in self._back for account in accounts):
            return None
        first = min((self._back[account.id] for account in accounts), default=math.inf)
        return max(0.0, first - time.monotonic()) if first < math.inf else None
