from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.request import Image, Message, Request, Text, ToolCall, ToolResult
from ir.tokens import IMAGE_TOKENS, MAX_PER_CHARACTER, MESSAGE_TOKENS, estimate, estimate_request


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("letters and", 11 / 4.5), ("2026", 2), ("{}!", 2), ("上海", 2 / 1.5), ("é1a", 1.388888)],
)
def test_each_class_of_characters_has_its_weight(text: str, tokens: float) -> None:
    assert estimate(text) == pytest.approx(tokens, rel=1e-4)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_the_pieces_of_a_text_add_up_to_the_whole(pieces: list[str]) -> None:
    assert sum(map(estimate, pieces)) == pytest.approx(estimate("".join(pieces)))


@given(st.text(max_size=60))
def test_the_bound_per_character_holds(text: str) -> None:
    assert estimate(text) <= len(text) * MAX_PER_CHARACTER + 1e-9


def test_a_request_counts_system_messages_calls_results_images_and_tools() -> None:
    image = Image("image/png", "AAAA")
    messages = (
        Message("user", (Text("a" * 9), image)),
        Message("assistant", (ToolCall("c", "f" * 9, "1" * 4),)),
        Message("user", (ToolResult("c", "b" * 9), ToolResult("d", (Text("c" * 9), image)))),
    )
    request = Request("m", messages, system="s" * 9)
    expected = 2 + 10 + 3 * MESSAGE_TOKENS + 2 + IMAGE_TOKENS + 2 + 2 + 2 + 2 + IMAGE_TOKENS
    assert estimate_request(request, tool_bytes=45) == expected
