"""Many streams at once: every one whole, in its order, with one start and one end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.callers import PATHS, streaming
from tests.functional.flows import Flow
from tests.plugins.house import House, eventually


@pytest.fixture
def wide_house(house: House) -> Iterator[House]:
    """With room for fifty requests at once."""
    house.database.execute("UPDATE accounts_account SET slots = 20")
    house.publish()
    yield house
    house.database.execute("UPDATE accounts_account SET slots = 3")
    house.publish()


@pytest.mark.parametrize("path", PATHS)
def test_fifty_streams_at_once_arrive_whole_and_in_order(wide_house: House, path: str) -> None:
    with streaming(wide_house, path, "sim-lorem-200") as stream:
        expected = "".join(stream.words())
    assert len(expected.split()) == 200
    flows = [Flow(wide_house, path, "sim-lorem-200") for _ in range(50)]
    for flow in flows:
        flow.join(60)
    assert [flow.whole for flow in flows] == [True] * 50
    assert {flow.text for flow in flows} == {expected}
    assert eventually(lambda: wide_house.slots_in_use() == 0)
    for flow in flows:
        assert wide_house.record(flow.request_id)["outcome"] == "ok"


def test_each_of_fifty_callers_gets_its_own_answer(wide_house: House) -> None:
    texts = [f"caller number {number} said this alone" for number in range(50)]
    flows = [Flow(wide_house, PATHS[number % 2], "sim-echo", text) for number, text in enumerate(texts)]
    for flow in flows:
        flow.join(60)
    assert [flow.text for flow in flows] == texts
