from __future__ import annotations

import orjson
import pytest

from accounts.offered import Offered, Sibling, fold, merge, read_available, read_listed, read_usable
from protobufs import agent_v1_pb2 as pb


def test_the_usable_list_tells_names_and_whether_max_mode_is_needed() -> None:
    answer = pb.GetUsableModelsResponse()
    answer.models.add(model_id="b", display_name="B", aliases=["bee"], max_mode=True)
    answer.models.add(model_id="a")
    assert read_usable(answer.SerializeToString()) == (Offered("a"), Offered("b", "B", ("bee",), max_mode=True))


def test_the_available_list_tells_context_parameters_and_variants_and_hides_what_is_hidden() -> None:
    answer = pb.AvailableModelsResponse()
    model = answer.models.add(name="g", client_display_name="G", context_token_limit=9000, legacy_slugs=["old-g"])
    model.parameter_definitions.add(id="effort")
    model.variants.add(legacy_slug="g-high").parameter_values.add(id="effort", value="high")
    answer.models.add(name="secret", is_hidden=True)
    (found,) = read_available(answer.SerializeToString())
    assert found == Offered("g", "G", ("old-g",), 9000, {"effort": ()}, {"g-high": {"effort": "high"}})


def test_the_rest_list_tells_parameters_with_their_values() -> None:
    item = {"id": "m", "displayName": "M", "parameters": [{"id": "thinking", "values": [{"value": "true"}]}]}
    (found,) = read_listed(orjson.dumps({"items": [item]}))
    assert found == Offered("m", "M", parameters={"thinking": ("true",)})


def test_what_one_list_leaves_out_another_tells() -> None:
    plain = Offered("m", aliases=("a",), parameters={"effort": ()})
    rich = Offered("m", "M", ("b",), 5000, {"effort": ("low",), "fast": ("true",)}, max_mode=False)
    assert merge([[plain], [rich]]) == {
        "m": Offered("m", "M", ("a", "b"), 5000, {"effort": ("low",), "fast": ("true",)}, max_mode=False)
    }


def folded(*offered: Offered) -> tuple[set[str], dict[str, Sibling]]:
    bases, siblings = fold({one.id: one for one in offered})
    return {one.id for one in bases}, {one.id: one for one in siblings}


def test_a_slug_that_a_variant_names_is_its_base_with_the_variants_parameters() -> None:
    bases, siblings = folded(Offered("x", variants={"odd-slug": {"effort": "low"}}), Offered("odd-slug"))
    assert bases == {"x"}
    assert siblings["odd-slug"] == Sibling("odd-slug", "x", {"effort": "low"})


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("x-high", {"effort": "high"}),
        ("x-high-fast", {"effort": "high", "fast": "true"}),
        ("x-thinking-low", {"thinking": "true", "effort": "low"}),
    ],
)
def test_suffixes_stand_for_parameters_that_the_base_declares(name: str, parameters: dict[str, str]) -> None:
    declared = {"effort": ("low", "high"), "fast": (), "thinking": ("true", "false")}
    bases, siblings = folded(Offered("x", parameters=declared), Offered(name))
    assert (bases, siblings[name].parameters) == ({"x"}, parameters)


@pytest.mark.parametrize("name", ["x-max", "x-low-high", "x-turbo", "y-high", "x-fast"])
def test_a_suffix_is_part_of_the_name_where_the_base_declares_no_such_value(name: str) -> None:
    bases, siblings = folded(Offered("x", parameters={"effort": ("low", "high")}), Offered("y"), Offered(name))
    assert name in bases
    assert not siblings


def test_a_base_that_is_not_offered_leaves_its_siblings_alone() -> None:
    assert folded(Offered("x-high")) == ({"x-high"}, {})
