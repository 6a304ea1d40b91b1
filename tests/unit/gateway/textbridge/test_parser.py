"""The grammar by its vectors, and the corners that they leave open."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from gateway.textbridge import parser
from gateway.textbridge.parser import Parser
from gateway.textbridge.sink import Note
from tests.unit.gateway.textbridge.answers import TOOLS, VECTORS, Recorder, T, Told, calls, parse

CONFIG = VECTORS["config"]
each_vector = pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["id"])


def expected(vector: dict[str, Any]) -> list[Told]:
    told = Recorder()
    for kind, value in vector["events"]:
        match kind:
            case "text":
                told.text(value)
            case "thinking":
                told.thinking(value)
            case "call":
                told.call(value[0], value[1], "")
    return told.told


def test_the_vectors_are_all_there_and_speak_of_the_same_tools() -> None:
    assert len(VECTORS["vectors"]) == 30
    assert (CONFIG["trigger"], tuple(CONFIG["tools"]), CONFIG["thinking"]) == (T, TOOLS, True)


@each_vector
def test_a_vector_is_understood_whole_and_by_the_character(vector: dict[str, Any]) -> None:
    text = vector["input"]
    assert parse([text]).told == expected(vector)
    assert parse(text).told == expected(vector)


@each_vector
def test_a_vector_is_understood_when_it_is_split_anywhere(vector: dict[str, Any]) -> None:
    text = vector["input"]
    for at in range(1, len(text)):
        assert parse([text[:at], text[at:]]).told == expected(vector), at


@each_vector
def test_a_vector_is_understood_in_random_pieces(vector: dict[str, Any]) -> None:
    text, chance = vector["input"], random.Random(vector["id"])
    for _ in range(200):
        cuts = sorted(chance.choices(range(len(text) + 1), k=chance.randint(0, 8)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert parse(pieces).told == expected(vector), pieces


@each_vector
def test_a_vector_is_noted_as_it_says_and_loses_nothing(vector: dict[str, Any]) -> None:
    recorder = parse([vector["input"]])
    assert recorder.notes == [value for kind, value in vector["events"] if kind == "diag"]
    assert recorder.raw == vector["input"]


def test_text_goes_out_at_once_but_for_the_beginning_of_a_token() -> None:
    recorder = Recorder()
    stream = Parser(recorder, T, TOOLS, thinking=True)
    stream.feed("Hello <")
    assert recorder.told == [("text", "Hello ")]
    stream.feed("b> and <<CALL_0a1b")
    assert recorder.told == [("text", "Hello <b> and ")]
    stream.feed("!")
    assert recorder.told == [("text", "Hello <b> and <<CALL_0a1b!")]


def test_thinking_goes_out_at_once_but_for_the_beginning_of_its_end() -> None:
    recorder = Recorder()
    stream = Parser(recorder, T, TOOLS, thinking=True)
    stream.feed("<thinking>a < b </think")
    assert recorder.told == [("thinking", "a < b ")]
    stream.feed("ers</thinking>")
    assert recorder.told == [("thinking", "a < b </thinkers")]


def test_a_trigger_in_prose_holds_nothing_back() -> None:
    recorder = Recorder()
    stream = Parser(recorder, T, TOOLS, thinking=False)
    stream.feed(f"the marker {T} a")
    assert recorder.told == [("text", f"the marker {T} a")]


def test_a_broken_call_is_text_as_soon_as_it_is_surely_broken() -> None:
    recorder = Recorder()
    stream = Parser(recorder, T, TOOLS, thinking=False)
    stream.feed(f'{T}<invoke name="lookup">[1')
    assert recorder.told == [("text", f'{T}<invoke name="lookup">[1')]
    assert recorder.notes == [Note.INVALID_ARGUMENTS]


def test_without_thinking_its_tags_are_text() -> None:
    assert parse(["<thinking>a</thinking>"], thinking=False).told == [("text", "<thinking>a</thinking>")]


def test_without_a_trigger_nothing_is_a_call() -> None:
    assert parse([calls("lookup")], trigger="").told == [("text", calls("lookup"))]


@pytest.mark.parametrize("trigger", ["<<CALL_1>>", "CALL", "<<CALL_0a1b2c3d>> "])
def test_a_trigger_of_another_form_is_refused(trigger: str) -> None:
    with pytest.raises(ValueError, match="trigger"):
        Parser(Recorder(), trigger, TOOLS, thinking=False)


def test_white_space_between_trigger_and_invoke_has_a_limit() -> None:
    tag = '<invoke name="lookup">{}</invoke>'
    assert parse([T + " " * parser.MOST_SPACE + tag]).told == [("call", ("lookup", "{}"))]
    assert parse([T + " " * (parser.MOST_SPACE + 1) + tag]).notes == [Note.TRIGGER_WITHOUT_INVOKE]


def test_a_second_trigger_may_follow_the_first_that_led_nowhere() -> None:
    assert parse([T + "\n" + calls("lookup")]).told == [("text", T + "\n"), ("call", ("lookup", '{"q":"a"}'))]


@pytest.mark.parametrize("tag", ['<invoke name="look<up">', '<invoke name="' + "a" * 1100 + '">', "<invoker>"])
def test_a_tag_that_is_broken_or_too_long_is_text_and_hides_nothing(tag: str) -> None:
    recorder = parse([T + tag + " " + calls("lookup")])
    assert recorder.told == [("text", T + tag + " "), ("call", ("lookup", '{"q":"a"}'))]


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ('name="lookup"', "lookup"),
        ("name = ' lookup '", "lookup"),
        ('id="a>b" name="lookup"', "lookup"),
        ('name="lookup" name="write"', "lookup"),
        ('name="&#108;ookup"', "lookup"),
        ('name="LOOKUP"', "lookup"),
    ],
)
def test_the_name_is_found_among_the_attributes(attributes: str, name: str) -> None:
    assert parse([f"{T}<invoke {attributes}>{{}}</invoke>"]).told == [("call", (name, "{}"))]


@pytest.mark.parametrize("attributes", ["name=lookup", 'name="lookup" /', 'name="lookup"id="1"', 'Name="lookup"'])
def test_attributes_that_are_not_well_formed_name_no_tool(attributes: str) -> None:
    assert parse([f"{T}<invoke {attributes}>{{}}</invoke>"]).notes == [Note.UNKNOWN_TOOL]


def test_a_name_that_two_tools_share_but_for_case_must_be_exact() -> None:
    assert parse([calls("READ")], tools=["Read", "read"]).notes == [Note.UNKNOWN_TOOL]
    assert parse([calls("read")], tools=["Read", "read"]).told == [("call", ("read", '{"q":"a"}'))]


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"a": 1.5, "b": [true, null, {}]}', '{"a":1.5,"b":[true,null,{}]}'),
        ('{"n": 123456789012345678901234567890}', '{"n":123456789012345678901234567890}'),
        ('{"b":1,"a":2}', '{"b":1,"a":2}'),
        ('{"t":"a\tb\r\nc"}', '{"t":"a\\tb\\r\\nc"}'),
        ('<parameter name="a">1</parameter>\n<parameter name="b"> {"x": </invoke>} </parameter>\n',
         '{"a":"1","b":" {\\"x\\": </invoke>} "}'),
        ("{" + '"a":{' * 200 + "}" * 200 + "}", "{" + '"a":{' * 200 + "}" * 200 + "}"),
    ],
)  # fmt: skip
def test_arguments_are_compact_and_exact(body: str, arguments: str) -> None:
    assert parse([f'{T}<invoke name="lookup">{body}</invoke>']).told == [("call", ("lookup", arguments))]


@pytest.mark.parametrize(
    "body", ['{"a":1,"a":2}', '<parameter name="a">1</parameter><parameter name="a">2</parameter>']
)
def test_of_a_key_that_comes_twice_the_last_counts(body: str) -> None:
    recorder = parse([f'{T}<invoke name="lookup">{body}</invoke>'])
    assert recorder.told == [("call", ("lookup", '{"a":2}' if body[0] == "{" else '{"a":"2"}'))]
    assert recorder.notes == [Note.DUPLICATE_KEY]


@pytest.mark.parametrize(
    "body",
    ['{"a":1]}', "{a:1}", '{"a":NaN}', "{\\}", '{"a":"\\ud83d"}', '{"a":1}x', "<b>", "<parameter>1</parameter>",
     '<parameter name="a">1</parameter>{}', "{" + '"a":{' * 5000 + "}" * 5000 + "}", '{"a":"\ud83d"}'],
)  # fmt: skip
def test_what_is_no_object_is_text_up_to_the_end_of_the_call(body: str) -> None:
    broken = f'{T}<invoke name="lookup">{body}</invoke>'
    recorder = parse([broken + calls("write")])
    assert recorder.told == [("text", broken), ("call", ("write", '{"q":"a"}'))]
    assert recorder.notes == [Note.INVALID_ARGUMENTS]


def test_white_space_after_a_call_is_kept_unless_a_call_follows() -> None:
    call = ("call", ("lookup", '{"q":"a"}'))
    assert parse([calls("lookup") + " \n"]).told == [call, ("text", " \n")]
    assert parse([calls("lookup") + " \n" + calls("nope")]).told == [call, ("text", " \n" + calls("nope"))]
    assert parse([calls("lookup") + "\n<thinking>x</thinking>"]).told == [call, ("text", "\n"), ("thinking", "x")]
    assert parse([calls("lookup") + " <<CALL_0a1b" + calls("lookup")]).told == [call, ("text", " <<CALL_0a1b"), call]


def test_of_very_many_calls_the_first_are_taken() -> None:
    recorder = parse([calls("lookup") * (parser.MOST_CALLS + 1)])
    assert recorder.told == [*[("call", ("lookup", '{"q":"a"}'))] * parser.MOST_CALLS, ("text", calls("lookup"))]
    assert recorder.notes == [Note.CALL_TOO_LARGE]


@pytest.mark.parametrize("step", [1 << 30, 65_536, 4_999])
def test_a_call_that_is_too_large_is_text(step: int) -> None:
    fits = '{"q":"' + "a" * (parser.LONGEST_BODY - len('{"q":""}</invoke>')) + '"}'
    text = calls("lookup", fits) + calls("write", fits.replace("a", "aa", 1)) + calls("Read", "{}")
    recorder = parse([text[at : at + step] for at in range(0, len(text), step)])
    assert [kind for kind, _ in recorder.told] == ["call", "text", "call"]
    assert recorder.notes == [Note.CALL_TOO_LARGE]
    assert recorder.raw == text


def test_calls_behind_one_that_never_ends_are_found_at_the_close() -> None:
    endless = f'{T}<invoke name="lookup"><parameter name="q">a</invoke>'
    recorder = parse([endless + " " + endless + calls("write")])
    assert recorder.told == [("text", endless + " " + endless), ("call", ("write", '{"q":"a"}'))]
    assert recorder.notes == [Note.TRUNCATED_CALL] * 2


ADVERSARIES = {
    "triggers": T,
    "triggers and space": T + " " * 60,
    "angles": "<",
    "half tags": f'{T}<invoke name="x',
    "endless names": f"{T}<invoke name='",
    "long tags": f"{T}<invoke {'a' * 900}",
    "endless values": f"{T}<invoke name='lookup'><parameter name='q'></invoke>",
    "open values": f"{T}<invoke name='lookup'><parameter name='q'>",
    "escaped quotes": f"{T}<invoke name='lookup'>{{\\\"</invoke>",
    "open strings": f"{T}<invoke name='lookup'>{{\"</invoke>",
    "braces": "{",
    "open objects": f"{T}<invoke name='lookup'>" + '{"a":' * 20,
    "calls": f"{T}<invoke name='lookup'>{{}}</invoke>",
    "parameters": "<parameter name='q'>x</parameter>",
    "open thinking": "<thinking>",
    "thinking": "<thinking>x</thinking>",
    "lines": "\n",
    "backslashes": "\\",
}
BEFORE = {
    "at the start": "",
    "in a body": f'{T}<invoke name="lookup">',
    "in a string": f'{T}<invoke name="lookup">{{"a":"',
    "after a call": f'{T}<invoke name="lookup">{{}}</invoke>',
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
@pytest.mark.parametrize("piece", ADVERSARIES.values(), ids=ADVERSARIES.keys())
def test_work_grows_with_the_length_of_hostile_text_alone(before: str, piece: str) -> None:
    text = before + piece * (100_000 // len(piece) + 1)
    for pieces in ([text], text[:30_000]):
        began = time.process_time()
        recorder = parse(pieces)
        assert time.process_time() - began < 1
        assert recorder.raw == "".join(pieces)


def test_work_at_the_close_grows_with_the_length_alone() -> None:
    """Each of these breaks off where the stream ends, and hides the next one."""
    piece = ADVERSARIES["endless values"]
    count = parser.LONGEST_BODY // len(piece)
    began = time.process_time()
    recorder = parse([piece * count])
    assert time.process_time() - began < 2
    assert recorder.notes == [Note.TRUNCATED_CALL] * count


def test_white_space_after_a_call_is_held_only_so_long() -> None:
    space = "\n" * parser.LONGEST_BODY
    call = ("call", ("lookup", '{"q":"a"}'))
    assert parse([calls("lookup"), space, calls("lookup")]).told == [call, call]
    for pieces in ([calls("lookup"), space, "\n", calls("lookup")], [calls("lookup") + space + "\n" + calls("lookup")]):
        assert parse(pieces).told == [call, ("text", space + "\n"), call]
