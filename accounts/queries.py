"""What the snapshot reads of this app, in as few queries as there are tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from accounts.models import Account, Credential, Group


def account_rows() -> Iterable[Account]:
    """All accounts with what ``compile_accounts`` reads."""
    return Account.objects.select_related("credential", "channel", "proxy").prefetch_related("groups")


def groups_of_teams() -> Mapping[int, frozenset[int]]:
    """Team id → ids of the account groups it may use; a team without any is absent."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for team_id, group_id in Group.teams.through.objects.values_list("team_id", "group_id"):
        found[team_id].add(group_id)
    return {team_id: frozenset(groups) for team_id, groups in found.items()}


def sealed_credentials() -> Mapping[int, bytes]:
    """Credential id → sealed bytes. They are opened where one is used, never here."""
    return {pk: bytes(sealed) for pk, sealed in Credential.objects.values_list("pk", "sealed")}
