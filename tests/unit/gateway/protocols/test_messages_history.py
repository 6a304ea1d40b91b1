"""Content blocks, and criterion 9: where tool results must stand."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.messages.server import decode_request, encode_error
from ir.errors import ApiError, Kind
from ir.request import Image, Message, Reasoning, Request, Text, ToolCall, ToolResult

PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}}


def use(call: str, **extra: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "f", "input": {"city": "上海"}, **extra}


def result(call: str, content: Any = "1", **extra: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **extra}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}


def decode(*messages: tuple[str, Any]) -> Request:
    rows = [{"role": role, "content": content} for role, content in messages]
    return decode_request({"model": "m1", "max_tokens": 10, "messages": rows})


def refusal(*messages: tuple[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decode(*messages)
    assert caught.value.kind is Kind.INVALID_REQUEST
    return caught.value


START = ("user", "Hi")


def answered(content: Any) -> str | tuple[Text | Image, ...]:
    """The content of a tool result, after decoding."""
    part = decode(START, ("assistant", [use("t1")]), ("user", [result("t1", content)])).messages[-1].content[0]
    assert isinstance(part, ToolResult)
    return part.content


def test_a_tool_turn_keeps_everything_in_order() -> None:
    request = decode(
        ("user", [text("look"), {"type": "image", "source": PIXEL}]),
        ("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}, text("ok"), use("t1"), use("t2")]),
        ("user", [result("t2", [text("two")], is_error=True), result("t1"), text("and?")]),
    )
    assert request.messages == (
        Message("user", (Text("look"), Image("image/png", "iVBORw0KGgo="))),
        Message(
            "assistant",
            (
                Reasoning("hm", "s"),
                Text("ok"),
                ToolCall("t1", "f", '{"city":"上海"}'),
                ToolCall("t2", "f", '{"city":"上海"}'),
            ),
        ),
        Message("user", (ToolResult("t1", "1"), ToolResult("t2", (Text("two"),), is_error=True), Text("and?"))),
    )


def test_redacted_thinking_is_kept_opaque() -> None:
    request = decode(START, ("assistant", [{"type": "redacted_thinking", "data": "xyz"}, text("a")]), START)
    assert request.messages[1].content[0] == Reasoning("", "xyz", redacted=True)


def test_empty_texts_and_messages_are_dropped_and_neighbours_merged() -> None:
    request = decode(("user", [text(""), text("a")]), ("assistant", ""), ("user", []), ("user", "b"))
    assert request.messages == (Message("user", (Text("a"), Text("b"))),)


def test_system_messages_between_the_others_join_the_system_prompt_in_order() -> None:
    rows = [
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": [text("two")], "output_config": {"effort": "medium"}},
        {"role": "assistant", "content": [use("t1")]},
        {"role": "system", "content": "three"},
        {"role": "user", "content": [result("t1")]},
    ]
    request = decode_request({"model": "m1", "max_tokens": 10, "system": "one", "messages": rows})
    assert request.system == "one\n\ntwo\n\nthree"
    assert [message.role for message in request.messages] == ["user", "assistant", "user"]
    assert request.ignored == ("messages.output_config",)


def test_a_last_word_of_the_assistant_is_history_and_listed() -> None:
    request = decode(START, ("assistant", "The answer is ("))
    assert request.messages[-1] == Message("assistant", (Text("The answer is ("),))
    assert request.ignored == ("prefill",)


@pytest.mark.parametrize("messages", [[], [("user", "")], [("user", []), ("system", "only this")]])
def test_a_request_with_nothing_to_answer_is_refused(messages: list[tuple[str, Any]]) -> None:
    error = refusal(*messages)
    assert (error.code, error.param) == ("missing_messages", "messages")


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        (("tool", "x"), "invalid_role", "messages.0.role"),
        ((None, "x"), "invalid_role", "messages.0.role"),
        (("user", None), "invalid_type", "messages.0.content"),
        (("user", {"type": "text"}), "invalid_type", "messages.0.content"),
        (("user", ["x"]), "invalid_type", "messages.0.content.0"),
        (("user", [{"text": "x"}]), "invalid_type", "messages.0.content.0.type"),
        (("user", [{"type": "text", "text": 1}]), "invalid_type", "messages.0.content.0.text"),
        (("user", [text("a"), PDF]), "unsupported_content_type", "messages.0.content.1"),
        (("user", [use("t1")]), "unsupported_content_type", "messages.0.content.0"),
        (("user", [{"type": "thinking", "thinking": ""}]), "unsupported_content_type", "messages.0.content.0"),
        (("assistant", [{"type": "image", "source": PIXEL}]), "unsupported_content_type", "messages.0.content.0"),
        (("assistant", [result("t1")]), "unsupported_content_type", "messages.0.content.0"),
        (("assistant", [{"type": "server_tool_use"}]), "unsupported_content_type", "messages.0.content.0"),
        (("assistant", [use("")]), "invalid_type", "messages.0.content.0.id"),
        (("assistant", [use("t1", name=None)]), "invalid_type", "messages.0.content.0.name"),
        (("assistant", [use("t1", input="{}")]), "invalid_tool_arguments", "messages.0.content.0.input"),
        (("assistant", [use("t1", input=[])]), "invalid_tool_arguments", "messages.0.content.0.input"),
        (("assistant", [{"type": "thinking"}]), "invalid_type", "messages.0.content.0.thinking"),
        (("user", [result("")]), "invalid_type", "messages.0.content.0.tool_use_id"),
        (("user", [result("t1", is_error="no")]), "invalid_type", "messages.0.content.0.is_error"),
        (("user", [result("t1", 5)]), "invalid_type", "messages.0.content.0.content"),
        (("system", [PDF]), "unsupported_content_type", "messages.0.content.0"),
        (("user", [{"type": "image"}]), "invalid_type", "messages.0.content.0.source"),
        (("user", [{"type": "image", "source": {**PIXEL, "data": "abc"}}]), "invalid_image", "messages.0.content.0"),
        (("user", [{"type": "image", "source": {**PIXEL, "data": ""}}]), "invalid_image", "messages.0.content.0"),
        (
            ("user", [{"type": "image", "source": {**PIXEL, "media_type": "image/svg+xml"}}]),
            "invalid_image",
            "messages.0.content.0",
        ),
        (
            ("user", [{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]),
            "unsupported_image_source",
            "messages.0.content.0",
        ),
        (
            ("user", [{"type": "image", "source": {"type": "file", "file_id": "f1"}}]),
            "unsupported_image_source",
            "messages.0.content.0",
        ),
    ],
)
def test_a_wrong_block_is_refused_by_its_place(message: tuple[str, Any], code: str, param: str) -> None:
    error = refusal(message)
    assert (error.code, error.param) == (code, param)
    assert error.message.startswith(f"{param}: ")


def test_arguments_too_deep_to_be_written_again_are_refused() -> None:
    deep = orjson.loads(b'{"a":' * 300 + b"1" + b"}" * 300)
    assert refusal(START, ("assistant", [use("t1", input=deep)])).code == "invalid_tool_arguments"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ""),
        ("", ""),
        ("plain", "plain"),
        ([], ()),
        ([text("")], ()),
        ([text("a"), {"type": "image", "source": PIXEL}], (Text("a"), Image("image/png", "iVBORw0KGgo="))),
        ([{"type": "tool_reference", "tool_name": "WebFetch"}], (Text("The tool WebFetch is now available."),)),
        (
            [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "doc"}}],
            (Text("doc"),),
        ),
    ],
)
def test_the_content_of_a_result(content: Any, expected: str | tuple[Text | Image, ...]) -> None:
    assert answered(content) == expected


@pytest.mark.parametrize(
    ("block", "name"),
    [
        (PDF, "document"),
        ({"type": "search_result", "source": "x", "title": "t", "content": []}, "search_result"),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, "image"),
        ({"type": "image", "source": {**PIXEL, "media_type": "image/svg+xml"}}, "image"),
        ({"type": "secret text\r\nhere"}, "content"),
        ({"type": ["list"]}, "content"),
        ({}, "content"),
    ],
)
def test_what_cannot_be_shown_of_a_result_becomes_a_note_and_never_locks_the_conversation(
    block: dict[str, Any], name: str
) -> None:
    request = decode(START, ("assistant", [use("t1")]), ("user", [result("t1", [text("a"), block])]))
    note = Text(f"[{name} left out: only text and images of common types can be shown here]")
    assert request.messages[-1].content == (ToolResult("t1", (Text("a"), note)),)
    assert request.ignored == (f"tool_result.{name}",)


RULE = "messages.2: tool_result blocks must come first and answer messages.1"
CALL = ("assistant", [use("t1")])


@pytest.mark.parametrize(
    ("messages", "code", "message"),
    [
        ([START, CALL, ("user", [text("x"), result("t1")])], "misplaced_tool_result", RULE),
        ([START, CALL, ("assistant", "x")], "missing_tool_result", f"{RULE} ('t1' has no result)"),
        ([START, CALL, ("user", "x")], "missing_tool_result", f"{RULE} ('t1' has no result)"),
        ([START, CALL, ("user", "x"), ("assistant", "y")], "missing_tool_result", f"{RULE} ('t1' has no result)"),
        (
            [START, CALL, ("user", [result("t1"), result("t9")])],
            "orphan_tool_result",
            f"{RULE} (no tool_use there has the id 't9')",
        ),
        (
            [START, CALL, ("user", [result("t1"), result("t1")])],
            "duplicate_tool_result",
            f"{RULE} ('t1' is answered twice)",
        ),
        ([START, CALL, ("user", "x"), ("user", [result("t1")])], "misplaced_tool_result", RULE.replace("2", "3")),
        (
            [START, ("assistant", [use("t1"), use("t2")]), ("user", [result("t2")]), ("assistant", "y")],
            "missing_tool_result",
            f"{RULE} ('t1' has no result)",
        ),
        (
            [START, CALL, ("user", [result("t1")]), ("assistant", "ok"), ("user", [result("t1")])],
            "duplicate_tool_result",
            "messages.4: tool_result blocks must come first and answer messages.3 ('t1' is answered twice)",
        ),
        (
            [("user", [result("t9")])],
            "orphan_tool_result",
            "messages.0: a tool_result block has no tool_use before it",
        ),
        ([START, CALL], "missing_tool_result", "messages.1: tool_use 't1' has no tool_result"),
        (
            [START, CALL, ("user", [result("t1")]), CALL, ("user", [result("t1")])],
            "duplicate_tool_call",
            "messages.3: the tool_use id 't1' is used twice",
        ),
    ],
)
def test_a_result_out_of_its_place_is_refused(messages: list[tuple[str, Any]], code: str, message: str) -> None:
    error = refusal(*messages)
    assert (error.code, error.message) == (code, message)
    assert error.param == message.partition(":")[0]


def test_the_refusal_of_criterion_nine_byte_for_byte() -> None:
    error = refusal(START, CALL, ("user", [text("x"), result("t1")]))
    reply = encode_error(error, "req_1")
    assert reply.status == 400
    assert reply.body == (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"messages.2: tool_result blocks must '
        b'come first and answer messages.1"},"request_id":"req_1"}'
    )


def test_results_may_be_spread_over_user_messages_in_a_row() -> None:
    split = decode(
        START, ("assistant", [use("t1"), use("t2")]), ("user", [result("t2")]), ("user", [result("t1"), text("x")])
    )
    whole = decode(START, ("assistant", [use("t1"), use("t2")]), ("user", [result("t1"), result("t2"), text("x")]))
    assert split.messages == whole.messages


def test_a_call_may_follow_the_assistants_own_words_in_a_row() -> None:
    assert len(decode(START, ("assistant", "ok"), CALL, ("user", [result("t1")])).messages) == 3
