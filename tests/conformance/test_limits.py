"""Stop sequences and output limits, kept by the gateway itself: the upstream has no field for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.caller import CALLED, CUT, EVERY, PROTOCOLS, STOPPED, Caller, limit, tools
from tests.plugins.house import House, eventually

pytestmark = [
    pytest.mark.usefixtures("calm"),
    pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"]),
]
STOPPING = pytest.mark.parametrize("protocol", PROTOCOLS)  # Responses has no stop sequences
LIMITED = pytest.mark.parametrize("protocol", EVERY)


def stop(protocol: str, *sequences: str) -> dict[str, Any]:
    return {"stop" if protocol == "chat" else "stop_sequences": list(sequences)}


def say(text: str) -> str:
    return f"SAYTEXT {text} END"


def stopped(protocol: str, sequence: str) -> tuple[str, str | None]:
    """Finish and stop sequence as the protocol tells them."""
    return ("stop", None) if protocol == "chat" else ("stop_sequence", sequence)


@STOPPING
def test_the_answer_ends_before_the_stop_sequence(caller: Caller, protocol: str, stream: bool) -> None:
    turn = caller.ask(protocol, "sim-echo", say("one two three four"), stream=stream, **stop(protocol, "three"))
    assert turn.text == "one two "
    assert (turn.finish, turn.stop_sequence) == stopped(protocol, "three")


@STOPPING
@pytest.mark.parametrize("sequence", ["two three", "o three fo", "e two thre"])
def test_a_stop_sequence_over_several_deltas_never_leaks(
    caller: Caller, protocol: str, stream: bool, sequence: str
) -> None:
    text = "one two three four"
    turn = caller.ask(protocol, "sim-echo", say(text), stream=stream, **stop(protocol, sequence))
    assert turn.text == text[: text.index(sequence)]
    assert (turn.finish, turn.stop_sequence) == stopped(protocol, sequence)
    assert "".join(turn.pieces) == (turn.text if stream else "")


@STOPPING
def test_what_only_looks_like_a_stop_sequence_is_given_whole(caller: Caller, protocol: str, stream: bool) -> None:
    turn = caller.ask(protocol, "sim-echo", "one two three", stream=stream, **stop(protocol, "three four", "one 2"))
    assert (turn.text, turn.finish, turn.stop_sequence) == ("one two three", STOPPED[protocol], None)


@STOPPING
def test_the_first_of_several_stop_sequences_counts(caller: Caller, protocol: str, stream: bool) -> None:
    turn = caller.ask(
        protocol, "sim-echo", say("one two three"), stream=stream, **stop(protocol, "three", "two", "nine", "ten")
    )
    assert (turn.text, (turn.finish, turn.stop_sequence)) == ("one ", stopped(protocol, "two"))


@STOPPING
def test_the_upstream_stops_with_the_answer(caller: Caller, calm: House, protocol: str, stream: bool) -> None:
    turn = caller.ask(protocol, "sim-slow-5", stream=stream, **stop(protocol, "dolor"))
    assert turn.text == "lorem ipsum "
    run = calm.simulator.runs()[0]
    assert run["deltas"] < 20
    eventually(lambda: calm.slots_in_use() == 0)


@LIMITED
def test_the_output_limit_cuts_the_answer(caller: Caller, protocol: str, stream: bool) -> None:
    whole = caller.ask(protocol, "sim-lorem-50", stream=stream)
    turn = caller.ask(protocol, "sim-lorem-50", stream=stream, **limit(protocol, 10))
    assert turn.finish == CUT[protocol]
    assert whole.text.startswith(turn.text)
    assert 30 <= len(turn.text) <= 50  # ten tokens of about four and a half letters
    if not stream:
        assert turn.usage is not None
        assert turn.usage["completion_tokens" if protocol == "chat" else "output_tokens"] == 10


@LIMITED
def test_a_limit_that_is_not_reached_changes_nothing(caller: Caller, protocol: str, stream: bool) -> None:
    turn = caller.ask(protocol, "sim-echo", "one two three", stream=stream, **limit(protocol, 10))
    assert (turn.text, turn.finish) == ("one two three", STOPPED[protocol])


@LIMITED
def test_a_call_is_never_cut(caller: Caller, protocol: str, stream: bool) -> None:
    turn = caller.ask(protocol, "sim-tool", stream=stream, **limit(protocol, 1), tools=tools(protocol, "first"))
    assert (turn.arguments, turn.finish) == ([{"city": "city"}], CALLED[protocol])


@LIMITED
def test_a_limit_above_the_models_own_is_lowered_and_listed(caller: Caller, protocol: str, stream: bool) -> None:
    answer = caller.post(protocol, "sim-echo", stream=stream, **limit(protocol, 10_000_000))
    assert answer.status_code == 200
    assert answer.headers["x-poolgate-ignored"] == next(iter(limit(protocol, 1)))
