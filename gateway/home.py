"""Where the conversation of one turn is at home: heard before the first account is chosen, told when one has served.

Everything that the turn knows of its home account comes together here; what follows from it is in ``gateway.affinity``.
"""

from __future__ import annotations

import time

from accounts.compile import AccountView
from accounts.pool import PoolView, Sticky, find, judge
from gateway.affinity import Session
from gateway.ledger import Entry
from gateway.registry import Services
from gateway.routing import Route
from ops.trace import Affinity


class Home:
    """For one turn. ``session`` None: conversations stay nowhere."""

    def __init__(self, session: Session | None, route: Route, entry: Entry, services: Services) -> None:
        self._session = session
        self._route = route
        self._entry = entry
        self._services = services

    async def hear(self) -> None:
        """Which account the conversation is bound to."""
        session, trace = self._session, self._entry.trace
        if session is None:
            return
        await session.hear(time.time())
        trace.conversation, trace.known_by = session.identity.name, session.identity.origin
        trace.affinity = Affinity.STICKY if session.sticky is not None else Affinity.NONE

    @property
    def sticky(self) -> Sticky | None:
        """The account to prefer."""
        return self._session.sticky if self._session is not None else None

    def served(self, account: AccountView) -> None:
        """``account`` has answered: what that means for the conversation is written when the turn is closed."""
        if self._session is not None:
            self._entry.bindings = self._session.served(account.id, self._rest(), time.time())

    def _rest(self) -> float | None:
        """Seconds for which the home account rests; None: there is none that may serve."""
        sticky, model, ledger = self.sticky, self._route.upstream_id, self._services.ledger
        account = find(self._route.candidates, sticky.account_id) if sticky is not None else None
        known = PoolView(quotas=ledger.knowledge.used(model), barred=ledger.knowledge.barred)
        if account is None or judge(account, known, model, bound=True) is not None:
            return None
        heard = ledger.slots.hints.left(account.id, model)
        return max(heard, self._services.rests.left(account, model))
