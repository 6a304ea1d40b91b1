from __future__ import annotations

import re

import pytest

from gateway.contracts import Policy
from gateway.upstreams.speech import Speech
from ir.events import Event, FinishReason, PartKind, Unified
from ir.request import Thinking, ToolChoice, ToolMode
from ir.response import Response, fold
from ir.usage import Usage
from tests.unit.gateway.textbridge.answers import ask, calls

END = FinishReason(Unified.STOP)


def hear(speech: Speech, text: str) -> tuple[Response, bool]:
    """What the text makes, and whether the upstream was heard out; ``T`` stands for the trigger."""
    found = re.search(r"<<CALL_[0-9a-f]{8}>>", speech.told.system)
    events: list[Event] = speech.feed([(PartKind.TEXT, text.replace("T", found[0] if found else "T"))])
    heard_out = not speech.done
    return fold([*events, *speech.close(END, Usage())]), heard_out


@pytest.mark.parametrize(("stops", "text"), [(True, ""), (False, "Bye"), (None, "Bye")])
def test_whether_text_after_a_call_is_heard_out_is_the_keys_choice(stops: bool | None, text: str) -> None:
    speech = Speech(ask(), Policy(stop_after_calls=stops))
    response, heard_out = hear(speech, f"{calls('lookup', trigger='T')}\nBye")
    assert "".join(part.text for part in response.of(PartKind.TEXT)).strip() == text
    assert heard_out is (stops is not True)


def test_after_a_demanded_call_text_is_not_heard_out_unless_the_key_says_so() -> None:
    request = ask(choice=ToolChoice(ToolMode.REQUIRED))
    for stops, heard in ((None, False), (False, True)):
        _, heard_out = hear(Speech(request, Policy(stop_after_calls=stops)), f"{calls('lookup', trigger='T')}\nBye")
        assert heard_out is heard


def test_a_kilo_keys_prompt_demands_a_call() -> None:
    assert "You must call" in Speech(ask(), Policy(kilo_tool_strict=True)).told.system
    assert "You must call" not in Speech(ask()).told.system


@pytest.mark.parametrize("shown", [True, False])
def test_thinking_that_breaks_off_is_an_answer_only_where_thinking_is_not_shown(shown: bool) -> None:
    speech = Speech(ask(tools=(), thinking=Thinking(visible=shown)), thinking=True)
    response, _ = hear(speech, "<thinking>so far")
    assert bool(response.of(PartKind.TEXT)) is not shown
