from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import examples


def test_only_required_properties_are_filled_with_the_plainest_values() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "share": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "sure": {"type": "boolean"},
            "note": {"type": "string"},
        },
        "required": ["city", "days", "share", "tags", "sure"],
    }
    assert examples.arguments(schema) == {"city": "city", "days": 1, "share": 1, "tags": ["tags"], "sure": True}


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["a", "b"]},
        {"const": 7},
        {"type": ["null", "integer"]},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]},
        {"$ref": "#/$defs/point"},
        {"type": "integer", "minimum": 5, "multipleOf": 4},
        {"type": "integer", "exclusiveMinimum": 1},
        {"type": "number", "maximum": 0.25},
        {"type": "string", "minLength": 12},
        {"type": "string", "maxLength": 2},
        {"type": "string", "format": "date"},
        {"type": "array", "minItems": 3, "items": {"type": "integer"}},
        {"type": "null"},
        {},
    ],
)
def test_the_example_is_valid_for_its_schema(schema: dict[str, Any]) -> None:
    whole = {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    }
    arguments = examples.arguments(whole)
    assert "value" in arguments
    jsonschema.validate(arguments, whole)


_LEAF = st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")])


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(
        lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)}
    )


def _arrays(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return inner.map(lambda items: {"type": "array", "items": items})


@given(_objects(st.recursive(_LEAF, lambda inner: _objects(inner) | _arrays(inner), max_leaves=8)))
def test_arguments_are_valid_for_every_nested_schema(schema: dict[str, Any]) -> None:
    jsonschema.validate(examples.arguments(schema), schema)


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    schema = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "required": ["next"],
    }
    assert "next" in examples.arguments(schema)
