"""Arguments that are valid for a JSON Schema: required properties only, made from the schema alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMATS: Mapping[str, str] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
}
DEPTH = 12


def arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A valid object for a tool's schema. Patterns and cross-field conditions are beyond it."""
    value = example(schema, "value", schema)
    return value if isinstance(value, dict) else {}


def example(schema: Any, name: str, root: Mapping[str, Any], depth: int = 0) -> Any:
    """A value for ``schema``; a string becomes ``name``, a number 1, an array one element."""
    if not isinstance(schema, Mapping) or depth > DEPTH:
        return name
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if "$ref" in schema:
        return example(_resolve(str(schema["$ref"]), root), name, root, depth + 1)
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return example({**_rest(schema, union), **schema[union][0]}, name, root, depth + 1)
    if schema.get("allOf"):
        return example(_merged(schema, root), name, root, depth + 1)
    return _by_type(schema, _type(schema), name, root, depth)


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    return str(kind or ("object" if "properties" in schema else "string"))


def _by_type(schema: Mapping[str, Any], kind: str, name: str, root: Mapping[str, Any], depth: int) -> Any:
    if kind == "object":
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        return {key: example(properties.get(key, {}), key, root, depth + 1) for key in required}
    if kind == "array":
        count = max(1, int(schema.get("minItems", 1)))
        return [example(schema.get("items", {}), name, root, depth + 1)] * count
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    return _string(schema, name)


def _string(schema: Mapping[str, Any], name: str) -> str:
    text = FORMATS.get(str(schema.get("format", "")), name)
    text = text.ljust(int(schema.get("minLength", 0)), "x")
    return text[: int(schema["maxLength"])] if "maxLength" in schema else text


def _number(schema: Mapping[str, Any]) -> int | float:
    value: float = 1
    if "minimum" in schema:
        value = max(value, schema["minimum"])
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        value = schema["exclusiveMinimum"] + 1
    if "maximum" in schema:
        value = min(value, schema["maximum"])
    step = schema.get("multipleOf")
    if step:
        value = -(-value // step) * step
    return int(value) if float(value).is_integer() else value


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            node = node.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(node, Mapping) else {}
    return node


def _rest(schema: Mapping[str, Any], without: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != without}


def _merged(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    merged = _rest(schema, "allOf")
    for part in schema["allOf"]:
        resolved = _resolve(str(part["$ref"]), root) if "$ref" in part else part
        for key, value in resolved.items():
            if key == "properties":
                merged["properties"] = {**merged.get("properties", {}), **value}
            elif key == "required":
                merged["required"] = [*merged.get("required", []), *value]
            else:
                merged.setdefault(key, value)
    return merged
