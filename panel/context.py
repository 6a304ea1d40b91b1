"""What every page shows around its content: navigation by role, who is signed in, the version."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from msgspec import Struct

from core.version import VERSION
from panel.access import RULES, Role, Visitor


class Entry(Struct, frozen=True):
    """A line of the navigation. ``routes`` are the pages on which it is the current one, its target first."""

    title: str
    icon: str
    routes: tuple[str, ...]

    @property
    def route(self) -> str:
        return self.routes[0]


NAVIGATION = (
    Entry("Overview", "gauge", ("overview",)),
    Entry("Requests", "list-details", ("requests", "request")),
    Entry("Accounts", "server-2", ("accounts", "account_test")),
    Entry("Keys", "key", ("keys", "key_new", "key", "key_revoke")),
    Entry("Jobs", "activity", ("jobs",)),
    Entry("Settings", "adjustments-horizontal", ("settings", "settings_save", "settings_history")),
)


def surroundings(request: HttpRequest) -> dict[str, Any]:
    """Context processor. A page that failed before the visitor was known gets no navigation."""
    visitor: Visitor | None = getattr(request, "visitor", None)
    role = visitor.role if visitor and not visitor.must_change_password else Role.ANYONE
    current = request.resolver_match.view_name if request.resolver_match else ""
    return {
        "visitor": visitor,
        "navigation": [entry for entry in NAVIGATION if RULES[entry.route].least <= role] if role else [],
        "current_route": current,
        "version": VERSION,
    }
