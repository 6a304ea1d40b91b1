"""What follows from a failed attempt: the table of consequences. Pure.

``ir.errors.CULPRITS`` says who is to blame for each ``Reason``; this table says what is done about it: where the
request goes next, and whether the account (or the account for that one model) rests. Two laws are kept by tests: the
table knows every reason, and nothing but a fault of the account scopes ever rests an account or changes its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from accounts.compile import AccountState
from ir.errors import Fault, Reason

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR

HINT_SPREAD = 0.05
"""A hint is stretched by up to this share, so that accounts with the same hint do not come back together."""


class Next(StrEnum):
    """The next move. ``SAME``: once more on this account, then what ``then`` says."""

    SAME = "same"
    SWITCH = "switch"
    STOP = "stop"


class Grain(StrEnum):
    """What rests."""

    NONE = "none"
    ACCOUNT = "account"
    ACCOUNT_MODEL = "account_model"
    EGRESS = "egress"


class Rest(Struct, frozen=True):
    """How long something rests, in seconds.

    A hint of the upstream wins when it is positive and at most ``longest_hint``. Without one it is ``seconds``, more or
    less by up to the share ``spread``, and where ``growing_to`` is set, that doubles with every further strike up to
    there (a strike while it already rests counts for nothing: they belong together).

    ``tentative``: without a hint nobody knows yet who is to blame. Nothing is final before another account has
    answered the same request; until then the account is passed by for ``hold`` seconds.
    ``strikes``: this many within ``window`` seconds before anything rests at all, and ``then`` for each one more. Who
    comes back from a rest has no such grace.
    """

    seconds: float
    longest_hint: float = 0
    growing_to: float = 0
    spread: float = 0
    tentative: bool = False
    hold: float = 0
    strikes: int = 1
    window: float = 0
    then: float = 0


class Escalation(Struct, frozen=True):
    """So many within ``window`` seconds, and an admin has to look: the account's state changes. What comes while it
    rests already counts for nothing."""

    times: int
    window: float
    state: AccountState


class Consequence(Struct, frozen=True):
    """``refresh_first``: renew the credential before the next move. ``state``: what becomes of a ready account.

    ``switches`` bounds the moves to another account that one request makes for this reason; None: as many as it may.
    """

    next: Next
    then: Next = Next.STOP
    switches: int | None = None
    grain: Grain = Grain.NONE
    rest: Rest | None = None
    state: AccountState | None = None
    escalation: Escalation | None = None
    refresh_first: bool = False


PAUSES: Mapping[Reason, float] = {Reason.CAPACITY: 0.5, Reason.TRANSIENT: 0.25, Reason.CUT: 0.1}
"""Seconds before the same account is tried once more; up to three times as long by chance, so that callers do not
march."""

PROVIDER_PAUSES = (2.0, 5.0, 10.0)
"""Seconds before each further try of a provider account that nobody else can stand in for; up to a quarter longer."""

BRIDGE = Rest(10 * MINUTE)
"""With a change of state: rests the account at once, until the change has reached every process."""

HOLD = 5.0

_STOP = Consequence(Next.STOP)

CONSEQUENCES: Mapping[Reason, Consequence] = {
    # The caller's: the same request would fail everywhere.
    Reason.BAD_REQUEST: _STOP,
    Reason.CONTEXT_TOO_LONG: _STOP,
    Reason.TOOLS_TOO_LARGE: _STOP,
    Reason.TOO_LARGE: _STOP,
    Reason.IMAGE_UNSUPPORTED: _STOP,
    Reason.UNSUPPORTED_PARAM: _STOP,
    Reason.MODEL_UNKNOWN: _STOP,
    Reason.POLICY: _STOP,
    Reason.CLIENT_GONE: _STOP,
    # The account's.
    Reason.AUTH_EXPIRED: Consequence(Next.SAME, then=Next.SWITCH, refresh_first=True),
    Reason.AUTH_REVOKED: Consequence(Next.SWITCH, grain=Grain.ACCOUNT, rest=BRIDGE, state=AccountState.NEEDS_SIGN_IN),
    Reason.FORBIDDEN: Consequence(
        Next.SWITCH,
        grain=Grain.ACCOUNT,
        rest=Rest(10 * MINUTE),
        escalation=Escalation(3, 3 * HOUR, AccountState.BLOCKED),
    ),
    Reason.PAYMENT: Consequence(Next.SWITCH, grain=Grain.ACCOUNT, rest=BRIDGE, state=AccountState.DISABLED),
    Reason.QUOTA: Consequence(
        Next.SWITCH,
        grain=Grain.ACCOUNT,
        rest=Rest(15 * MINUTE, longest_hint=32 * DAY, growing_to=6 * HOUR, tentative=True, hold=HOLD),
    ),
    Reason.DEVICE_LIMIT: Consequence(Next.SWITCH, grain=Grain.ACCOUNT, rest=Rest(DAY)),
    # A block is a notice to the operator, never a reason to send the same traffic from elsewhere.
    Reason.BLOCKED: Consequence(Next.STOP, grain=Grain.ACCOUNT, rest=BRIDGE, state=AccountState.BLOCKED),
    Reason.ACCOUNT_CLOSED: Consequence(Next.SWITCH, grain=Grain.ACCOUNT, rest=BRIDGE, state=AccountState.DISABLED),
    Reason.MODEL_GATED: Consequence(Next.SWITCH, grain=Grain.ACCOUNT_MODEL, rest=Rest(12 * HOUR)),
    Reason.MODEL_LIMIT: Consequence(Next.SWITCH, grain=Grain.ACCOUNT_MODEL, rest=Rest(6 * HOUR, longest_hint=32 * DAY)),
    Reason.RATE_LIMIT: Consequence(
        Next.SWITCH,
        grain=Grain.ACCOUNT_MODEL,
        rest=Rest(5.0, longest_hint=DAY, growing_to=5 * MINUTE, tentative=True, hold=HOLD),
    ),
    # Without a word of why: most often a model that is short everywhere, or gated. Never worth a long rest.
    Reason.EXHAUSTED: Consequence(
        Next.SWITCH,
        grain=Grain.ACCOUNT_MODEL,
        rest=Rest(MINUTE, longest_hint=DAY, growing_to=5 * MINUTE, spread=0.25, tentative=True, hold=HOLD),
    ),
    # One is nobody's fault; several on one account while others answer are its own.
    Reason.TRANSIENT: Consequence(
        Next.SAME,
        then=Next.SWITCH,
        grain=Grain.ACCOUNT_MODEL,
        rest=Rest(10.0, tentative=True, strikes=2, window=MINUTE, then=45.0),
    ),
    # The upstream's and the way's: an account is not to blame for them.
    Reason.CAPACITY: Consequence(Next.SAME, then=Next.SWITCH, switches=2),
    Reason.TIMEOUT: Consequence(Next.SWITCH),
    Reason.CUT: Consequence(Next.SAME, then=Next.SWITCH),
    Reason.EMPTY: Consequence(Next.SWITCH, switches=1),
    Reason.EGRESS: Consequence(Next.SWITCH, grain=Grain.EGRESS),
    Reason.BROKEN_TOOL_CALL: _STOP,
    Reason.MISSING_TOOL_CALL: Consequence(Next.SAME),  # a model may obey when it is asked once more
    Reason.INVALID_OUTPUT: Consequence(Next.SAME),  # it is told what was wrong
    # Ours: another account would most likely meet the same bug, so one more is asked and no further.
    Reason.PROTOCOL: Consequence(Next.SWITCH, switches=1),
    Reason.CLIENT_OUTDATED: _STOP,
    # Ours as well, but most often about this one account: its credential cannot be opened, its address is refused.
    Reason.INTERNAL: Consequence(Next.SWITCH),
}


def hint_of(fault: Fault) -> float | None:
    """The upstream's own time, in seconds, where it can be believed."""
    rest = CONSEQUENCES[fault.reason].rest
    hint = fault.retry_after
    return hint if rest is not None and hint is not None and 0 < hint <= rest.longest_hint else None


def provider_tries(fault: Fault, most: int) -> int:
    """How often a provider account without another beside it is asked again after ``fault``: not at all where waiting
    does not help, or where the provider itself asks for more time than a caller has."""
    if fault.reason not in PAUSES or (fault.retry_after or 0) > PROVIDER_PAUSES[-1]:
        return 0
    return min(most, len(PROVIDER_PAUSES))


def provider_pause(fault: Fault, tries: int) -> float:
    """Seconds before the next try after so many, at least what the provider itself asks for."""
    return max(PROVIDER_PAUSES[min(tries, len(PROVIDER_PAUSES)) - 1], fault.retry_after or 0)


def is_tentative(fault: Fault) -> bool:
    """Whether it takes another account's answer to the same request to say who is to blame."""
    rest = CONSEQUENCES[fault.reason].rest
    return rest is not None and rest.tentative and hint_of(fault) is None
