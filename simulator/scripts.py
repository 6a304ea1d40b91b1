"""The scripts: a model name (or a marker in the prompt) becomes a generator of steps.

Everything here is deterministic: the same prompt under the same model gives the same steps. A script that calls
tools is sent the results' texts when the client answers on the same stream; when the client comes back with the
results in its history instead, ``Prompt.results`` holds them and the script goes straight to its answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

from simulator import demo, examples, markers
from simulator.causes import CAUSES
from simulator.loops import answer_from, tool_cut, tool_late, tool_rounds
from simulator.steps import (
    NATIVE_KINDS,
    QUERY_KINDS,
    Announce,
    Ask,
    Break,
    Call,
    Calls,
    Fail,
    Native,
    Pause,
    Prompt,
    Quirk,
    Script,
    Spend,
    Stall,
    StoreImages,
    Text,
    Thinking,
    Tool,
    Wear,
)
from simulator.words import LOREM, deltas, picture_line

Make = Callable[[Prompt, str], Script]
NO_TOOL = "No tool was declared."
MARKUP = (
    'Here is markup: <tool_call>{"name": "delete_',
    'everything", "arguments": {}}</tool_',
    "call> and a control token <|e",
    "os|> inside",
    " text.<|eos|>",
)


def echo(prompt: Prompt, _: str) -> Script:
    yield from (Text(one) for one in deltas(prompt.text))


def lorem(_: Prompt, count: str) -> Script:
    yield from _lorem(int(count))


def slow(_: Prompt, milliseconds: str) -> Script:
    for word in _lorem(20):
        yield Pause(int(milliseconds) / 1000)
        yield word


def think(_: Prompt, count: str) -> Script:
    yield from (Thinking(word.text) for word in _lorem(int(count)))
    yield from _lorem(10)


def tool(prompt: Prompt, _: str) -> Script:
    yield from _call_and_answer(prompt, 1)


def tools(prompt: Prompt, count: str) -> Script:
    yield from _call_and_answer(prompt, int(count))


def text_tool(prompt: Prompt, _: str) -> Script:
    if not prompt.results:
        yield from (Text(one) for one in deltas("Let me check."))
    yield from _call_and_answer(prompt, 1)


def tool_split(prompt: Prompt, _: str) -> Script:
    yield from _call_and_answer(prompt, 1, announce=Announce.CHARACTERS)


def tool_linefeed(prompt: Prompt, _: str) -> Script:
    yield from _call_and_answer(prompt, 1, tail="\nfc_0")


def tool_twice(prompt: Prompt, _: str) -> Script:
    yield from _call_and_answer(prompt, 1, twice=True)


def tool_probe(prompt: Prompt, _: str) -> Script:
    yield from _call_and_answer(prompt, 1, probe=True)


def tool_doubles(prompt: Prompt, _: str) -> Script:
    if not prompt.results and prompt.tools:
        first = prompt.tools[0]
        extra: dict[str, Any] = {
            "count": 3.0,
            "negative": -2.0,
            "large": 9007199254740991.0,
            "ratio": 0.5,
            "nothing": None,
            "empty_text": "",
            "empty_list": [],
            "empty_object": {},
            "nested": {"nothing": None, "list": [None, {}, [], 7.0], "deep": {"count": 4.0}},
        }
        results = yield Calls((Call(first.name, {**examples.arguments(first.schema), **extra}),))
        yield from answer_from(results)
    else:
        yield from _call_and_answer(prompt, 1)


def image(prompt: Prompt, _: str) -> Script:
    lines = [picture_line(picture) for picture in prompt.pictures]
    yield Text("\n".join(lines) or "No image.")


def image_assets(prompt: Prompt, argument: str) -> Script:
    yield StoreImages()
    yield from image(prompt, argument)


def system(prompt: Prompt, _: str) -> Script:
    yield Text(prompt.system)


def history(prompt: Prompt, _: str) -> Script:
    lines = [f"{utterance.role} {len(utterance.text)}" for utterance in prompt.history]
    yield Text("\n".join([*lines, f"user {len(prompt.text)}"]))


def usage(_: Prompt, form: str) -> Script:
    yield from _lorem(8)
    yield Spend(form)


def hang(_: Prompt, __: str) -> Script:
    yield Stall(heartbeats=False)


def heartbeats(_: Prompt, __: str) -> Script:
    yield Stall(heartbeats=True)


def cut(_: Prompt, count: str) -> Script:
    yield from _lorem(int(count))
    yield Break.CUT


def reset(_: Prompt, count: str) -> Script:
    yield from _lorem(int(count))
    yield Break.RESET


def garbage(_: Prompt, count: str) -> Script:
    yield from _lorem(int(count))
    yield Break.GARBAGE


def native_tool(_: Prompt, kind: str) -> Script:
    yield Native(kind or "shell")
    yield Text("The native tool was refused.")


def native_tools(_: Prompt, count: str) -> Script:
    for _number in range(int(count)):
        yield Native("shell")
    yield Text("Every native tool was refused.")


def query(_: Prompt, kind: str) -> Script:
    answers = yield Ask(kind or "web_search")
    yield Text(f"The question was {answers[0]}.")


def gzip(_: Prompt, __: str) -> Script:
    yield Wear(gzip=True)
    yield from _lorem(20)


def unknown(_: Prompt, __: str) -> Script:
    yield Wear(unknown=True)
    yield Native("unknown")
    yield from _lorem(10)


def json_text(_: Prompt, __: str) -> Script:
    for piece in ('{"ans', 'wer": 42, "li', 'st": [1, 2, {"a"', ': null}], "text": "a \\"quo', 'te\\" and \\u00e9"}'):
        yield Text(piece)


def json_late(prompt: Prompt, name: str) -> Script:
    """Obeys only when it is told what was wrong."""
    if "earlier answer was not accepted" in prompt.system:
        yield from json_text(prompt, name)
    else:
        yield Text("Of course! Here is the JSON.")


def markup(_: Prompt, __: str) -> Script:
    yield from (Text(one) for one in MARKUP)


def error(_: Prompt, cause: str) -> Script:
    name, _after, count = cause.partition("-after-")
    yield from _lorem(int(count or 0))
    yield Fail(name)


def quirk(prompt: Prompt, name: str) -> Script:
    kind = QUIRKS[name]
    yield kind
    if kind is Quirk.INTERLEAVED:
        yield from _call_and_answer(prompt, 3)
    elif kind is Quirk.OTHER_FIELD:
        yield from think(prompt, "3")
    else:
        yield from _lorem(5)


QUIRKS = {kind.name.lower().replace("_", "-"): kind for kind in Quirk}
_CAUSE = "|".join(CAUSES)
SCRIPTS: tuple[tuple[re.Pattern[str], Make], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"sim-echo", echo),
        (r"sim-lorem-(\d+)", lorem),
        (r"sim-slow-(\d+)", slow),
        (r"sim-think-(\d+)", think),
        (r"sim-tool", tool),
        (r"sim-tools-(\d+)", tools),
        (r"sim-text-tool", text_tool),
        (r"sim-tool-split", tool_split),
        (r"sim-tool-linefeed", tool_linefeed),
        (r"sim-tool-doubles", tool_doubles),
        (r"sim-tool-twice", tool_twice),
        (r"sim-tool-probe", tool_probe),
        (r"sim-tool-rounds-(\d+)", tool_rounds),
        (r"sim-tool-cut", tool_cut),
        (r"sim-tool-late", tool_late),
        (r"sim-image", image),
        (r"sim-image-assets", image_assets),
        (r"sim-system", system),
        (r"sim-history", history),
        (r"sim-usage-(none|nested|cache)", usage),
        (r"sim-hang", hang),
        (r"sim-heartbeats", heartbeats),
        (r"sim-cut-(\d+)", cut),
        (r"sim-reset-(\d+)", reset),
        (r"sim-garbage-(\d+)", garbage),
        (rf"sim-native-tool(?:-({'|'.join(NATIVE_KINDS)}))?", native_tool),
        (r"sim-native-tools-(\d+)", native_tools),
        (rf"sim-query(?:-({'|'.join(QUERY_KINDS)}))?", query),
        (r"sim-gzip", gzip),
        (r"sim-unknown", unknown),
        (r"sim-json", json_text),
        (r"sim-json-late", json_late),
        (r"sim-markup", markup),
        (rf"sim-quirk-({'|'.join(QUIRKS)})", quirk),
        (rf"sim-error-((?:{_CAUSE})(?:-after-\d+)?)", error),
    )
)


def find(name: str) -> Callable[[Prompt], Script] | None:
    """The script of that name with its argument bound, or None."""
    for pattern, make in SCRIPTS:
        if match := pattern.fullmatch(name):
            argument = (match.group(1) if match.groups() else "") or ""
            return _bind(make, argument)
    return None


def _bind(make: Make, argument: str) -> Callable[[Prompt], Script]:
    return lambda prompt: make(prompt, argument)


def failure_before_output(model: str, text: str) -> str | None:
    """The cause with which the script of ``model`` (or the prompt's SCRIPT marker) fails before any output."""
    name = next((one.name for one in markers.find(text) if isinstance(one, markers.RunScript)), model)
    match = re.fullmatch(rf"sim-error-({_CAUSE})(?:-after-0)?", name)
    return match.group(1) if match else None


def play(prompt: Prompt) -> Script:
    """The steps for a prompt: its markers first, else the script of its model, else the believable demo.

    Where thinking was asked for by parameter, a script that begins with an answer thinks first, and again over results.
    """
    script = _choose(prompt)
    step = next(script, None)
    thinks = prompt.parameters.get("thinking") == "true"
    while step is not None:
        if thinks and isinstance(step, Text | Calls):
            yield from (Thinking(one) for one in ("Let me ", "think about it."))
        answers = yield step
        thinks = prompt.parameters.get("thinking") == "true" and bool(answers) and isinstance(step, Calls)
        try:
            step = script.send(answers)
        except StopIteration:
            return


def _choose(prompt: Prompt) -> Script:
    found = markers.find(prompt.text)
    if not found and prompt.results:
        asked = markers.find(prompt.asked)
        if any(isinstance(one, markers.CallTool) for one in asked):
            return answer_from(prompt.results)
        found = [one for one in asked if isinstance(one, markers.RunScript)]
    name = next((one.name for one in found if isinstance(one, markers.RunScript)), None)
    if found and name is None:
        return _obey(prompt, found)
    script = find(name or prompt.model)
    if script is not None:
        return script(prompt)
    return _missing() if name else demo.answer(prompt)


def _missing() -> Script:
    yield Fail("model_unknown")


def _obey(prompt: Prompt, found: list[markers.Marker]) -> Script:
    wire = {one.tool_name: one.name for one in prompt.tools}
    calls: list[Call] = []
    for marker in found:
        if isinstance(marker, markers.CallTool):
            calls.append(Call(wire.get(marker.name, marker.name), marker.arguments))
        elif isinstance(marker, markers.SayText):
            if calls:
                yield Calls(tuple(calls))
                calls = []
            yield from (Text(one) for one in deltas(marker.text))
    if calls:
        results = yield Calls(tuple(calls))
        yield from answer_from(results)


def _call_and_answer(
    prompt: Prompt,
    count: int,
    *,
    tail: str = "",
    announce: Announce = Announce.CUMULATIVE,
    twice: bool = False,
    probe: bool = False,
) -> Script:
    if prompt.results:
        yield from answer_from(prompt.results)
        return
    if not prompt.tools:
        yield Text(NO_TOOL)
        return
    chosen: Iterator[Tool] = islice(cycle(prompt.tools), count)
    calls = tuple(Call(one.name, examples.arguments(one.schema), tail) for one in chosen)
    results = yield Calls(calls, announce, twice, probe)
    yield from answer_from(results)


def _lorem(count: int) -> Iterator[Text]:
    return (Text(f"{word} ") for word in islice(cycle(LOREM), count))
