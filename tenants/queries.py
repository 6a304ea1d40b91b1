"""What the snapshot reads of this app."""

from __future__ import annotations

from collections.abc import Mapping

from tenants.compile import Member
from tenants.models import Membership


def members() -> Mapping[tuple[int, int], Member]:
    """(user id, team id) → membership."""
    rows = Membership.objects.values_list("user_id", "team_id", "pk", "max_concurrency")
    return {(user, team): Member(pk, limit) for user, team, pk, limit in rows}
