from __future__ import annotations

import time

import pytest
from hypothesis import given

from ir.errors import ApiError
from ir.history import check_pairs, merge
from ir.request import Content, Message, Text, ToolCall, ToolResult
from tests import strategies


def call(name: str) -> ToolCall:
    return ToolCall(name, "f", "{}")


def user(*parts: Content) -> Message:
    return Message("user", parts)


def assistant(*parts: Content) -> Message:
    return Message("assistant", parts)


def paths(messages: tuple[Message, ...]) -> list[str]:
    return [f"messages.{index}" for index in range(len(messages))]


@given(strategies.histories())
def test_a_history_in_normal_form_is_accepted_and_merging_leaves_it_alone(history: tuple[Message, ...]) -> None:
    check_pairs(history, paths(history))
    assert merge(history, paths(history)) == (history, tuple(paths(history)))


@pytest.mark.parametrize(
    ("messages", "code", "where"),
    [
        ((user(ToolResult("a", "1")),), "orphan_tool_result", "messages.0"),
        ((user(Text("q")), assistant(call("a"))), "missing_tool_result", "messages.1"),
        ((assistant(call("a")), user(Text("q"))), "missing_tool_result", "messages.1"),
        ((assistant(call("a"), call("b")), user(ToolResult("a", "1"))), "missing_tool_result", "messages.1"),
        ((assistant(call("a")), user(ToolResult("a", "1"), ToolResult("a", "2"))),
         "duplicate_tool_result", "messages.1"),
        ((assistant(call("a"), call("a")), user(ToolResult("a", "1"))), "duplicate_tool_call", "messages.0"),
        (
            (assistant(call("a")), user(ToolResult("a", "1")), assistant(call("a")), user(ToolResult("a", "1"))),
            "duplicate_tool_call",
            "messages.2",
        ),
        ((assistant(call("a")), user(ToolResult("a", "1")), assistant(Text("x")), user(ToolResult("b", "1"))),
         "orphan_tool_result", "messages.3"),
    ],
)  # fmt: skip
def test_calls_and_results_that_do_not_pair_are_refused_by_name(
    messages: tuple[Message, ...], code: str, where: str
) -> None:
    with pytest.raises(ApiError) as caught:
        check_pairs(messages, paths(messages))
    assert (caught.value.code, caught.value.param) == (code, where)


def test_merging_joins_neighbours_and_puts_results_first_in_the_order_of_their_calls() -> None:
    messages = (
        user(Text("q")), assistant(Text("t")), assistant(call("a"), call("b")),
        user(ToolResult("b", "2")), user(Text("and"), ToolResult("a", "1")),
    )  # fmt: skip
    merged, kept = merge(messages, paths(messages))
    assert merged == (
        user(Text("q")),
        assistant(Text("t"), call("a"), call("b")),
        user(ToolResult("a", "1"), ToolResult("b", "2"), Text("and")),
    )
    assert kept == ("messages.0", "messages.1", "messages.3")


def test_a_long_run_of_one_role_is_joined_in_one_go() -> None:
    count = 100_000
    messages = (user(Text("first")), *(user(Text("x")) for _ in range(count)), assistant(Text("a")), user(Text("last")))
    began = time.perf_counter()
    merged, kept = merge(messages, paths(messages))
    assert [len(message.content) for message in merged] == [count + 1, 1, 1]
    assert kept == ("messages.0", f"messages.{count + 1}", f"messages.{count + 2}")
    assert time.perf_counter() - began < 3  # joined one by one it takes a quarter of a minute
