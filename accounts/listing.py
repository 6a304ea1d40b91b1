"""What pages ask of the pool. Read only, for the operator. Never touches a sealed credential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import Prefetch
from django.utils import timezone
from msgspec import Struct
from redis import RedisError

from accounts.compile import AccountKind, AccountState
from accounts.leases import cooldowns_key, slots_key
from accounts.models import Account, CatalogueModel, Cooldown, Credential, PlanUsage
from accounts.pool import WHOLE
from core.redis import connection


class Cooling(Struct, frozen=True):
    """``model`` "" means the whole account."""

    model: str
    reason: str
    until: datetime


class AccountLine(Struct, frozen=True):
    """An account as lists show it. ``condition`` is what matters most: off, a state, cooling, probing (its rest is
    over, one request at a time tries it), draining, or ready.

    ``credential`` tells it from others by its last four characters, is "kept" where those would tell too much, and ""
    where there is none. ``probing``: models whose rest is over and who are tried with one request first ("": the whole
    account). ``in_use`` is the number of its slots that requests hold now; None when Redis does not say.
    """

    account: Account
    groups: Sequence[str]
    credential: str
    cooling: Sequence[Cooling]
    probing: Sequence[str] = ()
    in_use: int | None = None

    @property
    def condition(self) -> str:
        if not self.account.enabled:
            return AccountState.DISABLED
        if self.account.state != AccountState.READY:
            return self.account.state
        if any(not rest.model for rest in self.cooling):
            return "cooling"
        if "" in self.probing:
            return "probing"
        return "draining" if self.account.draining else AccountState.READY

    @property
    def quota(self) -> PlanUsage | None:
        """What its upstream told of its plan; None where it never did."""
        return getattr(self.account, "plan_usage", None)

    @property
    def login_ended(self) -> bool:
        """Whether its browser login is over: without ``oauth_client_id`` none is refreshed."""
        credential: Credential | None = getattr(self.account, "credential", None)
        return credential is not None and credential.expires_at is not None and credential.expires_at <= timezone.now()

    @property
    def can_be_tested(self) -> bool:
        """Whether there is a call to it that costs nothing."""
        return self.account.kind == AccountKind.CURSOR and bool(self.credential)

    @property
    def reason(self) -> str:
        """Why it is in that condition, where that says more than the condition does."""
        if self.condition == AccountState.NEEDS_SIGN_IN and self.login_ended:
            return "login_ended"
        return "" if self.account.state_reason == self.condition else self.account.state_reason


def list_accounts(now: datetime) -> list[AccountLine]:
    """Every account in the order of choice; four queries and one round trip to Redis however many there are."""
    resting = Cooldown.objects.filter(until__gt=now).order_by("model")
    shown = Credential.objects.defer("sealed")
    rows = list(
        Account.objects.select_related("channel", "proxy", "plan_usage").prefetch_related(
            "groups", Prefetch("cooldowns", resting, "resting"), Prefetch("credential", shown)
        )
    )
    seen = _look([row.pk for row in rows], now)
    return [_line(row, seen.get(row.pk)) for row in rows]


def count_by_condition(lines: Sequence[AccountLine]) -> dict[str, int]:
    """Condition → number of accounts, only conditions that occur."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.condition] = counts.get(line.condition, 0) + 1
    return counts


class _Seen(Struct, frozen=True):
    """What Redis says of an account."""

    in_use: int
    probing: Sequence[str]


def _look(ids: Sequence[int], now: datetime) -> dict[int, _Seen]:
    """By account id; empty when Redis does not answer: a page about the pool must still open then."""
    pipe, ms = connection().pipeline(transaction=False), int(now.timestamp() * 1000)
    for pk in ids:
        pipe.zcount(slots_key(pk), ms, "+inf")
        pipe.hgetall(cooldowns_key(pk))
    try:
        answers = pipe.execute()
    except RedisError:
        return {}
    return {pk: _Seen(answers[2 * place], _over(answers[2 * place + 1], ms)) for place, pk in enumerate(ids)}


def _over(rests: Mapping[bytes, bytes], now: int) -> list[str]:
    """The models whose rest is over but not forgotten; holds and warming up are no rests."""
    fields = {field.decode(): int(value) for field, value in rests.items() if b"|" not in field}
    return sorted("" if field == WHOLE else field for field, until in fields.items() if until <= now)


def _line(row: Account, seen: _Seen | None) -> AccountLine:
    resting: Sequence[Cooldown] = row.resting  # type: ignore[attr-defined]  # named by the Prefetch above
    cooling = [Cooling(rest.model, rest.reason, rest.until) for rest in resting]
    groups = [group.name for group in row.groups.all()]
    probing, in_use = (seen.probing, seen.in_use) if seen else ((), None)
    return AccountLine(row, groups, _hint(row), cooling, probing, in_use)


def _hint(row: Account) -> str:
    credential: Credential | None = getattr(row, "credential", None)
    if credential is None:
        return ""
    return f"…{credential.last_four}" if credential.last_four else "kept"


def name_example_model() -> str:
    """A model that can be asked for as it is named, for examples on pages; "" when the catalogue is empty."""
    models = CatalogueModel.objects.filter(enabled=True, alias_of="").exclude(name__contains="*")
    return models.values_list("name", flat=True).first() or ""
