"""Which accounts to ask, and in which order. Pure: loads, cooldowns and chance are arguments.

The order is a proposal made from what this process has seen; the truth about slots and cooldowns is the server's, and
``accounts.leases`` takes the first account of the order that really has room. Inside a tier two accounts drawn by
chance are compared and the emptier one goes first: always taking the single emptiest would send every process of the
house to the same account at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter

from accounts.compile import AccountState, AccountView

_priority = attrgetter("priority")

WHOLE = "*"
"""Stands for every model where a cooldown names one."""


def choose(
    candidates: Iterable[AccountView],
    loads: Mapping[int, int],
    cooled: Collection[tuple[int, str]],
    *,
    model: str,
    exclude: Collection[int],
    draws: Callable[[], float],
) -> Iterator[AccountView]:
    """The accounts that may serve ``model``, best first, each worked out when it is asked for.

    ``loads``: requests running, by account id; ``cooled``: (account id, model or ``*``); ``draws`` gives numbers
    in [0, 1), two for each place in a tier that still has a choice, and two more for each drawn account that may not.
    """

    def may_serve(account: AccountView) -> bool:
        return (
            account.state is AccountState.READY
            and account.slots > 0
            and account.id not in exclude
            and account.serves(model)
            and not (cooled and ((account.id, WHOLE) in cooled or (account.id, model) in cooled))
        )

    for _, tier in groupby(sorted(candidates, key=_priority), key=_priority):
        yield from _two_choices(list(tier), loads, draws, may_serve)


def _two_choices(
    tier: list[AccountView],
    loads: Mapping[int, int],
    draws: Callable[[], float],
    may_serve: Callable[[AccountView], bool],
) -> Iterator[AccountView]:
    """Only who is drawn is looked at: a pool may be large, and most requests end with the first account."""
    while len(tier) > 1:
        first = int(draws() * len(tier))
        second = int(draws() * (len(tier) - 1))
        second += second >= first  # never the same one twice
        unfit = [place for place in (first, second) if not may_serve(tier[place])]
        if unfit:
            for place in sorted(unfit, reverse=True):
                del tier[place]
            continue
        best = first if _ratio(tier[first], loads) <= _ratio(tier[second], loads) else second
        yield tier.pop(best)
    yield from filter(may_serve, tier)


def _ratio(account: AccountView, loads: Mapping[int, int]) -> float:
    return loads.get(account.id, 0) / account.slots
