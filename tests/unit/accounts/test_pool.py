from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts import pool
from accounts.compile import AccountKind, AccountState, AccountView, Transport
from accounts.pool import Choice, PoolView, Sticky, Terms, Verdict, Why, judge, rank
from accounts.stats import UNSEEN, Seen
from accounts.troubles import DIRECT, upstream_of

CALM = PoolView()


def account(number: int, **fields: object) -> AccountView:
    given_fields = {"base_url": "http://127.0.0.1:1", "groups": frozenset({1}), "credential_id": number} | fields
    return AccountView(number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, **given_fields)  # type: ignore[arg-type]


def always(*numbers: float) -> Iterator[float]:
    while True:
        yield from numbers


def choose(candidates: Sequence[AccountView], view: PoolView = CALM, **kwargs: Any) -> list[Choice]:
    given_fields: dict[str, Any] = {"model": "m", "draws": always(0.0).__next__} | kwargs
    return list(pool.choose(rank(candidates), view, **given_fields))


def ids(choices: Sequence[Choice]) -> list[int]:
    return [choice.account.id for choice in choices]


def looking_at(**seen: Seen) -> PoolView:
    """``a1=...``: how account 1 has served."""
    return PoolView(seen=lambda account_id, model: seen.get(f"a{account_id}", UNSEEN))


NUMBERS = st.integers(1, 30)
ACCOUNTS = st.lists(
    st.builds(
        account,
        NUMBERS,
        priority=st.sampled_from([10, 20, 30]),
        slots=st.integers(0, 4),
        state=st.sampled_from(AccountState),
        models=st.sampled_from([(), ("gpt-*",), ("claude-1",)]),
        draining=st.booleans(),
        proxy_id=st.sampled_from([0, 1, 2]),
        base_url=st.sampled_from(["http://one", "http://two"]),
    ),
    unique_by=lambda view: view.id,
    max_size=12,
)
VIEWS = st.builds(
    PoolView,
    loads=st.dictionaries(NUMBERS, st.integers(0, 5)),
    cooled=st.sets(st.tuples(NUMBERS, st.sampled_from(["*", "gpt-1", "claude-1"]))),
    egress=st.sets(st.sampled_from([DIRECT, "1"])),
    circuits=st.sets(st.sampled_from(["agent_rpc|one|gpt-1", "agent_rpc|two|gpt-1"]), max_size=1),
    quotas=st.dictionaries(NUMBERS, st.floats(0, 1)),
)
STICKY = st.none() | st.builds(Sticky, NUMBERS, hard=st.booleans())


def able(accounts: Sequence[AccountView], view: PoolView, exclude: set[int], sticky: Sticky | None) -> set[int]:
    """Who may serve, said once more in other words."""
    found = set()
    for item in accounts:
        bound = sticky is not None and sticky.account_id == item.id
        if sticky is not None and sticky.hard and not bound:
            continue
        if item.draining and not (bound and (sticky.hard or view.loads.get(item.id, 0) / max(item.slots, 1) < 0.9)):  # type: ignore[union-attr]
            continue
        if {(item.id, "*"), (item.id, "gpt-1")} & set(view.cooled) or item.id in exclude:
            continue
        if item.state is not AccountState.READY or not item.slots or item.models == ("claude-1",):
            continue
        if view.quotas.get(item.id, 0) > 0.98 or item.egress in view.egress:
            continue
        if f"agent_rpc|{item.base_url.removeprefix('http://')}|gpt-1" in view.circuits:
            continue
        found.add(item.id)
    return found


@given(ACCOUNTS, VIEWS, st.sets(NUMBERS), STICKY, st.randoms(use_true_random=False))
def test_every_account_that_may_serve_comes_once_and_no_other(
    accounts: list[AccountView], view: PoolView, exclude: set[int], sticky: Sticky | None, chance: random.Random
) -> None:
    order = choose(accounts, view, model="gpt-1", exclude=exclude, sticky=sticky, draws=chance.random)
    assert sorted(ids(order)) == sorted(able(accounts, view, exclude, sticky))


@given(ACCOUNTS, VIEWS, STICKY, st.randoms(use_true_random=False))
def test_who_was_looked_at_and_not_chosen_is_told_with_the_reason(
    accounts: list[AccountView], view: PoolView, sticky: Sticky | None, chance: random.Random
) -> None:
    told: list[tuple[int, Verdict]] = []
    order = choose(
        accounts, view, model="gpt-1", sticky=sticky, draws=chance.random,
        passed=lambda account, verdict: told.append((account.id, verdict)),
    )  # fmt: skip
    for number, verdict in told:
        if verdict is Verdict.CROWDED:
            assert sticky is not None
            assert sticky.account_id == number
        else:
            assert number not in ids(order)
    if sticky is None or not sticky.hard:
        assert {number for number, _ in told} | set(ids(order)) == {item.id for item in accounts}


@given(ACCOUNTS, VIEWS, STICKY, st.randoms(use_true_random=False), st.integers())
def test_the_order_of_the_rows_and_of_the_pool_makes_no_difference(
    accounts: list[AccountView], view: PoolView, sticky: Sticky | None, chance: random.Random, seed: int
) -> None:
    shuffled = list(accounts)
    chance.shuffle(shuffled)
    orders = [
        choose(given_accounts, view, model="gpt-1", sticky=sticky, draws=random.Random(seed).random)
        for given_accounts in (accounts, shuffled)
    ]
    assert orders[0] == orders[1]


@given(ACCOUNTS, VIEWS, st.randoms(use_true_random=False))
def test_a_better_tier_always_comes_first(accounts: list[AccountView], view: PoolView, chance: random.Random) -> None:
    priorities = [choice.account.priority for choice in choose(accounts, view, draws=chance.random)]
    assert priorities == sorted(priorities)


@given(ACCOUNTS, st.integers(1, 31))
def test_an_account_is_found_by_its_id_exactly_where_it_is_a_candidate(
    accounts: list[AccountView], number: int
) -> None:
    found = pool.find(rank(accounts), number)
    assert found == next((item for item in accounts if item.id == number), None)


@pytest.mark.parametrize(
    ("fields", "view", "exclude", "verdict"),
    [
        ({}, CALM, (), None),
        ({}, CALM, (1,), Verdict.LEFT),
        ({"state": AccountState.BLOCKED}, CALM, (), Verdict.OFF),
        ({"slots": 0}, CALM, (), Verdict.NO_SLOTS),
        ({"models": ("other-*",)}, CALM, (), Verdict.OTHER_MODEL),
        ({"draining": True}, CALM, (), Verdict.DRAINING),
        ({}, PoolView(cooled={(1, "m")}), (), Verdict.RESTING),
        ({}, PoolView(cooled={(1, "*")}), (), Verdict.RESTING),
        ({}, PoolView(cooled={(1, "n"), (2, "m")}), (), None),
        ({}, PoolView(quotas={1: 0.99}), (), Verdict.QUOTA_LOW),
        ({}, PoolView(quotas={1: 0.97, 2: 1.0}), (), None),
        ({"proxy_id": 1}, PoolView(egress={"1"}), (), Verdict.EGRESS_RESTING),
        ({}, PoolView(egress={DIRECT}), (), Verdict.EGRESS_RESTING),
        ({}, PoolView(paused={DIRECT}).doubted(), (), Verdict.EGRESS_PAUSED),
        ({}, PoolView(egress={"1"}), (), None),
        ({}, PoolView(circuits={upstream_of(account(1), "m")}), (), Verdict.CIRCUIT_OPEN),
        ({}, PoolView(circuits={upstream_of(account(1), "n")}), (), None),
    ],
)
def test_each_filter_has_its_word(
    fields: dict[str, Any], view: PoolView, exclude: tuple[int, ...], verdict: Verdict | None
) -> None:
    assert judge(account(1, **fields), view, "m", exclude) is verdict


def test_what_may_be_over_by_now_stands_in_nobodys_way_when_nobody_is_left() -> None:
    upstream = upstream_of(account(1), "m")
    view = PoolView(cooled={(1, "*")}, egress={DIRECT}, quotas={1: 1.0}, loads={1: 2})
    assert choose([account(1)], view) == []
    assert choose([account(1)], view.doubted()) == [Choice(account(1), Why.LAST, Terms(load=2 / 3, quota=1.0))]
    assert choose([account(1)], PoolView(circuits={upstream}).doubted()) == []


def test_the_bound_account_comes_first_whatever_its_tier_and_score() -> None:
    pool_of_three = [account(1, priority=10), account(2, priority=10), account(3, priority=50)]
    view = PoolView(loads={3: 2})
    order = choose(pool_of_three, view, sticky=Sticky(3))
    assert order[0] == Choice(account(3, priority=50), Why.STICKY, Terms(load=2 / 3))
    assert sorted(ids(order)) == [1, 2, 3]


@pytest.mark.parametrize(("running", "first"), [(8, True), (9, False), (10, False)])
def test_a_bound_account_with_nine_tenths_of_its_slots_in_use_has_to_be_drawn_like_any_other(
    running: int, first: bool
) -> None:
    told: list[tuple[int, Verdict]] = []
    order = choose(
        [account(1, slots=10), account(2, slots=10)], PoolView(loads={1: running, 2: 7}), sticky=Sticky(1),
        passed=lambda account, verdict: told.append((account.id, verdict)),
    )  # fmt: skip
    assert ids(order) == ([1, 2] if first else [2, 1])
    assert told == ([] if first else [(1, Verdict.CROWDED)])


def test_a_draining_account_serves_who_is_bound_to_it_and_nobody_else() -> None:
    accounts = [account(1, draining=True), account(2)]
    assert ids(choose(accounts, sticky=Sticky(1))) == [1, 2]
    assert ids(choose(accounts, sticky=Sticky(2))) == [2]
    assert ids(choose(accounts)) == [2]


def test_a_bound_account_that_may_not_serve_is_passed_by_and_told_once() -> None:
    told: list[tuple[int, Verdict]] = []
    order = choose(
        [account(1), account(2)], PoolView(cooled={(1, "m")}), sticky=Sticky(1),
        passed=lambda account, verdict: told.append((account.id, verdict)),
    )  # fmt: skip
    assert ids(order) == [2]
    assert told == [(1, Verdict.RESTING)]


def test_an_account_that_is_no_candidate_binds_nobody() -> None:
    assert sorted(ids(choose([account(1), account(2)], sticky=Sticky(9)))) == [1, 2]


def test_state_that_one_account_holds_is_sought_nowhere_else() -> None:
    accounts = [account(1, slots=1), account(2)]
    assert choose(accounts, PoolView(loads={1: 1}), sticky=Sticky(1, hard=True)) == [
        Choice(accounts[0], Why.HARD, Terms(load=1.0))
    ]
    assert choose(accounts, PoolView(cooled={(1, "*")}), sticky=Sticky(1, hard=True)) == []
    assert choose(accounts, sticky=Sticky(9, hard=True)) == []


def test_of_two_drawn_the_emptier_by_share_of_its_slots_goes_first() -> None:
    small, large = account(1, slots=2), account(2, slots=10)
    assert ids(choose([small, large], PoolView(loads={1: 1, 2: 4}))) == [2, 1]
    assert ids(choose([small, large], PoolView(loads={1: 0, 2: 4}))) == [1, 2]


def test_every_term_counts_with_its_weight_and_is_told() -> None:
    view = PoolView(
        loads={1: 1},
        quotas={1: 0.5},
        seen=lambda account_id, model: Seen(0.25, 1.5, 0.8) if account_id == 1 else Seen(1.0, 1.0, 1.0),
    )
    (choice, other) = choose([account(1, slots=2), account(2, slots=2)], view)
    assert choice.account.id == 2
    assert choice.terms == Terms(load=0.0, errors=1.0, slowness=0.0, quota=0.0)
    assert choice.terms.score == pytest.approx(0.8)
    assert other.why is Why.LAST
    drawn = choose([account(1, slots=2), account(2, slots=2)], PoolView(**{**_fields(view), "loads": {1: 1, 2: 2}}))
    assert drawn[0].account.id == 1
    terms = drawn[0].terms
    assert (terms.load, terms.errors, terms.quota) == (0.5, 0.25, 0.5)
    assert terms.slowness == pytest.approx(0.4)
    assert drawn[0].terms.score == pytest.approx(0.5 + 0.8 * 0.25 + 0.5 * 0.4 + 0.3 * 0.5)


def _fields(view: PoolView) -> dict[str, Any]:
    return {name: getattr(view, name) for name in view.__struct_fields__}


@pytest.mark.parametrize(
    ("seen", "first"),
    [
        ({"a1": Seen(errors=0.2)}, 2),
        ({"a2": Seen(errors=0.2)}, 1),
        ({"a1": Seen(0.0, 2.0, 1.0), "a2": Seen(0.0, 1.0, 1.0)}, 2),
        ({"a1": Seen(0.0, 1.0, 1.0), "a2": Seen(0.0, 2.0, 1.0)}, 1),
        ({"a1": Seen(0.0, 9.0, 1.0)}, 1),  # nothing to compare it with: equal, and drawn first
    ],
)
def test_errors_and_a_slow_start_put_an_account_behind(seen: dict[str, Seen], first: int) -> None:
    assert ids(choose([account(1), account(2)], looking_at(**seen)))[0] == first


@pytest.mark.parametrize(
    ("own", "other", "slowness"),
    [
        (Seen(0, 1.0, 1.0), Seen(0, 1.0, 1.0), 0.0),
        (Seen(0, 1.5, 1.0), Seen(0, 1.0, 1.0), 0.5),
        (Seen(0, 2.0, 1.0), Seen(0, 1.0, 1.0), 1.0),
        (Seen(0, 60.0, 1.0), Seen(0, 1.0, 1.0), 1.0),
        (Seen(0, 60.0, 0.25), Seen(0, 1.0, 1.0), 0.25),
        (Seen(0, 60.0, 1.0), Seen(0, 1.0, 0.25), 0.25),
        (Seen(0, 0.0, 1.0), Seen(0, 0.0, 1.0), 0.0),
        (Seen(0, 5.0, 1.0), Seen(0, 0.0, 1.0), 1.0),
        (Seen(0, 5.0, 1.0), UNSEEN, 0.0),
        (UNSEEN, Seen(0, 5.0, 1.0), 0.0),
    ],
)
def test_slowness_is_measured_against_the_other_of_the_two(own: Seen, other: Seen, slowness: float) -> None:
    assert pool._slowness(own, other) == pytest.approx(slowness)


def test_chance_spreads_equal_accounts_evenly() -> None:
    chance, accounts = random.Random(7), [account(number) for number in range(1, 6)]
    firsts = Counter(ids(choose(accounts, draws=chance.random))[0] for _ in range(5000))
    assert set(firsts) == {1, 2, 3, 4, 5}
    assert all(850 < count < 1150 for count in firsts.values())


def test_accounts_that_may_not_serve_leave_the_spread_even() -> None:
    chance = random.Random(7)
    accounts = [account(number, slots=number % 2) for number in range(1, 10)]
    firsts = Counter(ids(choose(accounts, draws=chance.random))[0] for _ in range(5000))
    assert set(firsts) == {1, 3, 5, 7, 9}
    assert all(850 < count < 1150 for count in firsts.values())


def test_two_choices_keep_the_fullest_account_close_to_the_mean() -> None:
    chance, accounts = random.Random(7), [account(number, slots=1000) for number in range(1, 101)]
    loads: Counter[int] = Counter()
    for _ in range(2000):
        ranked = rank(accounts)
        first = next(pool.choose(ranked, PoolView(loads=loads), model="m", draws=chance.random))
        loads[first.account.id] += 1
    assert min(loads.values()) >= 16
    assert max(loads.values()) <= 23  # the mean is 20; one choice alone would reach past 30


def test_the_worst_account_is_never_first_where_there_is_a_choice() -> None:
    chance, accounts = random.Random(7), [account(number) for number in range(1, 6)]
    for _ in range(500):
        assert ids(choose(accounts, PoolView(loads={3: 3, 1: 1}), draws=chance.random))[0] != 3


class Watched(tuple[AccountView, ...]):
    """Candidates that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        type(self).looks += 1
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[AccountView]:
        raise AssertionError("nobody may walk through all of them")


def test_a_request_costs_the_same_in_a_pool_of_a_thousand() -> None:
    drawn = []

    def draw() -> float:
        drawn.append(0.5)
        return 0.5

    accounts = rank(account(number, priority=number % 3) for number in range(1, 1001))
    Watched.looks = 0
    order = pool.choose(Watched(accounts), CALM, model="m", sticky=Sticky(500), draws=draw)
    assert len(list(islice(order, 4))) == 4
    assert len(drawn) == 6
    assert Watched.looks < 150


def test_the_better_of_two_goes_first_and_the_other_stays_in_the_draw() -> None:
    accounts = [account(number) for number in range(1, 5)]
    order = choose(accounts, PoolView(loads={2: 3}), draws=always(0.3, 0.0, 0.0, 0.0, 0.0, 0.0).__next__)
    assert ids(order)[0] == 1  # 2 and 1 were drawn
    assert sorted(ids(order)) == [1, 2, 3, 4]
