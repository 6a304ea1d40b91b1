"""Limits on what one request may carry. A pure check of measured counts: no I/O, nothing decoded, no account touched.

Counting rules (seed 3, "Budgets"): tool definitions after flattening and after ignorable hosted tools were dropped,
before ``tool_choice`` filters them; schema bytes are the UTF-8 length of each schema as compact JSON, key order kept,
names and descriptions not included; images are all images of the request, history included, sizes decoded. A value
equal to the limit passes. Parts are what messages are made of: a body of nothing but tiny ones costs far more work and
storage than its bytes or tokens tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from msgspec import Struct

from core.settings import Settings
from ir.errors import ApiError, Kind
from ir.request import Image, Reasoning, Request, Text, ToolCall, ToolResult


class Measured(Struct, frozen=True):
    """What a request carries. Bytes; ``prompt_bytes`` is the UTF-8 length of all texts."""

    tool_count: int
    schema_bytes: int
    tool_bytes: int
    image_sizes: tuple[int, ...]
    prompt_bytes: int
    part_count: int


class BudgetError(ApiError):
    """A 413 with the budget's name, limit and actual value, for the caller and the record."""

    def __init__(self, budget: str, code: str, what: str, actual: int, limit: int, param: str) -> None:
        super().__init__(Kind.TOO_LARGE, code, f"{what}: {actual} {budget} exceed the limit of {limit}", param=param)
        self.budget, self.actual, self.limit = code, actual, limit


def measure(request: Request) -> Measured:
    """Counts ``request``. Linear in its size; an image costs nothing but a look at its length."""
    schema_bytes = sum(len(orjson.dumps(tool.schema)) for tool in request.tools)
    names = sum(_utf8(tool.name) + _utf8(tool.description) for tool in request.tools)
    sizes = tuple(image.size for image in request.images())
    parts = sum(len(message.content) for message in request.messages)
    return Measured(len(request.tools), schema_bytes, schema_bytes + names, sizes, prompt_bytes(request), parts)


def prompt_bytes(request: Request) -> int:
    """UTF-8 length of every text that the upstream would be shown, tools and images apart."""
    total = _utf8(request.system)
    for message in request.messages:
        for part in message.content:
            match part:
                case Text() | Reasoning():
                    total += _utf8(part.text)
                case ToolCall():
                    total += _utf8(part.name) + _utf8(part.arguments)
                case ToolResult():
                    total += _result_bytes(part)
                case Image():
                    pass
    return total


def check(measured: Measured, limits: Settings) -> None:
    """Raises the first ``BudgetError`` in the documented order: tools, schema bytes, images, prompt, parts."""
    if measured.tool_count > limits.max_tool_definitions:
        raise BudgetError(
            "definitions",
            "tool_definitions_exceeded",
            "tools",
            measured.tool_count,
            limits.max_tool_definitions,
            "tools",
        )
    if measured.schema_bytes > limits.max_tool_schema_bytes:
        raise BudgetError(
            "schema bytes", "tool_schema_bytes_exceeded", "tools", measured.schema_bytes, limits.max_tool_schema_bytes,
            "tools",
        )  # fmt: skip
    _check_images(measured.image_sizes, limits)
    if measured.prompt_bytes > limits.max_prompt_bytes:
        raise BudgetError(
            "prompt bytes", "prompt_too_large", "messages", measured.prompt_bytes, limits.max_prompt_bytes, "messages"
        )
    if measured.part_count > limits.max_parts:
        raise BudgetError("parts", "part_count_exceeded", "messages", measured.part_count, limits.max_parts, "messages")


def _check_images(sizes: Sequence[int], limits: Settings) -> None:
    if len(sizes) > limits.max_images:
        raise BudgetError("images", "image_count_exceeded", "images", len(sizes), limits.max_images, "messages")
    for size in sizes:
        if size > limits.max_image_bytes:
            raise BudgetError(
                "bytes in one image", "image_too_large", "images", size, limits.max_image_bytes, "messages"
            )
    if sum(sizes) > limits.max_image_total_bytes:
        raise BudgetError(
            "bytes in all images",
            "image_total_exceeded",
            "images",
            sum(sizes),
            limits.max_image_total_bytes,
            "messages",
        )


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _result_bytes(result: ToolResult) -> int:
    if isinstance(result.content, str):
        return _utf8(result.content)
    return sum(_utf8(item.text) for item in result.content if isinstance(item, Text))
