"""Many requests at once on a pool of ten: who is blamed, who is asked, and that nobody is lost."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.plugins.ten import NAMES, Ten, pool_of_ten

CHAOS = (
    "rate_limited",
    "rate_limited_hint",
    "bare_resource_exhausted",
    "model_limit",
    "unavailable",
    "internal",
    "goaway",
)
"""Faults of an account for one model, and faults that pass."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ten]:
    with pool_of_ten(tmp_path_factory.mktemp("ten"), slots=10, workers=2) as ten:
        yield ten


@pytest.fixture
def ten(pool: Ten) -> Ten:
    pool.reset()
    return pool


def texts(model: str, count: int) -> list[tuple[str, str]]:
    """As many conversations of their own."""
    return [(model, f"request {number} for {model}") for number in range(count)]


def test_a_herd_loses_nobody_when_one_account_of_ten_fails(ten: Ten) -> None:
    ten.simulator.fault("acc3", "rate_limited", models=["sim-lorem-4"])

    answers = ten.call(texts("sim-lorem-4", 200), at_once=200)

    assert Counter(answer.status for answer in answers) == {200: 200}
    assert {name for name, _ in ten.rests()} <= {"acc3"}
    served = ten.served()
    assert served["acc3"] < 60, "once it rests, nobody asks it any more"
    others = [served[name] for name in NAMES if name != "acc3"]
    assert min(others) >= 10, served
    assert max(others) <= 45, served


def test_one_request_that_every_account_refuses_leaves_all_ready(ten: Ten) -> None:
    for name in NAMES:
        ten.simulator.fault(name, "bare_resource_exhausted", models=["sim-lorem-5"])

    (refused,) = ten.call([("sim-lorem-5", "too much for everybody")], at_once=1)
    assert ten.rests() == set()
    for name in NAMES:
        ten.simulator.fault(name, None)
    answers = ten.call(texts("sim-lorem-5", 20), at_once=5)

    assert refused.status == 429
    assert Counter(answer.status for answer in answers) == {200: 20}
    assert max(answer.seconds for answer in answers) < 4, "nobody had to wait for a rest to end"
    assert set(ten.states().values()) == {"ready"}
    assert ten.database.execute("SELECT count(*) FROM accounts_cooldown").fetchone() == (0,)


def test_a_storm_on_expired_tokens_makes_one_exchange_an_account(ten: Ten) -> None:
    ten.simulator.settings(token_life=3600)
    ten.call(texts("sim-lorem-6", 40), at_once=10)  # everybody has a token
    for key in ten.redis.keys("poolgate:bearer:*"):
        ten.redis.delete(key)
    before = {name: row["exchanges"] for name, row in ten.simulator.accounts().items()}
    for name in NAMES:
        ten.simulator.fault(name, "token_expired", times=1)

    answers = ten.call(texts("sim-lorem-6", 50), at_once=50)

    after = {name: row["exchanges"] for name, row in ten.simulator.accounts().items()}
    assert Counter(answer.status for answer in answers) == {200: 50}
    assert all(after[name] - before[name] <= 1 for name in NAMES), (before, after)
    assert set(ten.states().values()) == {"ready"}


@pytest.mark.full
def test_chaos_at_a_tenth_of_all_attempts_fails_hardly_anybody_and_cools_nobody_without_a_fault(ten: Ten) -> None:
    dice = random.Random(20261130)
    requests = [(f"sim-lorem-{3 + number % 100}", f"chaos {number}") for number in range(5000)]
    dice.shuffle(requests)
    ten.simulator.chaos(20261130, 0.1, CHAOS)
    answers, faulted, seen = [], set(), 0

    for start in range(0, len(requests), 500):
        answers += ten.call(requests[start : start + 500], at_once=16)
        time.sleep(0.2)
        for entry in ten.simulator.runs():
            if entry["number"] > seen and str(entry["ended"]).startswith("error:"):
                faulted.add((entry["account"], entry["model"]))
        seen = max(entry["number"] for entry in ten.simulator.runs())
    ten.simulator.chaos(0, 0, [])

    failed = Counter((answer.status, answer.code) for answer in answers if answer.status != 200)
    assert len(answers) == 5000
    assert failed.total() <= 10, failed
    assert ten.rests() <= faulted, ten.rests() - faulted
    assert len(faulted) > 200, "the chaos was there"
    assert set(ten.states().values()) == {"ready"}
