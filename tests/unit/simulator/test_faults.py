from __future__ import annotations

from typing import Any

import pytest

from simulator.faults import Faults, Verdict


def _ordered(**body: Any) -> Faults:
    faults = Faults()
    faults.order("alpha", body)
    return faults


def test_a_counted_fault_is_used_up() -> None:
    faults = _ordered(fault="rate_limited", times=2)
    assert [faults.at_run("alpha", "m").cause for _ in range(3)] == ["rate_limited", "rate_limited", None]


def test_a_fault_without_a_count_lasts_until_it_is_ended() -> None:
    faults = _ordered(fault="internal")
    assert {faults.at_run("alpha", "m").cause for _ in range(5)} == {"internal"}
    faults.order("alpha", {"fault": None})
    assert faults.at_run("alpha", "m").cause is None


def test_a_fault_of_one_model_leaves_the_others_and_the_other_accounts_alone() -> None:
    faults = _ordered(fault="model_limit", models=["a"], times=1)
    assert faults.at_run("alpha", "b").cause is None
    assert faults.at_run("beta", "a").cause is None
    assert faults.at_run("alpha", "a").cause == "model_limit"


def test_a_fault_may_wait_for_deltas_and_be_slow() -> None:
    assert _ordered(fault="internal", after=3, latency_ms=250).at_run("alpha", "m") == Verdict("internal", 3, 0.25)


def test_latency_needs_no_fault() -> None:
    assert _ordered(latency_ms=250).at_run("alpha", "m") == Verdict(None, 0, 0.25)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"fault": "html_403"}, "html_403"),
        ({"fault": "token_expired", "times": 1}, "token_expired"),
        ({"fault": "html_403", "models": ["a"]}, None),
        ({"fault": "html_403", "after": 2}, None),
        ({"fault": "rate_limited"}, None),
        ({}, None),
    ],
)
def test_only_http_causes_for_all_models_meet_the_first_request(body: dict[str, Any], seen: str | None) -> None:
    assert _ordered(**body).at_contact("alpha") == seen


def test_a_bad_key_meets_the_exchange_and_is_used_by_it() -> None:
    faults = _ordered(fault="key_bad", times=1)
    assert [faults.at_exchange("alpha"), faults.at_exchange("alpha")] == ["key_bad", None]


def test_the_exchange_meets_trouble_on_the_way_but_no_limits() -> None:
    assert _ordered(fault="html_403").at_exchange("alpha") == "html_403"
    assert _ordered(fault="html_403", times=1).at_exchange("alpha") is None
    assert _ordered(fault="rate_limited").at_exchange("alpha") is None


def test_unary_calls_leave_counted_faults_to_the_runs() -> None:
    faults = _ordered(fault="internal", times=1)
    assert faults.at_unary("alpha") is None
    assert faults.at_run("alpha", "m").cause == "internal"
    assert _ordered(fault="internal").at_unary("alpha") == "internal"


def test_chaos_is_the_same_for_the_same_seed() -> None:
    def throw(seed: int) -> list[str | None]:
        faults = Faults()
        faults.order_chaos({"seed": seed, "rate": 0.5, "causes": ["internal", "unavailable"]})
        return [faults.at_run("alpha", "m").cause for _ in range(40)]

    assert throw(1) == throw(1)
    assert throw(1) != throw(2)
    assert {None, "internal", "unavailable"} == set(throw(1))


def test_chaos_stops_at_rate_zero() -> None:
    faults = Faults()
    faults.order_chaos({"rate": 1, "causes": ["internal"]})
    assert faults.at_run("alpha", "m").cause == "internal"
    faults.order_chaos({"rate": 0})
    assert faults.at_run("alpha", "m").cause is None


@pytest.mark.parametrize(
    "body",
    [
        {"fault": "nothing"},
        {"fault": "internal", "times": -1},
        {"fault": "internal", "times": 1.5},
        {"fault": "internal", "times": True},
        {"fault": "internal", "models": "a"},
        {"fault": "internal", "latency_ms": "1"},
        {"falt": "internal"},
    ],
)
def test_a_bad_order_is_refused_and_changes_nothing(body: dict[str, Any]) -> None:
    faults = _ordered(fault="internal")
    with pytest.raises(ValueError, match=r".+"):
        faults.order("alpha", body)
    assert faults.at_run("alpha", "m").cause == "internal"


@pytest.mark.parametrize("body", [{"rate": 2}, {"rate": "x"}, {"causes": ["nothing"], "rate": 1}, {"causes": "x"}])
def test_bad_chaos_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Faults().order_chaos(body)
