"""The decision trace of a request: why it went the way it went. Pure.

Beside the record, which says what came of a request, the trace says step by step how: which accounts were looked at
and why each was or was not taken, what every attempt met, what that did to accounts, and where the answer was committed
to. By its types it holds counts, ids and words of closed lists, and ``decode``, which every trace goes through on its
way into a row, refuses anything else. A trace is at most ``MOST`` bytes: what does not fit is left out and counted,
candidates first, because the attempts are what the record can be checked against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from accounts.compile import Transport
from accounts.failures import Next
from ir.errors import Culprit, Reason, Stage

MOST = 4096

Word = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=32)]
"""A term of ours: a verdict, the name of a score."""

CODE = r"^[A-Za-z0-9_.:-]{0,64}$"
Code = Annotated[str, Meta(pattern=CODE)]
"""An upstream's own name of an error, or a status."""


class Mark(StrEnum):
    """What a fault did to its account."""

    NONE = "none"
    RESTED = "rested"
    HELD = "held"  # until it is known who is to blame
    GUARDED = "guarded"  # too few accounts would have been left: the circuit was opened instead
    EGRESS = "egress"  # not the account, but its way out rests
    UNKNOWN = "unknown"  # the state store did not answer


class Verdict(StrEnum):
    """What became of the holds of earlier attempts."""

    CONFIRMED = "confirmed"  # another account answered: the accounts were to blame
    DROPPED = "dropped"  # all failed alike: the request or the upstream was


class Affinity(StrEnum):
    NONE = "none"
    STICKY = "sticky"
    HARD = "hard"


class Trouble(StrEnum):
    """What befell more than one account."""

    CIRCUIT_OPENED = "circuit_opened"
    CIRCUIT_CLOSED = "circuit_closed"
    CANARY_GRANTED = "canary_granted"
    CANARY_REFUSED = "canary_refused"
    BUDGET_SPENT = "retry_budget_spent"


class Passed(Struct, frozen=True, array_like=True):
    """An account that was looked at and not taken. ``seconds``: until that may change, where it is known."""

    account: int
    verdict: Word
    seconds: float = 0


class Step(Struct, frozen=True, omit_defaults=True, tag_field="step", tag=str.lower):
    """``at`` is in milliseconds from the request's start."""

    at: int


class Look(Step, frozen=True):
    """One search for an account. ``account`` 0: none was had, and ``why`` is the shortage."""

    waited: int = 0
    account: int = 0
    why: Word | None = None
    load: int = 0
    canary: bool = False
    terms: Mapping[Word, float] = {}
    passed: tuple[Passed, ...] = ()
    soonest: float | None = None


class Tried(Step, frozen=True):
    """One attempt. Without a ``reason`` it served. ``mark`` and ``rest`` (seconds) are what its account got for it;
    ``resumed``: it went on with a run that was kept for tool results."""

    account: int
    transport: Transport
    took: int = 0
    reason: Reason | None = None
    stage: Stage | None = None
    culprit: Culprit | None = None
    code: Code = ""
    mark: Mark = Mark.NONE
    rest: float = 0
    resumed: bool = False


class Moved(Step, frozen=True):
    """What followed from the fault."""

    next: Next
    paused: int = 0


class Fallback(Step, frozen=True):
    """The account's second way was taken."""

    account: int
    transport: Transport


class Judged(Step, frozen=True):
    """The holds of these accounts were made real, or taken back."""

    verdict: Verdict
    accounts: tuple[int, ...]


class Troubled(Step, frozen=True):
    trouble: Trouble
    seconds: float = 0


class Committed(Step, frozen=True):
    """From here on nothing switches."""


class Ended(Step, frozen=True):
    """The answer. ``remembered``: it was that of the same request a moment ago, and nobody was asked."""

    status: int = 0
    code: Code = ""
    retry_after: float | None = None
    remembered: bool = False


AnyStep = Look | Tried | Moved | Fallback | Judged | Troubled | Committed | Ended


class Trace(Struct, frozen=True, omit_defaults=True):
    """``candidates``: how many accounts the route had. ``conversation``: the digest that it is bound by, and
    ``known_by`` what that was made from. The two last say how much did not fit."""

    steps: tuple[AnyStep, ...]
    candidates: int = 0
    affinity: Affinity = Affinity.NONE
    conversation: Code = ""
    known_by: Word | None = None
    passed_left_out: int = 0
    steps_left_out: int = 0


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Trace)


def encode(trace: Trace) -> bytes:
    """At most ``MOST`` bytes of JSON."""
    data = _encode(trace)
    if len(data) <= MOST:
        return data
    data = _encode(trace := _without_candidates(trace, len(data)))
    return data if len(data) <= MOST else _encode(_without_middle(trace))


def decode(data: bytes) -> Trace:
    """Raises ``msgspec.ValidationError`` for what is no trace, or holds what a trace may not."""
    return _decoder.decode(data)


def builtins(trace: Trace) -> Any:
    """The trace as values that JSON knows."""
    return msgspec.to_builtins(trace)


def read(value: Any) -> Trace:
    """A trace from its JSON as Python values."""
    return msgspec.convert(value, Trace)


def _without_candidates(trace: Trace, size: int) -> Trace:
    """Leaves out accounts that were passed by, from the last of each search on, as far as it takes."""
    steps = list(trace.steps)
    left_out = trace.passed_left_out
    over = size - MOST + len(',"passed_left_out":') + 8
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        if over <= 0 or not isinstance(step, Look) or not step.passed:
            continue
        kept = list(step.passed)
        while kept and over > 0:
            over -= len(_encode(kept.pop())) + 1
            left_out += 1
        steps[place] = structs.replace(step, passed=tuple(kept))
    return structs.replace(trace, steps=tuple(steps), passed_left_out=left_out)


def _without_middle(trace: Trace) -> Trace:
    """Keeps steps from both ends: how it began and how it ended."""
    sizes = [len(_encode(step)) + 1 for step in trace.steps]
    room = MOST - len(_encode(structs.replace(trace, steps=(), steps_left_out=len(sizes))))
    first, last = _ends(sizes, room)
    steps = trace.steps[:first] + trace.steps[last:]
    return structs.replace(trace, steps=steps, steps_left_out=last - first)


def _ends(sizes: Sequence[int], room: int) -> tuple[int, int]:
    """How many may stay from the start, and from where on at the end, taking turns."""
    first, last = 0, len(sizes)
    while first < last:
        at_end = first > len(sizes) - last
        place = last - 1 if at_end else first
        if sizes[place] > room:
            break
        room -= sizes[place]
        first, last = (first, place) if at_end else (first + 1, last)
    return first, last
