"""What the functional tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.plugins.house import House, eventually

Expectation = Callable[[httpx2.Response, int, str], None]


@pytest.fixture(scope="module")
def calm_house(house_process: House) -> House:
    """The house, made ready once for a module whose tests must leave it as it was."""
    house_process.reset()
    return house_process


@pytest.fixture
def untouched(calm_house: House) -> Iterator[House]:
    """The house; afterwards no upstream was asked and the server still serves."""
    yield calm_house
    assert calm_house.simulator.log() == []
    assert httpx2.get(f"{calm_house.url}/readyz").status_code == 200


@pytest.fixture(scope="module")
def refused(calm_house: House) -> Iterator[Expectation]:
    """``refused(answer, status, code)`` checks the status now and, once the module is through, that the record of
    each answer says the same: one row, no attempt, no account."""
    expected: dict[str, tuple[int, str]] = {}

    def expect(answer: httpx2.Response, status: int, code: str) -> None:
        assert answer.status_code == status, answer.text
        expected[answer.headers["x-request-id"]] = (status, code)

    yield expect
    found = eventually(lambda: _records(calm_house, list(expected)), 15)
    assert {row["request_id"]: (row["status"], row["code"]) for row in found} == expected
    assert {(row["account_id"], len(row["attempts"])) for row in found} <= {(None, 0)}


def _records(house: House, ids: list[str]) -> list[dict[str, Any]] | None:
    rows = house.records("request_id = ANY(%s)", ids)
    return rows if len(rows) == len(ids) else None
