from __future__ import annotations

import json

import pytest

from gateway.protocols.cloud.catalogue import Offer, Selection, Variant, choose, parse

SWITCH = frozenset({"true", "false"})
PLAIN = Variant({"thinking": "false", "effort": "medium"}, is_default=True)
OFFER = Offer(
    "claude-x",
    ("x",),
    {"thinking": SWITCH, "effort": frozenset({"low", "medium", "high"})},
    (
        Variant({"thinking": "false", "effort": "low"}),
        PLAIN,
        Variant({"thinking": "true", "effort": "low"}),
        Variant({"thinking": "true", "effort": "medium"}),
        Variant({"thinking": "true", "effort": "high"}),
    ),
)


@pytest.mark.parametrize(
    ("wanted", "parameters"),
    [
        ({}, {"thinking": "false", "effort": "medium"}),
        ({"thinking": "true"}, {"thinking": "true", "effort": "medium"}),
        ({"effort": "high"}, {"thinking": "true", "effort": "high"}),
        ({"thinking": "true", "effort": "low"}, {"thinking": "true", "effort": "low"}),
        ({"effort": "monstrous"}, {"thinking": "false", "effort": "medium"}),
        ({"fast": "true"}, {"thinking": "false", "effort": "medium"}),
    ],
)
def test_what_is_asked_for_is_completed_to_the_closest_variant(
    wanted: dict[str, str], parameters: dict[str, str]
) -> None:
    for name in ("claude-x", "x"):
        assert choose([OFFER], name, wanted) == Selection("claude-x", parameters)


def test_a_model_without_variants_takes_what_it_declares() -> None:
    offer = Offer("m", (), {"thinking": SWITCH})
    assert choose([offer], "m", {"thinking": "true", "effort": "high"}) == Selection("m", {"thinking": "true"})


def test_a_model_that_is_not_offered_is_asked_for_as_it_is() -> None:
    assert choose([], "new", {"thinking": "true"}) == Selection("new", {"thinking": "true"})


def test_auto_is_no_model_unless_it_is_one() -> None:
    assert choose([OFFER], "default", {}) is None
    assert choose([Offer("default")], "default", {}) == Selection("default", {})


def test_a_list_is_read_and_what_makes_no_sense_in_it_is_passed_over() -> None:
    item = {
        "id": "m",
        "displayName": "M",
        "aliases": ["a", 7],
        "parameters": [{"id": "thinking", "values": [{"value": "true"}, {"value": "false"}]}, 3],
        "variants": [{"params": [{"id": "thinking", "value": "true"}], "isDefault": True}, {"params": None}],
        "news": 1,
    }
    (offer,) = parse(json.dumps({"items": [item, {"id": 7}, "x"]}).encode())
    assert offer == Offer("m", ("a",), {"thinking": SWITCH}, (Variant({"thinking": "true"}, True), Variant({})))


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"null", b"<html>"])
def test_what_is_no_list_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="no list"):
        parse(raw)
