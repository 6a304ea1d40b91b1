from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from django.conf import settings

from core.version import VERSION
from panel import formats


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0 ms"), (999.4, "999 ms"), (999.6, "1.00 s"), (1240, "1.24 s"), (200_000, "3 min 20 s")],
)
def test_durations_read_at_a_glance(value: float | None, shown: str) -> None:
    assert formats.milliseconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2 * 1024 * 1024, "2.0 MiB")]
)
def test_sizes_read_at_a_glance(value: int | None, shown: str) -> None:
    assert formats.size(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(None, "–"), (1.0, "100 %"), (0.99999, "99.9 %"), (0.0, "0.0 %")])
def test_one_failure_among_many_is_not_rounded_away(value: float | None, shown: str) -> None:
    assert formats.share(value) == shown


def test_unknown_counts_are_not_zero() -> None:
    assert (formats.count(None), formats.count(0), formats.count(1234567)) == ("–", "0", "1,234,567")


def test_the_version_is_the_one_of_the_project() -> None:
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text())["project"]

    assert project["version"] == VERSION
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
