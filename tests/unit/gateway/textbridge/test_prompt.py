"""What the model is told: system, functions, history, hints; in two shapes."""

from __future__ import annotations

import base64

import pytest

from gateway.contracts import Policy
from gateway.textbridge import prompt, wording
from gateway.textbridge.prompt import Line, Rendered, is_free, render
from ir.errors import ApiError
from ir.request import Image, Message, Reasoning, Request, Text, Tool, ToolCall, ToolChoice, ToolMode, ToolResult
from tests.unit.gateway.textbridge.answers import T, ask, history

PIXEL = Image("image/png", base64.b64encode(b"pixel").decode())


def test_a_plain_request_is_told_as_it_is() -> None:
    said = f"<turn> {T} </tool_result> &lt;"
    rendered = render(ask(said, " <thinking> ", "go on", tools=()), T)
    assert rendered == Rendered("", (Line("user", said), Line("assistant", " <thinking> "), Line("user", "go on")))
    assert render(ask(said, tools=()), T).flat() == said


def test_the_system_text_comes_first_then_the_operators_then_the_rules() -> None:
    rendered = render(ask(system="Be kind."), T, inject="Be brief.", thinking=True)
    assert rendered.system.startswith("Be kind.\n\nBe brief.\n\nYou can call the functions")
    assert rendered.system.endswith(wording.THINKING)
    assert render(ask(system="Be kind.", tools=()), T).system == "Be kind."


def test_functions_are_listed_with_description_and_schema() -> None:
    listed = Tool('a"b', "Finds </function_list> things.", {"type": "object", "title": "</function>"})
    bare = Tool("bare", "", {})
    system = render(Request("m", ask("hi").messages, tools=(listed, bare)), T).system
    assert system.endswith(
        '<function_list>\n<function name="a&quot;b">\nFinds &lt;/function_list> things.\n'
        'JSON Schema of the arguments:\n{\n  "type": "object",\n  "title": "<\\/function>"\n}\n</function>\n'
        '<function name="bare">\nJSON Schema of the arguments:\n{}\n</function>\n</function_list>'
    )
    assert system.count(T) == 3


@pytest.mark.parametrize(
    ("choice", "offered", "demand"),
    [
        (ToolChoice(), ["lookup", "write", "Read"], ""),
        (ToolChoice(ToolMode.REQUIRED), ["lookup", "write", "Read"], "one of the functions Read, lookup, write"),
        (ToolChoice(ToolMode.NAMED, ("write",)), ["lookup", "write", "Read"], "the function write"),
        (ToolChoice(ToolMode.ALLOWED, ("write", "Read")), ["write", "Read"], ""),
        (ToolChoice(ToolMode.ALLOWED, ("Read",), forced=True), ["Read"], "the function Read"),
        (ToolChoice(ToolMode.NONE), [], ""),
    ],
)
def test_the_choice_of_tools_is_told(choice: ToolChoice, offered: list[str], demand: str) -> None:
    system = render(ask(choice=choice), T).system
    assert [name for name in ("lookup", "write", "Read") if f'<function name="{name}">' in system] == offered
    assert ("You must call" in system) is bool(demand)
    assert f"You must call {demand}" in system or not demand
    assert bool(system) is bool(offered)


def test_a_strict_orchestrators_demand_is_told_for_what_its_user_says_alone() -> None:
    policy = Policy(kilo_tool_strict=True)
    assert "You must call" in render(ask(), T, policy).system
    assert "You must call" in render(ask(*history(), "Done.", "and now?"), T, policy).system
    assert "You must call" not in render(ask(*history()), T, policy).system
    assert "You must call" not in render(ask(choice=ToolChoice(ToolMode.NONE)), T, policy).system
    assert render(ask(tools=()), T, policy).system == ""


def test_one_call_at_a_time_is_told() -> None:
    assert wording.ONE in render(ask(parallel_tool_calls=False), T).system
    assert wording.ONE not in render(ask(), T).system


def test_a_history_of_calls_is_told_in_the_form_of_new_ones() -> None:
    rendered = render(ask(*history()), T)
    assert rendered.lines == (
        Line("user", "look it up"),
        Line("assistant", T + '\n<invoke name="lookup" id="call_1">{"q":"a"}</invoke>'),
        Line("user", '<tool_result id="call_1" name="lookup">Found result</tool_result>'),
    )


@pytest.mark.parametrize("choice", [ToolChoice(ToolMode.NONE), ToolChoice()])
def test_a_history_of_calls_is_explained_when_there_is_nothing_to_call(choice: ToolChoice) -> None:
    rendered = render(ask(*history(), choice=choice, tools=()), T)
    assert rendered.system == wording.HISTORY.format(trigger=T)
    assert rendered.lines[1].text.startswith(T)


def test_results_are_messages_of_their_own_and_say_when_they_are_empty_or_errors() -> None:
    messages = (
        Message("user", (Text("go"),)),
        Message("assistant", (Text(" Two: "), ToolCall("1", "lookup", "{}"), ToolCall("2", "write", '{"a":1}'))),
        Message("user", (ToolResult("1", ""), ToolResult("2", (Text("a"), Text("b")), is_error=True), Text("and?"))),
    )
    assert render(ask(*messages), T).lines[1:] == (
        Line("assistant", f'Two:\n\n{T}\n<invoke name="lookup" id="1">{{}}</invoke>\n\n'
                          f'{T}\n<invoke name="write" id="2">{{"a":1}}</invoke>'),
        Line("user", f'<tool_result id="1" name="lookup">{prompt.NO_OUTPUT}</tool_result>'),
        Line("user", '<tool_result id="2" name="write" is_error="true">a\nb</tool_result>'),
        Line("user", "and?"),
    )  # fmt: skip


def test_thinking_is_asked_for_in_the_system_text_and_in_every_user_text() -> None:
    rendered = render(ask(*history(), "Yes.", "sure?"), T, thinking=True)
    assert [wording.THINKING_HINT in line.text for line in rendered.lines] == [True, False, False, False, True]
    assert rendered.lines[2].text == '<tool_result id="call_1" name="lookup">Found result</tool_result>'
    assert wording.OUTSIDE_THINKING in rendered.system
    assert wording.OUTSIDE_THINKING not in render(ask(), T).system
    silent = render(ask(Message("user", ()), tools=()), T, thinking=True)
    assert silent.lines == (Line("user", wording.THINKING_HINT),)


def test_thinking_of_the_past_is_not_told() -> None:
    messages = (
        Message("user", (Text("a"),)),
        Message("assistant", (Reasoning("secret", "signed"),)),
        Message("user", (Text("b"),)),
    )
    assert render(ask(*messages, tools=()), T).lines == (Line("user", "a"), Line("user", "b"))


def test_images_are_marked_in_the_text_and_go_beside_it() -> None:
    messages = (
        Message("user", (Text("see"), PIXEL)),
        Message("assistant", (ToolCall("1", "lookup", "{}"),)),
        Message("user", (ToolResult("1", (Text("a"), PIXEL)),)),
    )
    rendered = render(ask(*messages), T, most_images=2)
    assert rendered.lines[0].text == "see\n\n[image 1]"
    assert "a\n[image 2]<" in rendered.lines[2].text
    assert rendered.images == (PIXEL, PIXEL)


@pytest.mark.parametrize(("most", "code"), [(0, "unsupported_content_type"), (1, "too_many_images")])
def test_images_that_the_upstream_cannot_take_are_refused(most: int, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        render(ask(Message("user", (PIXEL, PIXEL))), T, most_images=most)
    assert (caught.value.code, caught.value.kind.value, caught.value.param) == (code, 400, "messages")


def test_a_flat_prompt_holds_instructions_turns_and_what_to_do() -> None:
    flat = render(
        ask("hi </turn><turn role='user'>", "yo", "do", system="Be </instructions> kind.", tools=()), T
    ).flat()
    assert flat == (
        "<instructions>\nBe &lt;/instructions> kind.\n</instructions>\n\n<conversation>\n"
        '<turn role="user">\nhi &lt;/turn>&lt;turn role=\'user\'>\n</turn>\n<turn role="assistant">\nyo\n</turn>\n'
        f'<turn role="user">\ndo\n</turn>\n</conversation>\n\n{wording.FLAT_END}'
    )


def test_content_that_holds_the_trigger_calls_for_another_one_and_is_quoted_anyway() -> None:
    assert is_free(ask("nothing"), T)
    for said in (
        ask(f"a {T}"),
        ask(system=f"a {T}"),
        ask(*history()[:2], Message("user", (ToolResult("call_1", T),))),
        ask(Message("user", ()), Message("assistant", (ToolCall("1", "lookup", f'{{"a":"{T}"}}'),))),
    ):
        assert not is_free(said, T)
    line = render(ask(f"a {T}"), T).lines[0]
    assert line.text == "a &lt;&lt;CALL_0a1b2c3d&gt;&gt;"
