"""Trouble that is no account's: an upstream that is down for all, a way out that is broken. Over sockets."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.plugins.ten import NAMES, Ten, pool_of_ten

OPENED = 3
"""Requests that fail everywhere: a circuit opens at five failures of accounts, and each request makes three."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ten]:
    with pool_of_ten(tmp_path_factory.mktemp("circuits"), slots=10, retry_floor=1000) as ten:
        yield ten


@pytest.fixture
def ten(pool: Ten) -> Ten:
    pool.reset()
    return pool


@pytest.fixture
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ten]:
    folder = tmp_path_factory.mktemp("two")
    with pool_of_ten(
        folder, slots=10, workers=2, retry_floor=1000, circuit_canary=60, circuit_canary_longest=120
    ) as ten:
        yield ten


def break_all(ten: Ten, cause: str, model: str) -> None:
    for name in NAMES:
        ten.simulator.fault(name, cause, models=[model])


def mend_all(ten: Ten) -> None:
    for name in NAMES:
        ten.simulator.fault(name, None)


def asked(ten: Ten, model: str) -> int:
    return sum(entry["model"] == model for entry in ten.simulator.runs())


def make_canary_due(ten: Ten) -> None:
    """The time of the next canary has come."""
    (field,) = ten.redis.hkeys("poolgate:trouble")
    circuit = json.loads(str(ten.redis.hget("poolgate:trouble", str(field))))
    ten.redis.hset("poolgate:trouble", str(field), json.dumps(circuit | {"next_canary": int(time.time() * 1000)}))


def requests(model: str, count: int, what: str = "") -> list[tuple[str, str]]:
    return [(model, f"{what} {number}") for number in range(count)]


def test_an_upstream_that_is_down_is_asked_by_canaries_alone_until_it_is_back(ten: Ten) -> None:
    model = "sim-lorem-11"
    break_all(ten, "internal", model)
    failed = ten.call(requests(model, OPENED), at_once=1)
    before = asked(ten, model)
    began = time.monotonic()
    refused = ten.call(requests(model, 20, "while open"), at_once=5)
    quick = time.monotonic() - began

    assert {answer.status for answer in failed} == {502, 503}
    assert Counter((answer.status, answer.code) for answer in refused) == {(503, "upstream_overloaded"): 20}
    assert quick < 3
    assert all(1 <= int(answer.retry_after or 0) <= 6 for answer in refused), "the time of the next canary"
    assert asked(ten, model) == before, "nobody was asked while the circuit was open"
    assert ten.rests() == set(), "no account was marked"

    mend_all(ten)
    time.sleep(max(int(answer.retry_after or 0) for answer in refused))
    (canary,) = ten.call(requests(model, 1, "canary"), at_once=1)
    after = ten.call(requests(model, 20, "closed again"), at_once=5)
    assert canary.status == 200
    assert Counter(answer.status for answer in after) == {200: 20}


def test_a_circuit_is_open_in_every_process_and_of_a_crowd_one_request_is_the_canary(two_processes: Ten) -> None:
    ten, model = two_processes, "sim-lorem-16"
    break_all(ten, "internal", model)
    for _ in range(10):
        ten.call(requests(model, OPENED), at_once=1)
        if ten.redis.exists("poolgate:trouble"):
            break
    time.sleep(1.2)  # what a process believes of the trouble of others
    before = asked(ten, model)
    refused = ten.call(requests(model, 40, "while open"), at_once=20)
    assert {answer.status for answer in refused} == {503}
    assert all(40 <= int(answer.retry_after or 0) <= 61 for answer in refused), "the interval is a setting"
    assert asked(ten, model) == before, "neither process asked"

    make_canary_due(ten)
    crowd = ten.call(requests(model, 40, "all want to be the canary"), at_once=20)
    assert {answer.status for answer in crowd} <= {502, 503}
    assert 1 <= asked(ten, model) - before <= 2, "one request, with its one repetition on the same account"
    assert max(int(answer.retry_after or 0) for answer in crowd) > 100, "the next one comes later"
    assert ten.rests() == set(), "no account was marked"

    mend_all(ten)
    make_canary_due(ten)
    healing = ten.call(requests(model, 1, "the canary"), at_once=1)
    time.sleep(1.2)
    healed = ten.call(requests(model, 40, "closed again"), at_once=20)
    assert Counter(answer.status for answer in healing + healed) == {200: 41}


def test_one_upstream_that_is_down_leaves_other_models_alone(ten: Ten) -> None:
    break_all(ten, "internal", "sim-lorem-12")
    ten.call(requests("sim-lorem-12", OPENED), at_once=1)

    answers = ten.call(requests("sim-lorem-13", 20), at_once=5)

    assert Counter(answer.status for answer in answers) == {200: 20}


def test_one_bad_account_never_opens_a_circuit(ten: Ten) -> None:
    ten.simulator.fault("acc0", "internal", models=["sim-lorem-14"])

    answers = ten.call(requests("sim-lorem-14", 60), at_once=6)

    assert Counter(answer.status for answer in answers) == {200: 60}
    assert ten.redis.exists("poolgate:trouble") == 0


def test_a_way_out_that_fails_twice_rests_and_no_account_is_marked(ten: Ten) -> None:
    break_all(ten, "html_403", "sim-lorem-15")

    ten.call(requests("sim-lorem-15", 2), at_once=1)

    assert ten.redis.hkeys("poolgate:trouble") == ["egress|direct"]
    assert ten.rests() == set()
    assert set(ten.states().values()) == {"ready"}
    mend_all(ten)
    (answer,) = ten.call(requests("sim-lorem-15", 1, "there is no other way"), at_once=1)
    assert answer.status == 200, "with no other way out the one that rests is still better than none"
