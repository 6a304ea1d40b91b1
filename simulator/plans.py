"""What the fake dashboard says of each account's plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MONTH = 30 * 86_400


@dataclass(frozen=True)
class Plan:
    """Shares in percent. ``texts``: dates come as texts; ``told``: None to browser logins, else all or none."""

    auto: float = 12.0
    api: float = 34.0
    ends_in: float = MONTH / 2
    texts: bool = False
    told: bool | None = None

    def answer(self, now: float) -> dict[str, Any]:
        """As ``GetCurrentPeriodUsage`` answers it."""
        ends: float | str = int((now + self.ends_in) * 1000)
        starts: float | str = int((now + self.ends_in - MONTH) * 1000)
        if self.texts:
            ends, starts = str(ends), str(starts)
        plan = {
            "limit": 2000,
            "totalSpend": round(20 * self.api),
            "remaining": 2000 - round(20 * self.api),
            "autoPercentUsed": self.auto,
            "apiPercentUsed": self.api,
            "totalPercentUsed": max(self.auto, self.api),
        }
        return {"billingCycleStart": starts, "billingCycleEnd": ends, "planUsage": plan}


@dataclass
class Plans:
    """By account name; who is not in it has the usual one."""

    by_account: dict[str, Plan] = field(default_factory=dict)

    def of(self, account: str) -> Plan:
        return self.by_account.get(account, Plan())

    def order(self, account: str, body: Mapping[str, Any]) -> None:
        """Raises ``ValueError`` for members that a plan has not."""
        try:
            self.by_account[account] = Plan(**body)
        except TypeError:
            raise ValueError("a plan has auto, api, ends_in, texts and told") from None
