"""What pages ask of the pool. Read only, for the operator. Never touches a sealed credential."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Prefetch
from msgspec import Struct

from accounts.compile import AccountState
from accounts.models import Account, CatalogueModel, Cooldown, Credential


class Cooling(Struct, frozen=True):
    """``model`` "" means the whole account."""

    model: str
    reason: str
    until: datetime


class AccountLine(Struct, frozen=True):
    """An account as lists show it. ``condition`` is what matters most: off, a state, cooling, or ready."""

    account: Account
    groups: Sequence[str]
    last_four: str
    cooling: Sequence[Cooling]

    @property
    def condition(self) -> str:
        if not self.account.enabled:
            return AccountState.DISABLED
        if self.account.state != AccountState.READY:
            return self.account.state
        return "cooling" if any(not rest.model for rest in self.cooling) else AccountState.READY


def list_accounts(now: datetime) -> list[AccountLine]:
    """Every account in the order of choice; four queries however many there are."""
    resting = Cooldown.objects.filter(until__gt=now).order_by("model")
    shown = Credential.objects.defer("sealed")
    rows = Account.objects.prefetch_related(
        "groups", Prefetch("cooldowns", resting, "resting"), Prefetch("credential", shown)
    )
    return [_line(row) for row in rows]


def count_by_condition(lines: Sequence[AccountLine]) -> dict[str, int]:
    """Condition → number of accounts, only conditions that occur."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.condition] = counts.get(line.condition, 0) + 1
    return counts


def _line(row: Account) -> AccountLine:
    resting: Sequence[Cooldown] = row.resting  # type: ignore[attr-defined]  # named by the Prefetch above
    cooling = [Cooling(rest.model, rest.reason, rest.until) for rest in resting]
    credential = getattr(row, "credential", None)
    return AccountLine(row, [group.name for group in row.groups.all()], getattr(credential, "last_four", ""), cooling)


def name_example_model() -> str:
    """A model that can be asked for as it is named, for examples on pages; "" when the catalogue is empty."""
    names = CatalogueModel.objects.filter(enabled=True).exclude(name__contains="*").values_list("name", flat=True)
    return names.first() or ""
