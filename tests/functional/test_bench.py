"""The bench itself, in small: it runs, and what it measures is a working path."""

from __future__ import annotations

from pathlib import Path

import uvloop

from bench import servers
from bench.rounds import QUICK, measure


def test_mock_relay_and_gateway_answer_every_request_whole(tmp_path: Path) -> None:
    with (
        servers.mock() as mock_url,
        servers.start_relay(mock_url) as relay,
        servers.start_gateway(mock_url, tmp_path / "data") as gateway,
    ):
        rounds = uvloop.run(measure([relay, gateway], QUICK, 1))
    assert [one.load for one in rounds] == list(QUICK)
    for one in rounds:
        assert {name: list(taken.faults) for name, taken in one.samples.items()} == {"relay": [], "gateway": []}
        assert all(taken.rate > 0 for taken in one.samples.values())
