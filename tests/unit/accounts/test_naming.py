from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.models import CatalogueModel
from accounts.naming import Named, Names, compile_names
from core.invalid import InvalidValue


def names(models: str = "", **aliases: str) -> Names:
    """A catalogue of ``models`` (words) and aliases; ``_x_`` in an alias's name stands for a star."""
    rows = [CatalogueModel(name=name) for name in models.split()]
    rows += [CatalogueModel(name=name.replace("_x_", "*"), alias_of=target) for name, target in aliases.items()]
    return compile_names(rows)


def found(catalogue: Names, name: str) -> tuple[str, str] | None:
    """Which entry serves, and the public name of what it serves."""
    named = catalogue.find(name)
    return (named.model.name, named.public) if named else None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-5", ("gpt-5", "gpt-5")),  # an exact model
        ("gpt-4", ("big", "big")),  # an exact alias before the pattern of a model
        ("gpt-3", ("gpt-*", "gpt-3")),  # a model's pattern before an alias's
        ("gemini-9", ("big", "big")),  # an alias's pattern
        ("gpt-mini-2", ("gpt-mini-*", "gpt-mini-2")),  # of two patterns the narrower
        ("unknown", None),
    ],
)
def test_a_name_is_looked_up_by_precedence(name: str, expected: tuple[str, str] | None) -> None:
    catalogue = names("gpt-5 big gpt-* gpt-mini-*", **{"gpt-4": "big", "gemini-_x_": "big", "gpt-_x_x": "gpt-5"})

    assert found(catalogue, name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fast-thinking", ("small", "small-thinking")),
        ("claude-9-thinking", ("small", "small-thinking")),
        ("deep", ("small", "small-thinking")),
        ("deep-thinking", None),  # its target is the twin already: a doubled suffix is nothing
        ("fast-thinking-thinking", None),
        ("-thinking", None),
    ],
)
def test_twins_of_aliases_are_the_twins_of_their_targets(name: str, expected: tuple[str, str] | None) -> None:
    catalogue = names("small", **{"fast": "small", "claude-_x_": "fast", "deep": "small-thinking"})

    assert found(catalogue, name) == expected


def test_an_alias_may_lead_to_an_alias_and_the_first_one_is_remembered() -> None:
    catalogue = names("small", a="b", b="c", c="small")

    assert catalogue.find("a") == Named(catalogue.models["small"], "small", False, "a")


def test_an_alias_may_lead_to_a_name_that_a_pattern_serves() -> None:
    assert found(names("sim-*", test="sim-echo"), "test") == ("sim-*", "sim-echo")


@pytest.mark.parametrize(
    "aliases",
    [
        {"a": "a"},
        {"a": "b", "b": "a"},
        {"a": "b-thinking", "b": "a"},
        {"_x_": "nothing-of-that-name"},
        {"gpt-_x_": "claude-1", "claude-_x_": "gpt-1"},
    ],
)
def test_a_circle_of_aliases_does_not_compile(aliases: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match="goes round in a circle") as caught:
        names("small", **aliases)
    assert caught.value.field == "alias_of"


def test_an_alias_whose_target_is_gone_is_unknown() -> None:
    assert names(a="gone").find("a") is None


def test_what_is_switched_off_is_left_out() -> None:
    rows = [CatalogueModel(name="on"), CatalogueModel(name="off", enabled=False)]
    rows += [CatalogueModel(name="alias", alias_of="on", enabled=False), CatalogueModel(name="lost", alias_of="off")]
    catalogue = compile_names(rows)

    assert (list(catalogue.models), list(catalogue.aliases)) == (["on"], ["lost"])
    assert catalogue.find("lost") is None


@pytest.mark.parametrize(
    ("name", "target", "field"),
    [
        ("", "small", "name"),
        ("two words", "small", "name"),
        ("a-thinking", "small", "name"),
        ("a", "small*", "alias_of"),
        ("a", "two words", "alias_of"),
    ],
)
def test_an_impossible_alias_does_not_compile(name: str, target: str, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        compile_names([CatalogueModel(name=name, alias_of=target)])
    assert caught.value.field == field


@given(st.dictionaries(st.sampled_from("abc*"), st.sampled_from("abcm"), max_size=4), st.sampled_from("abcmx"))
def test_looking_up_always_ends_with_a_model_or_nothing(aliases: dict[str, str], name: str) -> None:
    rows = [CatalogueModel(name="m"), *(CatalogueModel(name=a, alias_of=target) for a, target in aliases.items())]
    try:
        catalogue = compile_names(rows)
    except InvalidValue:
        return
    named = catalogue.find(name)
    assert named is None or named.name == "m"
