from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.management.commands.settings import write_docs
from core.settings import KNOBS, Settings, check_value, compile_settings, show_value

NUMBERS = [knob for knob in KNOBS.values() if knob.kind in (int, float)]


@pytest.mark.parametrize("knob", KNOBS.values(), ids=str)
def test_every_knob_has_help_a_group_and_a_default_in_bounds(knob: object) -> None:
    item = KNOBS[getattr(knob, "name", "")]
    assert item.help
    assert item.group
    assert check_value(item.name, item.default) == item.default


@pytest.mark.parametrize("name", [knob.name for knob in NUMBERS])
def test_a_number_is_held_within_its_bounds(name: str) -> None:
    knob = KNOBS[name]
    assert knob.minimum is not None
    assert knob.maximum is not None
    assert check_value(name, knob.minimum) == knob.minimum
    assert check_value(name, str(knob.maximum)) == knob.maximum
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        check_value(name, knob.minimum - 1)
    with pytest.raises(ValueError, match=f"{name} must be at most"):
        check_value(name, knob.maximum + 1)


@pytest.mark.parametrize("value", ["many", "", None, True, "nan", "inf", [], {}])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="max_images must be a number"):
        check_value("max_images", value)


def test_half_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number"):
        check_value("max_images", 2.5)


@pytest.mark.parametrize(("word", "value"), [("on", True), ("No", False), ("1", True), (False, False)])
def test_a_switch_understands_words(word: object, value: bool) -> None:
    assert check_value("gemini_native_enabled", word) is value


def test_a_switch_refuses_other_words() -> None:
    with pytest.raises(ValueError, match="on or off"):
        check_value("gemini_native_enabled", "perhaps")


@given(name=st.sampled_from(sorted(KNOBS)), value=st.none() | st.booleans() | st.floats() | st.text() | st.integers())
def test_any_value_is_taken_or_refused_with_a_sentence(name: str, value: object) -> None:
    sentence = ""
    try:
        taken = check_value(name, value)
    except ValueError as error:
        sentence = str(error)
    if sentence:
        assert sentence.endswith(".")
    else:
        assert isinstance(taken, KNOBS[name].kind)
        assert check_value(name, taken) == taken


def test_rows_change_what_they_name_and_nothing_else() -> None:
    assert compile_settings({}) == Settings()
    assert compile_settings({"max_images": "3"}) == Settings(max_images=3)


def test_an_unknown_row_is_refused() -> None:
    with pytest.raises(ValueError, match="no setting named colour"):
        compile_settings({"colour": "red"})


@pytest.mark.parametrize("value", ["two\nlines", "nul\0", "x" * 4001])
def test_a_text_is_one_line_that_a_column_can_hold(value: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        check_value("exposed_models", value)


@given(name=st.sampled_from(sorted(KNOBS)), value=st.booleans() | st.floats() | st.text() | st.integers())
def test_a_shown_value_is_read_back_as_it_was(name: str, value: object) -> None:
    try:
        taken = check_value(name, value)
    except ValueError:
        return
    shown = show_value(taken)
    assert show_value(check_value(name, shown)) == shown


def test_the_docs_page_is_what_the_knobs_say() -> None:
    page = Path(__file__).parents[3] / "docs/settings.md"

    assert page.read_text().splitlines() == list(write_docs())
