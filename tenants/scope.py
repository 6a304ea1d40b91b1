"""Whose rows a person may see. Every query that a tenant's page runs takes a ``Scope``. Pure."""

from __future__ import annotations

from msgspec import Struct


class Scope(Struct, frozen=True):
    """``everything`` is the operator's view; otherwise only rows of ``team_ids``.

    "All" is a flag of its own: an empty set of teams means nothing, never everything.
    """

    everything: bool = False
    team_ids: frozenset[int] = frozenset()
