"""What can be done to groups of accounts, and which teams may use them. Each verb writes its audit row and publishes,
in one transaction. Wrong input raises ``InvalidValue``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils.text import slugify

from accounts.models import Group
from core import audit, publish
from core.audit import SYSTEM, Actor
from core.columns import check_columns
from tenants.models import Team


@transaction.atomic
def create_group(name: str, *, teams: Iterable[Team] = (), actor: Actor = SYSTEM) -> Group:
    """A new group, open to ``teams``."""
    group = Group(name=name.strip(), slug=slugify(name))
    check_columns(group)
    group.save()
    group.teams.set(teams)
    audit.record(actor, "group.create", group, after=_group_state(group))
    publish.bump()
    return group


@transaction.atomic
def allow_teams(group: Group, teams: Iterable[Team], *, actor: Actor = SYSTEM) -> None:
    """Makes ``teams`` the ones that may use the group, and no others."""
    before = _group_state(group)
    group.teams.set(teams)
    audit.record(actor, "group.allow_teams", group, before=before, after=_group_state(group))
    publish.bump()


@transaction.atomic
def delete_group(group: Group, *, actor: Actor = SYSTEM) -> None:
    """Removes a group; its accounts stay."""
    audit.record(actor, "group.delete", group, before=_group_state(group))
    group.delete()
    publish.bump()


def _group_state(group: Group) -> dict[str, Any]:
    return audit.state(group) | {"teams": sorted(group.teams.values_list("slug", flat=True))}
