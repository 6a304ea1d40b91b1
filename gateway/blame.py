"""What the faults of one turn do to the accounts that it asked.

Only faults of the account scopes leave a mark on an account (``accounts.failures``); everything else passes by it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct

from accounts import cooldowns
from accounts.compile import AccountView
from accounts.failures import CONSEQUENCES
from core.redis_pipe import PipeDown, PipeError
from gateway.registry import Services
from gateway.routing import Route
from ir.errors import Fault
from ops.trace import Mark


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

    async def suffer(self, account: AccountView, fault: Fault) -> Effect:
        """Does to the account what the fault calls for. Never raises: the request's own fate does not hang on it."""
        if CONSEQUENCES[fault.reason].rest is None:
            return UNMARKED
        try:
            rest = await cooldowns.apply(
                self._services.ledger.pipe, account, self._route.upstream_id, fault, self._draws()
            )
        except (PipeDown, PipeError):
            return Effect(Mark.UNKNOWN)
        return Effect(Mark.RESTED, rest) if rest else UNMARKED
