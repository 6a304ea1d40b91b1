from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accounts import pool
from accounts.compile import AccountKind, AccountState, AccountView, Transport


def choose(candidates: list[AccountView], *args: Any, **kwargs: Any) -> list[AccountView]:
    return list(pool.choose(candidates, *args, **kwargs))


def account(number: int, **fields: object) -> AccountView:
    given_fields = {"base_url": "http://127.0.0.1:1", "groups": frozenset({1}), "credential_id": number} | fields
    return AccountView(number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, **given_fields)  # type: ignore[arg-type]


def always(*numbers: float) -> Iterator[float]:
    while True:
        yield from numbers


ACCOUNTS = st.lists(
    st.builds(
        account,
        st.integers(1, 30),
        priority=st.sampled_from([10, 20, 30]),
        slots=st.integers(0, 4),
        state=st.sampled_from(AccountState),
        models=st.sampled_from([(), ("gpt-*",), ("claude-1",)]),
    ),
    unique_by=lambda view: view.id,
    max_size=12,
)
COOLED = st.sets(st.tuples(st.integers(1, 30), st.sampled_from(["*", "gpt-1", "claude-1"])))


@given(ACCOUNTS, COOLED, st.sets(st.integers(1, 30)), st.randoms(use_true_random=False))
def test_the_order_holds_every_account_that_may_serve_once_and_no_other(
    accounts: list[AccountView], cooled: set[tuple[int, str]], exclude: set[int], chance: random.Random
) -> None:
    order = choose(accounts, {}, cooled, model="gpt-1", exclude=exclude, draws=chance.random)
    able = [
        view.id
        for view in accounts
        if view.state is AccountState.READY
        and view.slots
        and view.serves("gpt-1")
        and view.id not in exclude
        and not {(view.id, "*"), (view.id, "gpt-1")} & cooled
    ]
    assert sorted(view.id for view in order) == sorted(able)


@given(ACCOUNTS, st.randoms(use_true_random=False))
def test_a_better_tier_always_comes_first(accounts: list[AccountView], chance: random.Random) -> None:
    order = choose(accounts, {}, (), model="gpt-1", exclude=(), draws=chance.random)
    assert [view.priority for view in order] == sorted(view.priority for view in order)


@given(ACCOUNTS, st.integers())
def test_the_same_chance_gives_the_same_order(accounts: list[AccountView], seed: int) -> None:
    orders = [
        choose(accounts, {1: 2}, (), model="gpt-1", exclude=(), draws=random.Random(seed).random) for _ in range(2)
    ]
    assert orders[0] == orders[1]


def test_of_two_drawn_the_emptier_by_share_of_its_slots_goes_first() -> None:
    small, large = account(1, slots=2), account(2, slots=10)
    draws = always(0.0).__next__
    assert choose([small, large], {1: 1, 2: 4}, (), model="m", exclude=(), draws=draws) == [large, small]
    assert choose([small, large], {1: 0, 2: 4}, (), model="m", exclude=(), draws=draws) == [small, large]


def test_chance_spreads_equal_accounts_evenly() -> None:
    chance, accounts = random.Random(7), [account(number) for number in range(1, 6)]
    firsts = Counter(choose(accounts, {}, (), model="m", exclude=(), draws=chance.random)[0].id for _ in range(5000))
    assert set(firsts) == {1, 2, 3, 4, 5}
    assert all(850 < count < 1150 for count in firsts.values())


def test_accounts_that_may_not_serve_leave_the_spread_even() -> None:
    chance = random.Random(7)
    accounts = [account(number, slots=number % 2) for number in range(1, 10)]
    firsts = Counter(choose(accounts, {}, (), model="m", exclude=(), draws=chance.random)[0].id for _ in range(5000))
    assert set(firsts) == {1, 3, 5, 7, 9}
    assert all(850 < count < 1150 for count in firsts.values())


def test_the_fullest_account_is_never_first_where_there_is_a_choice() -> None:
    chance, accounts = random.Random(7), [account(number) for number in range(1, 6)]
    for _ in range(500):
        order = choose(accounts, {3: 3, 1: 1}, (), model="m", exclude=(), draws=chance.random)
        assert order[0].id != 3


def test_no_more_is_worked_out_than_is_asked_for() -> None:
    drawn = []

    def draw() -> float:
        drawn.append(0.0)
        return 0.0

    order = pool.choose([account(number) for number in range(1, 500)], {}, (), model="m", exclude=(), draws=draw)
    for _ in range(3):
        next(order)
    assert len(drawn) == 6
