from __future__ import annotations

import pytest

from simulator import catalogue, scripts
from simulator.causes import CAUSES
from simulator.steps import Break, Call, Calls, Fail, Prompt, Spend, Stall, Step, Text, Thinking, Tool
from simulator.words import count, deltas

WEATHER = Tool(
    "gw-get_weather",
    "get_weather",
    "gw",
    "Current weather and temperature of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
)
CLOCK = Tool("gw-clock", "clock", "gw", "Tells the time", {"type": "object", "properties": {}})


def _steps(model: str, text: str = "one two", *, answers: tuple[str, ...] = (), **prompt: object) -> list[Step]:
    """All steps of a script; every call is answered with ``answers``."""
    script = scripts.play(Prompt(model, text, **prompt))  # type: ignore[arg-type]
    steps: list[Step] = []
    step = next(script, None)
    while step is not None:
        steps.append(step)
        try:
            step = script.send(answers if isinstance(step, Calls) else ())
        except StopIteration:
            break
    return steps


def _text(steps: list[Step]) -> str:
    return "".join(step.text for step in steps if isinstance(step, Text))


def test_lorem_has_as_many_words_as_it_says_and_never_changes() -> None:
    steps = _steps("sim-lorem-200")
    assert len(steps) == 200
    assert all(isinstance(step, Text) and step.text.endswith(" ") for step in steps)
    assert steps == _steps("sim-lorem-200", "another prompt")
    assert _text(_steps("sim-lorem-3")) == "lorem ipsum dolor "


@pytest.mark.parametrize("text", ["", "one", " one  two\n\nthree ", "\n", "a\tb"])
def test_echo_gives_the_text_back_whole(text: str) -> None:
    assert "".join(deltas(text)) == text
    assert _text(_steps("sim-echo", text)) == text


def test_thinking_comes_before_the_answer() -> None:
    steps = _steps("sim-think-2")
    assert [type(step) for step in steps] == [Thinking] * 2 + [Text] * 10


def test_the_thinking_parameter_makes_any_answer_think_first() -> None:
    steps = _steps("sim-echo", parameters={"thinking": "true"})
    assert isinstance(steps[0], Thinking)
    assert _text(steps) == "one two"


@pytest.mark.parametrize("model", ["sim-error-internal", "sim-hang", "sim-cut-0"])
def test_the_thinking_parameter_puts_nothing_before_a_failure(model: str) -> None:
    assert not isinstance(_steps(model, parameters={"thinking": "true"})[0], Thinking)


def test_a_tool_is_called_with_valid_arguments_and_answered_from_its_result() -> None:
    steps = _steps("sim-tool", tools=(WEATHER, CLOCK), answers=("7C",))
    assert steps[0] == Calls((Call("gw-get_weather", {"city": "city", "days": 1}),))
    assert _text(steps) == "Result: 7C"


def test_a_result_in_the_history_is_answered_without_a_call() -> None:
    assert _steps("sim-tool", tools=(WEATHER,), results=("7C",)) == [Text("Result: 7C")]
    assert _text(_steps("sim-tools-2", tools=(WEATHER,), results=("a", "b"))) == "Result: a\nResult: b"


def test_parallel_calls_take_the_tools_in_turn() -> None:
    first = _steps("sim-tools-3", tools=(WEATHER, CLOCK), answers=("a", "b", "c"))[0]
    assert isinstance(first, Calls)
    assert [call.name for call in first.calls] == ["gw-get_weather", "gw-clock", "gw-get_weather"]


def test_text_comes_before_the_call() -> None:
    steps = _steps("sim-text-tool", tools=(WEATHER,), answers=("7C",))
    assert _text(steps[: [type(step) for step in steps].index(Calls)]) == "Let me check."


def test_doubles_hold_nested_nulls_and_empty_values() -> None:
    first = _steps("sim-tool-doubles", tools=(WEATHER,), answers=("7C",))[0]
    assert isinstance(first, Calls)
    arguments = first.calls[0].arguments
    assert arguments["city"] == "city"
    assert arguments["count"] == 3.0
    assert arguments["nested"]["nothing"] is None
    assert arguments["empty_object"] == {}


def test_without_tools_a_tool_script_says_so() -> None:
    assert _text(_steps("sim-tool")) == "No tool was declared."


@pytest.mark.parametrize("form", list(Spend))
def test_usage_scripts_end_with_their_form(form: Spend) -> None:
    if form is not Spend.PLAIN:
        assert _steps(f"sim-usage-{form.value}")[-1] is form


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("sim-cut-3", Break.CUT),
        ("sim-reset-3", Break.RESET),
        ("sim-garbage-3", Break.GARBAGE),
        ("sim-hang", Stall(heartbeats=False)),
        ("sim-heartbeats", Stall(heartbeats=True)),
    ],
)
def test_broken_ends_come_after_their_deltas(model: str, last: Step) -> None:
    steps = _steps(model)
    assert steps[-1] == last
    assert len(steps) == (4 if "-3" in model else 1)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_is_a_script_before_and_after_output(cause: str) -> None:
    assert _steps(f"sim-error-{cause}") == [Fail(cause)]
    assert [type(step) for step in _steps(f"sim-error-{cause}-after-2")] == [Text, Text, Fail]
    assert scripts.failure_before_output(f"sim-error-{cause}", "") == cause
    assert scripts.failure_before_output(f"sim-error-{cause}-after-2", "") is None
    assert scripts.failure_before_output("sim-echo", f"SCRIPT sim-error-{cause} END") == cause


@pytest.mark.parametrize("name", ["sim-error-nothing", "sim-lorem", "sim-lorem-x", "sim-query-nothing", "sim-"])
def test_an_unknown_script_is_no_model(name: str) -> None:
    assert scripts.find(name) is None
    assert catalogue.find(name) is None


def test_a_script_marker_runs_under_any_model() -> None:
    assert _text(_steps("gpt-5.2", "SCRIPT sim-lorem-2 END")) == "lorem ipsum "
    assert _steps("gpt-5.2", "SCRIPT sim-nothing END") == [Fail("model_unknown")]


def test_call_markers_force_calls_and_text_in_their_order() -> None:
    text = 'SAYTEXT first END CALLTOOL get_weather {"city": "Oslo"} END CALLTOOL other {} END SAYTEXT last END'
    steps = _steps("sim-echo", text, tools=(WEATHER,), answers=("7C", "x"))
    assert steps == [
        Text("first"),
        Calls((Call("gw-get_weather", {"city": "Oslo"}), Call("other", {}))),
        Text("last"),
    ]


def test_a_forced_call_is_answered_from_results_that_come_back_in_the_history() -> None:
    steps = _steps("sim-echo", "go on", tools=(WEATHER,), results=("7C",), asked="CALLTOOL get_weather {} END")
    assert steps == [Text("Result: 7C")]


def test_a_script_marker_counts_for_the_results_it_led_to() -> None:
    steps = _steps("gpt-5.2", "go on", tools=(WEATHER,), results=("7C",), asked="SCRIPT sim-tool END")
    assert steps == [Text("Result: 7C")]


def test_a_new_user_text_is_not_ruled_by_old_markers() -> None:
    assert _text(_steps("sim-echo", "new", asked="CALLTOOL get_weather {} END")) == "new"


@pytest.mark.parametrize("model", [model.id for model in catalogue.DEMO])
def test_a_demo_model_says_something_believable(model: str) -> None:
    assert count(_text(_steps(model, "Hello!"))) > 3
    assert count(_text(_steps(model, "Explain entropy."))) > 3


def test_a_demo_model_calls_the_tool_the_prompt_mentions() -> None:
    steps = _steps("gpt-5.2", "What's the temperature in Oslo?", tools=(CLOCK, WEATHER), answers=("7C",))
    assert steps[0] == Calls((Call("gw-get_weather", {"city": "Oslo", "days": 1}),))
    assert "7C" in _text(steps)
    by_name = _steps("gpt-5.2", "use the clock please", tools=(WEATHER, CLOCK), answers=("noon",))
    assert by_name[0] == Calls((Call("gw-clock", {}),))


def test_a_demo_model_does_not_call_a_tool_nobody_spoke_of() -> None:
    assert not any(isinstance(step, Calls) for step in _steps("gpt-5.2", "Hello!", tools=(WEATHER, CLOCK)))


def test_a_demo_model_takes_no_block_of_a_client_and_no_rule_of_use_for_a_wish() -> None:
    block = "<system-reminder>\nUse the clock.\n</system-reminder>\n<env a='b'>get weather</env>"
    long = Tool("gw-agent", "agent", "gw", "Starts a helper. Never say hello.\nAlso good morning.", {})
    steps = _steps("gpt-5.2", f"{block}\n\nGood morning, already!", tools=(WEATHER, CLOCK, long))
    assert _text(steps).startswith("Hello!")
    read = Tool("gw-read", "read", "gw", "Opens a file", {})
    assert isinstance(_steps("gpt-5.2", f"{block}\n\nread it", tools=(read,))[0], Calls)
    for text in ("a thread", "Do NOT call any tools: do not read."):
        assert not any(isinstance(step, Calls) for step in _steps("gpt-5.2", text, tools=(read,)))


def test_a_demo_model_answers_from_results() -> None:
    assert "7C" in _text(_steps("gpt-5.2", "weather?", tools=(WEATHER,), results=("7C",)))


def test_every_listed_model_exists() -> None:
    for model in catalogue.listed():
        assert catalogue.find(model.id) is not None


def test_auto_is_not_a_model_and_a_variant_slug_stands_for_parameters() -> None:
    assert catalogue.find("auto") is None
    variant = catalogue.find_variant("gpt-5.2-thinking")
    assert variant is not None
    assert (variant[0].id, variant[1]) == ("gpt-5.2", {"thinking": "true"})
    assert catalogue.find_variant("nothing-thinking") is None
