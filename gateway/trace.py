"""Writes down the steps of one request as they happen, for ``ops.trace``. Pure: times are arguments.

A trace is bounded while it grows, too: a pool may be large, and a request that nobody can serve looks at all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from accounts.compile import Transport
from accounts.leases import Lease, Refused
from accounts.pool import Choice
from ir.errors import Fault
from ops import trace
from ops.record import Attempt, Record
from ops.trace import CODE, Affinity, AnyStep, Ended, Look, Mark, Passed, Trace, Tried

MOST_PASSED = 64
"""Accounts that were passed by, over all searches of a request: more would not fit anyway."""


_is_code = re.compile(CODE).match


class Tracer:
    """For one request. ``at`` is in milliseconds from its start. Nothing is kept of a request that took no step."""

    def __init__(self) -> None:
        self.candidates = 0
        self.affinity = Affinity.NONE
        self.conversation = self.known_by = ""
        self.retry_after: float | None = None
        self.remembered = False
        self._steps: list[AnyStep] = []
        self._passed = self._left_out = 0

    def add(self, step: AnyStep) -> None:
        self._steps.append(step)

    def looked(self, at: int, waited: int, got: Lease | Refused) -> None:
        """A search for an account, and what it gave."""
        if isinstance(got, Lease):
            why, terms = _reasons(got.choice)
            passed = self._passed_by(got)
            self.add(Look(at, waited, got.account.id, why, got.load, got.canary, terms, passed))
        else:
            why = got.shortage.value
            self.add(Look(at, waited, why=why, soonest=got.soonest, passed=self._passed_by(got)))

    def _passed_by(self, got: Lease | Refused) -> tuple[Passed, ...]:
        room = MOST_PASSED - self._passed
        self._passed += min(room, len(got.passed))
        self._left_out += max(0, len(got.passed) - room)
        return tuple(Passed(one.account_id, one.verdict, one.seconds) for one in got.passed[:room])

    def tried(self, attempt: Attempt, way: Transport, fault: Fault | None, mark: Mark, rest: float) -> None:
        """An attempt, in the record's words, with what its account got for it."""
        if fault is None:
            self.add(Tried(attempt.at_ms, attempt.account_id, way, attempt.took_ms, resumed=attempt.resumed))
            return
        code = fault.upstream_code if _is_code(fault.upstream_code) else ""
        self.add(
            Tried(
                attempt.at_ms, attempt.account_id, way, attempt.took_ms,
                fault.reason, fault.stage, fault.culprit, code, mark, rest, attempt.resumed,
            )
        )  # fmt: skip

    def encode(self, record: Record) -> bytes:
        """The trace as it is stored, with the answer that ``record`` holds by now; empty without a step."""
        if not self._steps and not self.remembered:
            return b""
        self.add(Ended(record.duration_ms, record.status, record.code, self.retry_after, self.remembered))
        return trace.encode(
            Trace(
                tuple(self._steps), self.candidates, self.affinity, self.conversation, self.known_by or None,
                passed_left_out=self._left_out,
            )
        )  # fmt: skip


def _reasons(choice: Choice | None) -> tuple[str | None, Mapping[str, float]]:
    """What an account owes its place to, and the score with what it is made of, as far as that is not 0."""
    if choice is None:
        return None, {}
    terms = choice.terms
    named = {
        "score": terms.score, "load": terms.load, "errors": terms.errors, "slowness": terms.slowness,
        "quota": terms.quota,
    }  # fmt: skip
    return choice.why.value, {name: round(value, 3) for name, value in named.items() if value}
