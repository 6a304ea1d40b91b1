from __future__ import annotations

from pathlib import Path

import pytest

from gateway import failure_table
from gateway.exhausted import ROWS
from ir.errors import Reason

PAGE = Path(__file__).parents[3] / "docs/failover.md"


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text().splitlines() == list(failure_table.lines())


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_row(reason: Reason) -> None:
    row = next(line for line in failure_table.lines() if line.startswith(f"| `{reason}` |"))
    assert failure_table.MEANINGS[reason] in row
    assert reason is Reason.CLIENT_GONE or ROWS[reason].code in row


def test_a_row_in_full() -> None:
    page = list(failure_table.lines())

    assert (
        "| `rate_limit` | too many requests | account for the model | another account |"
        " the account for the model as long as the upstream says, else 5 s, doubling up to 5 min;"
        " held until another account has answered | 429 `rate_limit_exceeded` (5 s) |"
    ) in page
    assert (
        "| `exhausted` | something is used up, and the upstream does not say what | account for the model |"
        " another account | the account for the model as long as the upstream says, else 45 to 75 s, doubling up to"
        " 5 min; held until another account has answered | 429 `rate_limit_exceeded` (60 s) |"
    ) in page
    assert (
        "| `forbidden` | the account may not do that | account | another account | the account 10 min;"
        " the 3rd within 3 h: *blocked*, until somebody looks | 502 `upstream_forbidden` |"
    ) in page
