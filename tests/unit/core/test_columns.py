from __future__ import annotations

import pytest

from core.columns import check_columns
from core.invalid import InvalidValue
from tenants.models import Team

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["Ops", "研究　開発", "پژوهش\u200cها", "Zoë & <Söhne>", "👩\u200d🔬"])
def test_a_name_may_be_in_any_script(name: str) -> None:
    check_columns(Team(name=name, slug="one"))


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1b[31mb", "a\u202eb", "a\u2028b", "a\u2066b", "\ufeffa", "a\tb", "a\x7fb"]
)
def test_a_name_that_does_not_look_like_what_it_is_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match="one line of visible characters") as caught:
        check_columns(Team(name=name, slug="one"))
    assert caught.value.field == "name"
