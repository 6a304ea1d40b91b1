"""JSON to ``google.protobuf.Value`` and back. Every number is a double there, and a map has no order.

Out: keys are written sorted by the serialiser (deterministic mode). In: keys are sorted, and a double without a
fraction becomes an integer again, since models write integers and callers' schemas demand them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import orjson
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct as PbStruct
from google.protobuf.struct_pb2 import Value
from google.protobuf.unknown_fields import UnknownFieldSet

MAX_DEPTH = 24  # each level costs three nested messages, and parsers stop at a hundred

_EXACT = 2.0**63


def fits(value: object, depth: int = MAX_DEPTH) -> bool:
    """Whether ``value`` nests no deeper than a protobuf parser will read."""
    if isinstance(value, Mapping):
        return depth > 0 and all(fits(item, depth - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return depth > 0 and all(fits(item, depth - 1) for item in value)
    return True


def fill(target: Value, value: object) -> None:
    """Writes JSON data into ``target``. Integers beyond a double's range are clamped to it."""
    if value is None:
        target.null_value = 0  # type: ignore[assignment]  # NULL_VALUE, the enum's only member
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, int | float):
        target.number_value = max(-sys.float_info.max, min(sys.float_info.max, value))
    elif isinstance(value, Mapping):
        fill_struct(target.struct_value, value)
    elif isinstance(value, list | tuple):
        target.list_value.SetInParent()
        for item in value:
            fill(target.list_value.values.add(), item)
    else:
        raise TypeError(f"{type(value).__name__} is not JSON")


def fill_struct(target: PbStruct, value: Mapping[str, object]) -> None:
    target.SetInParent()
    for key, item in value.items():
        fill(target.fields[key], item)


def read(value: Value) -> Any:
    """JSON data of a value; a value without a kind is null."""
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) < _EXACT else number
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return {key: read(item) for key, item in value.struct_value.fields.items()}
        case "list_value":
            return [read(item) for item in value.list_value.values]
        case _:
            return None


def arguments_json(arguments: Mapping[str, Value]) -> str:
    """The JSON text of a call's arguments, keys sorted at every level."""
    data = {key: read(item) for key, item in arguments.items()}
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


def unknown_messages(message: Message) -> list[tuple[int, bytes]]:
    """Number and bytes of the length-delimited fields that our descriptors do not know."""
    fields = UnknownFieldSet(message)
    found = (fields[index] for index in range(len(fields)))
    return [(field.field_number, field.data) for field in found if isinstance(field.data, bytes)]
