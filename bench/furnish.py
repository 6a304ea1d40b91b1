"""Fills a fresh installation for the bench: accounts at the mock, the bench's models, a team and its key.

``python -m bench.furnish MOCK_URL`` works on the data dir in POOLGATE_DATA_DIR and prints the key alone.
"""

from __future__ import annotations

import os
import sys

import django

ACCOUNTS, SLOTS = 40, 16
"""Enough for 500 streams at once, with something left to choose from."""


def furnish(mock_url: str) -> str:
    """Makes the rows with the product's own verbs. Returns the key's text."""
    from accounts.catalogue import define_model  # noqa: PLC0415 - needs django.setup
    from accounts.groups import create_group  # noqa: PLC0415
    from accounts.verbs import create_cursor_account  # noqa: PLC0415
    from tenants.verbs import create_team, issue_key  # noqa: PLC0415

    team = create_team("Bench")
    group = create_group("Bench", teams=[team])
    for number in range(ACCOUNTS):
        create_cursor_account(f"bench-{number}", f"crsr_bench_{number}", mock_url, [group], slots=SLOTS)
    define_model("bench-*", owner="bench")
    _, key = issue_key(team, "bench")
    return key


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    print(furnish(sys.argv[1]))
