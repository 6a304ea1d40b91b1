"""What pages ask of the pool. Read only, for the operator. Never touches a sealed credential."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Prefetch
from msgspec import Struct
from redis import RedisError

from accounts.compile import AccountState
from accounts.leases import slots_key
from accounts.models import Account, CatalogueModel, Cooldown, Credential
from core.redis import connection


class Cooling(Struct, frozen=True):
    """``model`` "" means the whole account."""

    model: str
    reason: str
    until: datetime


class AccountLine(Struct, frozen=True):
    """An account as lists show it. ``condition`` is what matters most: off, a state, cooling, draining, or ready.

    ``credential`` tells it from others by its last four characters, is "kept" where those would tell too much, and ""
    where there is none. ``in_use`` is the number of its slots that requests hold now; None when Redis does not say.
    """

    account: Account
    groups: Sequence[str]
    credential: str
    cooling: Sequence[Cooling]
    in_use: int | None = None

    @property
    def condition(self) -> str:
        if not self.account.enabled:
            return AccountState.DISABLED
        if self.account.state != AccountState.READY:
            return self.account.state
        if any(not rest.model for rest in self.cooling):
            return "cooling"
        return "draining" if self.account.draining else AccountState.READY

    @property
    def reason(self) -> str:
        """Why it is in that condition, where that says more than the condition does."""
        return "" if self.account.state_reason == self.condition else self.account.state_reason


def list_accounts(now: datetime) -> list[AccountLine]:
    """Every account in the order of choice; four queries and one round trip to Redis however many there are."""
    resting = Cooldown.objects.filter(until__gt=now).order_by("model")
    shown = Credential.objects.defer("sealed")
    rows = list(
        Account.objects.select_related("channel").prefetch_related(
            "groups", Prefetch("cooldowns", resting, "resting"), Prefetch("credential", shown)
        )
    )
    in_use = _count_slots([row.pk for row in rows], now)
    return [_line(row, in_use.get(row.pk)) for row in rows]


def count_by_condition(lines: Sequence[AccountLine]) -> dict[str, int]:
    """Condition → number of accounts, only conditions that occur."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.condition] = counts.get(line.condition, 0) + 1
    return counts


def _count_slots(ids: Sequence[int], now: datetime) -> dict[int, int]:
    """Account id → slots taken; empty when Redis does not answer: a page about the pool must still open then."""
    pipe = connection().pipeline(transaction=False)
    for pk in ids:
        pipe.zcount(slots_key(pk), int(now.timestamp() * 1000), "+inf")
    try:
        return dict(zip(ids, pipe.execute(), strict=True))
    except RedisError:
        return {}


def _line(row: Account, in_use: int | None) -> AccountLine:
    resting: Sequence[Cooldown] = row.resting  # type: ignore[attr-defined]  # named by the Prefetch above
    cooling = [Cooling(rest.model, rest.reason, rest.until) for rest in resting]
    return AccountLine(row, [group.name for group in row.groups.all()], _hint(row), cooling, in_use)


def _hint(row: Account) -> str:
    credential: Credential | None = getattr(row, "credential", None)
    if credential is None:
        return ""
    return f"…{credential.last_four}" if credential.last_four else "kept"


def name_example_model() -> str:
    """A model that can be asked for as it is named, for examples on pages; "" when the catalogue is empty."""
    models = CatalogueModel.objects.filter(enabled=True, alias_of="").exclude(name__contains="*")
    return models.values_list("name", flat=True).first() or ""
