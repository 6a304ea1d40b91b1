"""Which accounts to ask, and in which order. Pure: what is known of them, and chance, are arguments.

The order is a proposal made from what this process has seen; the truth about slots and cooldowns is the server's, and
``accounts.leases`` takes the first account of the order that really has room.

Who is bound comes first (``Sticky``): a conversation stays where it was, because its upstream remembers it. Then go
the tiers of priority, the best one first. Inside a tier two accounts drawn by chance are compared, and the one with
the lower score goes first: always taking the single best would send every process of the house to the same account at
the same moment. The score is ``load + 0.8·errors + 0.5·slowness + 0.3·quota`` (``Terms``).

A pool may be large and most requests end with the first account, so only who is drawn is looked at: candidates come
ranked (``rank``), and nothing here walks through all of them while some of them may serve.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from accounts.compile import AccountState, AccountView
from accounts.stats import UNSEEN, Seen
from accounts.troubles import egress_of, upstream_of

WHOLE = "*"
"""Stands for every model where a cooldown names one."""

ERRORS, SLOWNESS, QUOTA = 0.8, 0.5, 0.3
"""What the terms weigh beside the load."""

CROWDED = 0.9
"""Share of its slots from which on an account is no longer preferred for being bound."""

QUOTA_FLOOR = 0.02
"""Share of its quota that an account keeps back while others have more."""

_priority = attrgetter("priority")
_id = attrgetter("id")


class Verdict(StrEnum):
    """Why an account was passed by."""

    OFF = "off"
    NO_SLOTS = "no_slots"
    OTHER_MODEL = "other_model"
    NOT_USABLE = "not_usable"  # its upstream does not list the model for it
    LEFT = "left"  # this request has been there
    DRAINING = "draining"
    RESTING = "resting"
    QUOTA_LOW = "quota_low"
    QUOTA_SPENT = "quota_spent"  # nothing is left of the bucket that the model counts for
    EGRESS_RESTING = "egress_resting"
    EGRESS_PAUSED = "egress_paused"  # two accounts on it were blocked
    CIRCUIT_OPEN = "circuit_open"
    CROWDED = "crowded"  # the conversation is bound to it, but that alone does not put it first now


class Why(StrEnum):
    """What an account owes its place to."""

    HARD = "hard"
    STICKY = "sticky"
    SCORE = "score"  # the better of two
    LAST = "last"  # the only one left of its tier


class Sticky(Struct, frozen=True):
    """The account that a conversation is bound to. ``hard``: it holds state without which nobody else can go on."""

    account_id: int
    hard: bool = False


def _unseen(account_id: int, model: str) -> Seen:
    return UNSEEN


def _nothing_known(account_id: int, model: str) -> Verdict | None:
    return None


class PoolView(Struct, frozen=True):
    """What is known of the pool at one moment, as far as it was heard.

    ``loads``: requests running, by account id; ``cooled``: (account id, model or ``*``); ``egress``: ways out that
    rest, ``paused``: that nobody may take; ``circuits``: upstreams that only canaries may ask; ``quotas``: share of its
    quota that an account has used, 0 to 1, where that is known; ``seen``: how an account has served a model;
    ``barred``: what jobs found against it.
    """

    loads: Mapping[int, int] = {}
    cooled: Collection[tuple[int, str]] = ()
    egress: Collection[str] = ()
    paused: Collection[str] = ()
    circuits: Collection[str] = ()
    quotas: Mapping[int, float] = {}
    floor: float = QUOTA_FLOOR
    seen: Callable[[int, str], Seen] = _unseen
    barred: Callable[[int, str], Verdict | None] = _nothing_known

    def doubted(self) -> PoolView:
        """The same without what may be over by now or is a mere wish: for when it left nobody to choose."""
        return replace(self, cooled=(), egress=(), floor=0.0)


CALM = PoolView()


class Terms(Struct, frozen=True):
    """What a score is made of, each from 0 (best) to 1, save a load of more requests than slots."""

    load: float = 0.0
    errors: float = 0.0
    slowness: float = 0.0
    quota: float = 0.0

    @property
    def score(self) -> float:
        return self.load + ERRORS * self.errors + SLOWNESS * self.slowness + QUOTA * self.quota


class Choice(Struct, frozen=True):
    account: AccountView
    why: Why
    terms: Terms


Passed = Callable[[AccountView, Verdict], object]


def _pass_by(account: AccountView, verdict: Verdict) -> None:
    """Nobody wants to know."""


def rank(accounts: Iterable[AccountView]) -> tuple[AccountView, ...]:
    """In the order that ``choose`` wants its candidates in: by priority, then by id."""
    return tuple(sorted(accounts, key=attrgetter("priority", "id")))


def choose(
    candidates: Sequence[AccountView],
    view: PoolView,
    *,
    model: str,
    exclude: Collection[int] = (),
    sticky: Sticky | None = None,
    draws: Callable[[], float],
    passed: Passed = _pass_by,
) -> Iterator[Choice]:
    """The accounts that may serve ``model``, best first, each worked out when it is asked for.

    ``candidates`` are ranked; ``model`` is the upstream's name; ``exclude``: ids that this request has tried.
    ``draws`` gives numbers in [0, 1): two for each place in a tier that still has a choice, and two more for each drawn
    account that may not serve. ``passed`` hears of the accounts that were looked at and not chosen.
    """
    settled = 0
    if sticky is not None:
        bound = find(candidates, sticky.account_id)
        if bound is not None:
            verdict = judge(bound, view, model, exclude, bound=True)
            if verdict is None and not sticky.hard and load_of(bound, view) >= CROWDED:
                verdict = Verdict.CROWDED
            if verdict is None:
                yield Choice(bound, Why.HARD if sticky.hard else Why.STICKY, _alone(bound, view, model))
            else:
                passed(bound, verdict)
            settled = bound.id if verdict is not Verdict.CROWDED else 0
        if sticky.hard:
            return

    def may_serve(account: AccountView) -> bool:
        if account.id == settled:
            return False
        verdict = judge(account, view, model, exclude)
        if verdict is not None:
            passed(account, verdict)
        return verdict is None

    start = 0
    while start < len(candidates):
        end = bisect_right(candidates, candidates[start].priority, lo=start + 1, key=_priority)
        yield from _two_choices(_Urn(candidates, start, end), view, model, draws, may_serve)
        start = end


def judge(
    account: AccountView, view: PoolView, model: str, exclude: Collection[int] = (), *, bound: bool = False
) -> Verdict | None:
    """Why the account may not serve; None when it may. ``bound``: the conversation is there already."""
    if account.id in exclude:
        return Verdict.LEFT
    if account.state is not AccountState.READY:
        return Verdict.OFF
    if account.slots <= 0:
        return Verdict.NO_SLOTS
    if not account.serves(model):
        return Verdict.OTHER_MODEL
    if (known := view.barred(account.id, model)) is not None:
        return known
    if account.draining and not bound:
        return Verdict.DRAINING
    if view.cooled and ((account.id, WHOLE) in view.cooled or (account.id, model) in view.cooled):
        return Verdict.RESTING
    if view.quotas and 1 - view.quotas.get(account.id, 0.0) < view.floor:
        return Verdict.QUOTA_LOW
    if view.paused and egress_of(account) in view.paused:
        return Verdict.EGRESS_PAUSED
    if view.egress and egress_of(account) in view.egress:
        return Verdict.EGRESS_RESTING
    if view.circuits and upstream_of(account, model) in view.circuits:
        return Verdict.CIRCUIT_OPEN
    return None


def find(candidates: Sequence[AccountView], account_id: int) -> AccountView | None:
    """The account of that id among ranked ``candidates``, without looking at each."""
    start = 0
    while start < len(candidates):
        end = bisect_right(candidates, candidates[start].priority, lo=start + 1, key=_priority)
        place = bisect_left(candidates, account_id, lo=start, hi=end, key=_id)
        if place < end and candidates[place].id == account_id:
            return candidates[place]
        start = end
    return None


def load_of(account: AccountView, view: PoolView) -> float:
    """The share of its slots that is in use."""
    return view.loads.get(account.id, 0) / account.slots


class _Urn:
    """The places of one tier, from which accounts are drawn: only what was moved is written down."""

    __slots__ = ("_candidates", "_moved", "_start", "size")

    def __init__(self, candidates: Sequence[AccountView], start: int, end: int) -> None:
        self._candidates = candidates
        self._start = start
        self._moved: dict[int, int] = {}
        self.size = end - start

    def at(self, place: int) -> AccountView:
        return self._candidates[self._start + self._moved.get(place, place)]

    def remove(self, place: int) -> None:
        """The last one takes its place."""
        self.size -= 1
        self._moved[place] = self._moved.get(self.size, self.size)


def _two_choices(
    urn: _Urn,
    view: PoolView,
    model: str,
    draws: Callable[[], float],
    may_serve: Callable[[AccountView], bool],
) -> Iterator[Choice]:
    while urn.size > 1:
        first = int(draws() * urn.size)
        second = int(draws() * (urn.size - 1))
        second += second >= first  # never the same one twice
        unfit = [place for place in (first, second) if not may_serve(urn.at(place))]
        if unfit:
            for place in sorted(unfit, reverse=True):
                urn.remove(place)
            continue
        here, there = urn.at(first), urn.at(second)
        mine, others = _compare(here, there, view, model)
        if mine.score <= others.score:
            urn.remove(first)
            yield Choice(here, Why.SCORE, mine)
        else:
            urn.remove(second)
            yield Choice(there, Why.SCORE, others)
    if urn.size and may_serve(urn.at(0)):
        yield Choice(urn.at(0), Why.LAST, _alone(urn.at(0), view, model))


def _compare(first: AccountView, second: AccountView, view: PoolView, model: str) -> tuple[Terms, Terms]:
    """The terms of both; slowness is what each is slower than the other."""
    mine, others = view.seen(first.id, model), view.seen(second.id, model)
    return _terms(first, view, mine, others), _terms(second, view, others, mine)


def _alone(account: AccountView, view: PoolView, model: str) -> Terms:
    return _terms(account, view, view.seen(account.id, model), UNSEEN)


def _terms(account: AccountView, view: PoolView, own: Seen, other: Seen) -> Terms:
    return Terms(load_of(account, view), own.errors, _slowness(own, other), view.quotas.get(account.id, 0.0))


def _slowness(own: Seen, other: Seen) -> float:
    """0 for the faster of two; 1 for one that takes at least twice as long, as far as both can be trusted."""
    if own.first_token is None or other.first_token is None or own.first_token <= other.first_token:
        return 0.0
    trust = min(own.trust, other.trust)
    if own.first_token >= 2 * other.first_token:
        return trust
    return trust * (own.first_token / other.first_token - 1)
