"""Scripts of tool loops that go on, or break, on one stream."""

from __future__ import annotations

from simulator import examples
from simulator.steps import Break, Call, Calls, Pause, Prompt, Script, Text

LATE = 1.5  # seconds, beyond any window in which calls are gathered


def tool_rounds(prompt: Prompt, count: str) -> Script:
    """Round after round of one call, each with a word before it, and an answer from the last result."""
    asked = [place for place, one in enumerate(prompt.history) if one.role == "user"]
    done = sum(one.role == "tool" for one in prompt.history[asked[-1] :]) if prompt.results else 0
    results = prompt.results
    for number in range(done, int(count)):
        first = prompt.tools[number % len(prompt.tools)]
        yield Text(f"Round {number + 1}.")
        results = yield Calls((Call(first.name, examples.arguments(first.schema)),))
    yield from answer_from(results)


def tool_cut(prompt: Prompt, _: str) -> Script:
    """The stream breaks while the result is waited for."""
    if not prompt.results and prompt.tools:
        yield Calls((Call(prompt.tools[0].name, examples.arguments(prompt.tools[0].schema)),), wait=False)
        yield Pause(LATE)
        yield Break.CUT
    yield from answer_from(prompt.results)


def tool_late(prompt: Prompt, _: str) -> Script:
    """A parallel call that comes long after the first."""
    if not prompt.results and prompt.tools:
        arguments = examples.arguments(prompt.tools[0].schema)
        yield Calls((Call(prompt.tools[0].name, arguments),), wait=False)
        yield Pause(LATE)
        yield Calls((Call(prompt.tools[-1].name, arguments),))
    yield from answer_from(prompt.results)


def answer_from(results: tuple[str, ...]) -> Script:
    yield Text("\n".join(f"Result: {result}" for result in results))
