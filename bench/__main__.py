"""Measures what Poolgate costs: CPU per request and per streamed chunk, beside a bare relay.

Starts three servers on loopback: a mock of the Agent RPC, the relay (the least that a Python process can do and still
answer) and a whole installation by `manage.py up` in a temporary directory. Loads both alternately, checks every
answer, and prints one table. Takes about two minutes; needs Linux and the embedded engines.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench import report, rounds, servers

PAGE = servers.ROOT / "docs" / "performance.md"


def main() -> int:
    options = _options()
    loads, count = (rounds.QUICK, 1) if options.quick else (rounds.FULL, options.rounds)
    found = _measure(loads, count)
    text = report.table(found)
    print(text)
    if options.write:
        report.write(PAGE, text)
        print(f"\nwritten to {PAGE.relative_to(servers.ROOT)}")
    problems = rounds.verdicts(found)
    if problems:
        print("\n" + "\n".join(problems), file=sys.stderr)
    return 1 if options.check and problems else 0


def _measure(loads: Sequence[rounds.Load], count: int) -> list[rounds.Round]:
    with (
        tempfile.TemporaryDirectory(prefix="poolgate-bench-") as directory,
        servers.beside(),
        servers.mock() as mock_url,
        servers.start_relay(mock_url) as relay,
        servers.start_gateway(mock_url, Path(directory) / "data") as gateway,
    ):
        for server in (relay, gateway):
            servers.give_cores(server)
        return uvloop.run(rounds.measure([relay, gateway], loads, count))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each load is run on each server (5)")
    parser.add_argument("--quick", action="store_true", help="one short round: does it run, is every answer whole")
    parser.add_argument("--check", action="store_true", help="exit with 1 above a bar, or when an answer is not whole")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
