from __future__ import annotations

import pytest

from gateway import fallback
from ir.errors import CULPRITS, Culprit, Reason
from ir.request import Image, Message, Request, Text, Tool, ToolCall, ToolResult

PLAIN = Message("user", (Text("hello"),))


@pytest.mark.parametrize(
    ("request_", "obstacle"),
    [
        (Request("m", (PLAIN,)), ""),
        (Request("m", (PLAIN,), tools=(Tool("f", "", {"type": "object"}),)), "client_tools"),
        (Request("m", (PLAIN, Message("assistant", (ToolCall("c", "f", "{}"),)))), "tool_continuation"),
        (Request("m", (Message("user", (ToolResult("c", "done"),)),)), "tool_continuation"),
        (Request("m", (Message("user", (Image("image/png", "AAAA"),)),)), "inline_images"),
        (Request("m", (PLAIN,), echo={"previous_response_id": "resp_1"}), "responses_continuation"),
    ],
)
def test_only_plain_turns_go_by_the_second_way(request_: Request, obstacle: str) -> None:
    assert fallback.obstacle(request_) == obstacle


def test_a_refusal_that_another_way_would_only_evade_never_falls_back() -> None:
    assert Reason.BLOCKED not in fallback.REASONS
    assert not any(CULPRITS[reason] in (Culprit.CALLER, Culprit.GATEWAY, Culprit.EGRESS) for reason in fallback.REASONS)
