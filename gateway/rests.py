"""Why accounts rest, as far as this process has seen it.

Redis knows how long an account rests, not why. The why is wanted where a request finds every account resting: callers
that were too fast for the pool are told to slow down (429), all others that there is no capacity (503). An admin may
end a rest at any time, so nothing but that choice of words hangs on what is remembered here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from accounts.compile import AccountView
from accounts.failures import CONSEQUENCES, Grain
from ir.errors import Reason

MANY = 4096
"""Rests beyond which those that ended are thrown out: callers can make up models that a pattern serves."""

PACE = frozenset({Reason.RATE_LIMIT, Reason.EXHAUSTED, Reason.QUOTA, Reason.MODEL_LIMIT})
"""Reasons that time alone puts right, and that fewer requests would have avoided."""


class _Rest(Struct, frozen=True):
    reason: Reason
    noted: float
    until: float


class Rests:
    """For one process. ``clock`` gives seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: dict[tuple[int, str], _Rest] = {}

    def note(self, account: AccountView, model: str, reason: Reason, seconds: float) -> None:
        """``account`` rests for ``seconds`` from now, wholly or for ``model``, as the reason has it."""
        now, whole = self._clock(), CONSEQUENCES[reason].grain is Grain.ACCOUNT
        if len(self._rests) >= MANY:
            self._rests = {what: rest for what, rest in self._rests.items() if rest.until > now}
        self._rests[account.id, "" if whole else model] = _Rest(reason, now, now + seconds)

    def left(self, account: AccountView, model: str) -> float:
        """Seconds that ``account`` still rests for ``model``, as far as this process has sent it to rest."""
        now = self._clock()
        found = (self._rests.get((account.id, what)) for what in ("", model))
        return max((rest.until - now for rest in found if rest is not None and rest.until > now), default=0.0)

    def are_pace(self, accounts: Iterable[AccountView], model: str) -> bool:
        """Whether all of ``accounts`` were last seen to rest because they were asked too much."""
        reasons = [self._latest(account, model) for account in accounts]
        return bool(reasons) and all(reason in PACE for reason in reasons)

    def _latest(self, account: AccountView, model: str) -> Reason | None:
        now, found = self._clock(), None
        for what in ("", model):
            rest = self._rests.get((account.id, what))
            if rest is not None and rest.until > now and (found is None or rest.noted > found.noted):
                found = rest
        return found.reason if found is not None else None
