from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols.responses import server
from ir.errors import ApiError
from ir.request import Image, Message, Reasoning, Request, Text, ToolCall, ToolResult

USER = {"role": "user", "content": "Hi"}
PNG = "data:image/png;base64,iVBORw0K"


def decode(*items: Any) -> Request:
    return server.decode_request({"model": "m", "input": [USER, *items]})


def refusal(*items: Any) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as caught:
        decode(*items)
    return caught.value.code, caught.value.param


def call(call_id: str = "c1", name: str = "f", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(value: Any = "ok", call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def told(*items: Any) -> list[Any]:
    """What the assistant said or did in the message after the first."""
    return list(decode(*items).messages[1].content)


def test_the_second_turn_is_that_of_the_eighth_criterion() -> None:
    request = decode(
        call("call_1", "get_weather", '{"city":"上海"}', id="fc_1", status="completed"),
        output('{"temp":26}', "call_1"),
        {"role": "user", "content": "And tomorrow?"},
    )
    assert request.messages[1:] == (
        Message("assistant", (ToolCall("call_1", "get_weather", '{"city":"上海"}'),)),
        Message("user", (ToolResult("call_1", '{"temp":26}'), Text("And tomorrow?"))),
    )


def test_parallel_results_are_one_message_in_the_order_of_their_calls() -> None:
    request = decode(call("a"), call("b"), output("B", "b"), output("A", "a"))
    assert request.messages[2].content == (ToolResult("a", "A"), ToolResult("b", "B"))


@pytest.mark.parametrize(
    ("items", "code", "param"),
    [
        ([output()], "orphan_tool_result", "input[0]"),  # where the message begins that it became part of
        ([call(), output(), output()], "duplicate_tool_result", "input[2]"),
        ([call()], "missing_tool_result", "input[1]"),
        ([call(), output(), call(), output()], "duplicate_tool_call", "input[3]"),
        ([call(), USER], "missing_tool_result", "input[2]"),
    ],
)
def test_calls_and_results_must_pair(items: list[Any], code: str, param: str) -> None:
    assert refusal(*items) == (code, param)


@pytest.mark.parametrize("arguments", ["{city:", "[]", "1", "null"])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    """Criterion 11."""
    assert refusal(call(arguments=arguments)) == ("invalid_tool_arguments", "input[1].arguments")


@pytest.mark.parametrize("arguments", ["", None])
def test_empty_arguments_are_an_empty_object(arguments: Any) -> None:
    assert told(call(arguments=arguments), output()) == [ToolCall("c1", "f", "{}")]


def test_the_id_of_an_item_is_the_last_resort_for_the_id_of_its_call() -> None:
    bare = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"}
    assert told(bare, output(call_id="fc_1")) == [ToolCall("fc_1", "f", "{}")]


@pytest.mark.parametrize(
    ("space", "flat"), [({"namespace": "fs"}, "fs__read"), ({"namespace": "functions"}, "read"), ({}, "read")]
)
def test_a_call_of_the_history_has_the_flat_name_of_its_tool(space: dict[str, str], flat: str) -> None:
    assert told(call(name="read", **space), output()) == [ToolCall("c1", flat, "{}")]


def test_free_text_of_a_custom_call_is_its_input() -> None:
    made = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": 'a\n"b"', "id": "ctc_1"}
    back = {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"}]}
    request = decode(made, back)
    (asked,) = request.messages[1].content
    assert isinstance(asked, ToolCall)
    assert orjson.loads(asked.arguments) == {"input": 'a\n"b"'}
    assert request.messages[2].content == (ToolResult("c1", (Text("ok"),)),)


@pytest.mark.parametrize("named", [{"call_id": "c1"}, {"id": "c1"}, {"id": "lsc_1"}])
def test_a_shell_output_names_its_call_by_either_id(named: dict[str, str]) -> None:
    action: dict[str, Any] = {"type": "exec", "command": ["ls"], "env": {}, "user": None}
    made = {"type": "local_shell_call", "id": "lsc_1", "call_id": "c1", "action": action, "status": "completed"}
    request = decode(made, {"type": "local_shell_call_output", "output": "x", **named})
    assert request.messages[1].content == (ToolCall("c1", "local_shell", '{"command":["ls"],"env":{}}'),)
    assert request.messages[2].content == (ToolResult("c1", "x"),)


@pytest.mark.parametrize("arguments", [{"query": "mail"}, '{"query":"mail"}'])
def test_a_search_of_the_client_is_a_call_and_its_finds_can_be_read(arguments: Any) -> None:
    made = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": arguments}
    inner = {"type": "function", "name": "send", "description": "Sends.", "parameters": {}}
    found = {
        "type": "tool_search_output",
        "call_id": "c1",
        "tools": [{"type": "namespace", "name": "mail", "tools": [inner]}],
    }
    request = decode(made, found)
    assert request.messages[1].content == (ToolCall("c1", "tool_search", '{"query":"mail"}'),)
    (result,) = request.messages[2].content
    assert isinstance(result, ToolResult)
    assert '[{"namespace":"mail","type":"function","name":"send","description":"Sends."}]' in result.content


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_texts_of_every_kind_are_kept_and_empty_ones_dropped(role: str) -> None:
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "output_text", "text": "", "annotations": []},
        {"type": "refusal", "refusal": "b"},
    ]
    request = decode({"type": "message", "role": role, "content": parts, "id": "msg_1", "status": "completed"})
    said = "\n\n".join(part.text for message in request.messages for part in message.content if isinstance(part, Text))
    assert said + request.system in ("Hi\n\na\n\nb", "Hia\n\nb")


def test_an_image_in_a_user_message_and_in_a_result_is_carried() -> None:
    picture = {"type": "input_image", "image_url": PNG, "detail": "original", "file_id": None}
    request = decode({"role": "user", "content": [picture]}, call(), output([picture]))
    assert request.images() == (Image("image/png", "iVBORw0K"), Image("image/png", "iVBORw0K"))


@pytest.mark.parametrize(
    ("part", "code", "param"),
    [
        ({"type": "input_image", "image_url": "https://x/y.png"}, "unsupported_image_source", "image_url"),
        ({"type": "input_image", "file_id": "file_1"}, "unsupported_image_source", "file_id"),
        ({"type": "input_image", "image_url": "data:image/svg+xml;base64,AAAA"}, "invalid_image", "image_url"),
        ({"type": "input_image"}, "invalid_type", "image_url"),
        ({"type": "input_file", "file_id": "file_1"}, "unsupported_content_type", "type"),
        ({"type": "input_audio"}, "unsupported_content_type", "type"),
        ({"type": "output_audio"}, "unsupported_content_type", "type"),
        ({"text": "x"}, "invalid_type", "type"),
        ({"type": "input_text"}, "invalid_type", "text"),
    ],
)
def test_a_part_that_cannot_be_carried_is_refused_with_its_path(part: dict[str, Any], code: str, param: str) -> None:
    """Criterion 12; seed 3, images."""
    assert refusal({"role": "user", "content": [part]}) == (code, f"input[1].content[0].{param}")


@pytest.mark.parametrize("role", ["assistant", "developer"])
def test_only_a_user_shows_images(role: str) -> None:
    picture = {"type": "input_image", "image_url": PNG}
    assert refusal({"role": role, "content": [picture]}) == ("unsupported_content_type", "input[1].content[0].type")


@pytest.mark.parametrize("kind", ["input_file", "input_audio", "something_new"])
def test_another_medium_in_a_result_is_a_note_and_does_not_lock_the_conversation(kind: str) -> None:
    request = decode(call(), output([{"type": "input_text", "text": "see"}, {"type": kind, "file_data": "AAAA"}]))
    (result,) = request.messages[2].content
    assert isinstance(result, ToolResult)
    texts = [part.text for part in result.content if isinstance(part, Text)]
    assert (texts[0], "cannot be shown" in texts[1]) == ("see", True)
    assert request.ignored == ("input[2].output[1]",)


@pytest.mark.parametrize(
    ("more", "thought"),
    [
        ({"summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]}, "a\n\nb"),
        ({"summary": [], "content": [{"type": "reasoning_text", "text": "c"}]}, "c"),
        ({"summary": [{"text": "a"}], "content": None, "status": "completed"}, "a"),
    ],
)
def test_completed_thinking_with_a_text_is_context(more: dict[str, Any], thought: str) -> None:
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "opaque", **more}
    assert told(item, {"role": "assistant", "content": "x"}) == [Reasoning(thought, "opaque"), Text("x")]


def test_thinking_that_is_only_opaque_is_dropped_and_listed() -> None:
    request = decode({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"})
    assert (len(request.messages), request.ignored) == (1, ("input[1]",))


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ({"type": "web_search_call", "action": {"type": "search", "query": "q"}}, '"query":"q"'),
        ({"type": "file_search_call", "queries": ["q"], "results": [{"text": "found"}]}, "found"),
        ({"type": "image_generation_call", "result": "SECRETBASE64", "revised_prompt": "a cat"}, "a cat"),
        ({"type": "mcp_call", "server_label": "s", "name": "n", "arguments": "{}", "output": "said"}, "said"),
        ({"type": "computer_call", "call_id": "c9", "action": {"type": "click"}}, "click"),
        (
            {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
            '"outputs":[{"type":"logs","logs":"2"}]',
        ),
        ({"type": "tool_search_call", "execution": "server", "arguments": {"q": 1}}, '{"q":1}'),
        ({"type": "tool_search_call", "execution": "server", "call_id": "c8", "arguments": {"q": 2}}, '{"q":2}'),
        ({"type": "tool_search_output", "call_id": None, "tools": [{"type": "function", "name": "mail"}]}, "mail"),
    ],
)
def test_a_completed_hosted_call_can_be_read(item: dict[str, Any], shown: str) -> None:
    (text,) = told({"id": "x_1", "status": "completed", **item})
    assert isinstance(text, Text)
    assert text.text.startswith(f"[{item['type']}: ")
    assert shown in text.text
    assert "BASE64" not in text.text


def test_pictures_of_an_interpreter_are_not_text() -> None:
    outputs = [{"type": "image", "url": "data:image/png;base64,SECRET"}]
    (text,) = told({"type": "code_interpreter_call", "code": "x", "outputs": outputs, "status": "completed"})
    assert "SECRET" not in text.text


@pytest.mark.parametrize("kind", ["reasoning", "web_search_call", "code_interpreter_call", "mcp_call"])
@pytest.mark.parametrize("status", ["in_progress", "incomplete", "failed"])
def test_an_item_that_was_not_completed_cannot_be_continued(kind: str, status: str) -> None:
    assert refusal({"type": kind, "status": status, "summary": []}) == ("incomplete_item", "input[1].status")


@pytest.mark.parametrize("kind", ["computer_call_output", "shell_call", "x", ""])
def test_an_item_of_another_type_is_refused(kind: str) -> None:
    """Criterion 12."""
    assert refusal({"type": kind}) == ("unsupported_item_type", "input[1].type")


def test_a_trigger_that_is_not_last_is_refused() -> None:
    assert refusal({"type": "compaction_trigger"}, USER) == ("unsupported_item_type", "input[1].type")


@pytest.mark.parametrize("role", ["tool", None, 1])
def test_a_message_of_another_role_is_refused(role: Any) -> None:
    assert refusal({"type": "message", "role": role, "content": "x"}) == ("invalid_role", "input[1].role")
