from __future__ import annotations

from pathlib import Path

import pytest

from bench import report
from bench.rounds import BURST, SLOW, UNARY, Load, Round, Sample, ratios, verdicts


def sample(cpu: float, *faults: str) -> Sample:
    return Sample(cpu=cpu, store_cpu=5, rate=100, duration=3, lag=1, lag_99=2, memory=40, faults=faults)


def one(load: Load, relay: float, gateway: float, *faults: str) -> Round:
    return Round(load, {"relay": sample(relay), "gateway": sample(gateway, *faults)})


def test_a_ratio_is_taken_within_its_round() -> None:
    rounds = [one(UNARY, 100, 500), one(BURST, 2, 6), one(UNARY, 200, 600)]
    assert ratios(rounds, UNARY) == [5, 3]
    assert ratios(rounds, BURST) == [3]


def test_the_median_counts_and_not_the_worst_round() -> None:
    assert verdicts([one(UNARY, 100, 500), one(UNARY, 100, 550), one(UNARY, 100, 900)]) == []


def test_a_cost_above_the_bar_is_named() -> None:
    assert verdicts([one(BURST, 2, 9)]) == ["burst: 4.5 relays, the bar is 4"]


def test_an_answer_that_is_not_whole_is_named_whatever_it_cost() -> None:
    assert verdicts([one(SLOW, 40, 40, "39 of 40 deltas")]) == ["slow, gateway: 39 of 40 deltas"]


def test_the_table_shows_median_spread_ratio_and_bar() -> None:
    text = report.table([one(UNARY, 100, 500), one(UNARY, 200, 600), one(UNARY, 100, 400)])
    assert (
        "| unary requests, 32 callers | CPU µs a request | 100.0 [100.0–200.0] | 500.0 [400.0–600.0] "
        "| 4.0× [3.0–5.0] | ≤ 6× |"
    ) in text


def test_the_page_keeps_what_stands_around_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write(page, "new")
    assert page.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"


def test_a_page_without_the_marks_is_not_touched(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n")
    with pytest.raises(ValueError, match="must hold"):
        report.write(page, "new")
    assert page.read_text() == f"before\n{report.BEGIN}\nold\n"
