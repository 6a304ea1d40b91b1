from __future__ import annotations

import pytest

from core.hosts import OFFICIAL_HOSTS, is_cursor_host


@pytest.mark.parametrize("host", [*sorted(OFFICIAL_HOSTS), "cursor.sh", "CURSOR.com.", "x.y.cursor.com"])
def test_cursors_hosts_are_known_by_name(host: str) -> None:
    assert is_cursor_host(host)


@pytest.mark.parametrize("host", ["", "notcursor.com", "cursor.com.example.org", "127.0.0.1"])
def test_other_hosts_are_not(host: str) -> None:
    assert not is_cursor_host(host)
