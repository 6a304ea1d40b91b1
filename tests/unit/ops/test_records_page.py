from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import fields

from ops.record import Attempt, Outcome, Record

PAGE = (Path(__file__).parents[3] / "docs" / "records.md").read_text()


def test_the_page_names_every_field_of_a_record_and_every_outcome() -> None:
    named = set(re.findall(r"`([a-z_]+)`", PAGE))
    wanted = {field.name for field in (*fields(Record), *fields(Attempt))} - {"attempts"} | set(Outcome)
    assert wanted <= named, sorted(wanted - named)
