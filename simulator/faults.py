"""Ordered trouble: a fault per account, and seeded chaos over all of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.causes import CAUSES, Form


@dataclass
class Fault:
    """``times`` None: until it is changed. ``models`` None: all. ``after``: that many deltas are sent first."""

    cause: str | None = None
    times: int | None = None
    models: frozenset[str] | None = None
    after: int | None = None
    latency: float = 0.0

    @property
    def spent(self) -> bool:
        return self.cause is None or self.times == 0

    @property
    def at_contact(self) -> bool:
        """Whether it shows at the first request already, before the model is known."""
        return not self.spent and self.models is None and self.after is None and _form(self.cause) is not Form.STREAM

    def take(self) -> str | None:
        """Uses the fault once."""
        if self.spent:
            return None
        if self.times is not None:
            self.times -= 1
        return self.cause

    def describe(self) -> dict[str, Any]:
        """As the control API shows it."""
        return {
            "fault": self.cause,
            "times": self.times,
            "models": sorted(self.models) if self.models is not None else None,
            "after": self.after,
            "latency_ms": round(self.latency * 1000),
        }


@dataclass
class Verdict:
    """What awaits one run: ``cause`` after ``after`` deltas of its script, ``latency`` seconds before the first."""

    cause: str | None = None
    after: int = 0
    latency: float = 0.0


@dataclass
class Faults:
    """All trouble that has been ordered."""

    by_account: dict[str, Fault] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    rate: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(0))

    def of(self, account: str) -> Fault:
        return self.by_account.setdefault(account, Fault())

    def at_contact(self, account: str) -> str | None:
        """The cause that meets the first request of a run, before its model is known. Uses the fault."""
        fault = self.of(account)
        return fault.take() if fault.at_contact else None

    def at_exchange(self, account: str) -> str | None:
        """The cause that meets a key exchange: a bad key (used up by it), or lasting trouble on the way here."""
        fault = self.of(account)
        if fault.cause == "key_bad":
            return fault.take()
        return fault.cause if _lasting(fault) and _form(fault.cause) in _ON_THE_WAY else None

    def at_unary(self, account: str) -> str | None:
        """The cause that meets a unary call: only lasting faults, so that a counted one is left for a run."""
        fault = self.of(account)
        return fault.cause if _lasting(fault) else None

    def at_run(self, account: str, model: str) -> Verdict:
        """What awaits a run whose model is known. Uses the fault, and throws the dice of chaos."""
        fault = self.of(account)
        verdict = Verdict(latency=fault.latency)
        if fault.models is None or model in fault.models:
            verdict.cause, verdict.after = fault.take(), fault.after or 0
        if verdict.cause is None and self.causes and self.dice.random() < self.rate:
            verdict.cause, verdict.after = self.dice.choice(self.causes), 0
        return verdict

    def order(self, account: str, body: Mapping[str, Any]) -> Fault:
        """Replaces an account's fault by what the control API was sent. Raises ``ValueError`` for a bad order."""
        unknown = set(body) - {"fault", "times", "models", "after", "latency_ms"}
        if unknown:
            raise ValueError(f"unknown members: {', '.join(sorted(unknown))}")
        cause = body.get("fault")
        if cause is not None and cause not in CAUSES:
            raise ValueError(f"unknown cause: {cause}")
        models = body.get("models")
        if models is not None and not isinstance(models, list):
            raise ValueError("models must be a list or null")
        fault = Fault(
            cause,
            _whole(body, "times"),
            frozenset(map(str, models)) if models is not None else None,
            _whole(body, "after"),
            (_whole(body, "latency_ms") or 0) / 1000,
        )
        self.by_account[account] = fault
        return fault

    def order_chaos(self, body: Mapping[str, Any]) -> None:
        """Starts or (rate 0) stops chaos. Raises ``ValueError`` for a bad order."""
        causes = body.get("causes") or []
        if not isinstance(causes, list) or not set(causes) <= set(CAUSES):
            raise ValueError("causes must be a list of known causes")
        rate = body.get("rate", 0)
        if not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
            raise ValueError("rate must be between 0 and 1")
        self.causes, self.rate = tuple(causes), float(rate)
        self.dice = random.Random(body.get("seed", 0))


_ON_THE_WAY = (Form.HTML, Form.PLAIN, Form.EMPTY, Form.CLOSE)


def _form(cause: str | None) -> Form:
    return CAUSES[cause].form if cause else Form.STREAM


def _lasting(fault: Fault) -> bool:
    return fault.cause is not None and fault.times is None and fault.models is None and fault.after is None


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number or null")
    return value
