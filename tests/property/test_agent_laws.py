"""Laws of the Agent RPC client: whatever a server says and wherever the network cuts it, events stay legal."""

from __future__ import annotations

import gzip
import itertools
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.agent.client import Turn
from gateway.wire import connect
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartDelta, PartKind, PartStart, Unified
from ir.grammar import Checker
from ir.request import ToolResult
from ir.response import fold
from protobufs import agent_v1_pb2 as pb
from tests.strategies import json_objects
from tests.unit.gateway.protocols import agent_server as server

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["<|eos|>", "<", "|>", "<|e"])
call_ids = st.sampled_from(["call_1", "call_2", "call_3\nfc_3", "call_4"])

harmless = st.sampled_from(
    [
        server.heartbeat(),
        server.announced(),
        server.ask(request_context_args=pb.RequestContextArgs()),
        server.query(web_search_request_query=pb.Empty()),
        server.say(pb.AgentServerMessage(conversation_checkpoint_update=pb.ConversationStateStructure(mode=1))),
        server.say(pb.AgentServerMessage(kv_server_message=pb.KvServerMessage(id=3, get_blob_args=pb.GetBlobArgs()))),
        connect.encode(b""),
    ]
)
spoken = words.map(server.text) | words.map(server.thinking) | harmless
called = st.builds(server.call, call_ids, st.sampled_from(["get_weather", "clock"]), json_objects)
refused = st.sampled_from(
    [server.ask(shell_args=pb.ShellArgs(command="ls")), server.ask(number=9), server.call("c", "unheard_of")]
)
endings = st.sampled_from(
    [
        server.turn_ended(input_tokens=9, output_tokens=3) + server.END,
        server.turn_ended() + server.END,
        server.END,
        connect.encode_end({"code": "unavailable"}),
        connect.encode(b"\xff"),
        b"",
    ]
)
scripts = st.tuples(st.lists(spoken | called | refused, max_size=10), endings).map(lambda one: [*one[0], one[1]])


def play(turn: Turn, pieces: Sequence[bytes], *, quiet: bool = False) -> tuple[list[Event], Fault | None]:
    """As the driver does it: events, then the fault that ended them, if one did."""
    events: list[Event] = []
    try:
        for piece in pieces:
            events += turn.feed(piece)
            if turn.fault is not None:
                raise turn.fault
            if turn.finished:
                return events, None
        events += turn.quiet() if quiet else turn.close()
    except Fault as fault:
        return events, fault
    return events, None


def slices(data: bytes, places: Sequence[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(borders)]


@given(st.lists(st.tuples(scripts, st.lists(spoken | called, max_size=3)), max_size=3))
def test_every_answer_of_a_run_that_is_kept_open_is_legal_by_itself(
    rounds: list[tuple[list[bytes], list[bytes]]],
) -> None:
    _, turn = server.opened()
    for script, meanwhile in rounds:
        events, fault = play(turn, script[:-1], quiet=True)
        if fault is not None or not turn.calls:
            return
        checker = Checker()
        for event in events:
            checker.see(event)
        shown = {part.call_id for part in fold(events).of(PartKind.TOOL_CALL)}
        turn.outgoing()
        turn.reopen()
        try:
            unasked = [event for data in meanwhile for event in turn.feed(data)]
        except Fault:
            return
        if unasked:
            return
        turn.outgoing()
        turn.answer([ToolResult(one, "r") for one in shown])
        assert len(turn.outgoing()) >= len(shown)


@given(scripts, st.booleans(), st.none() | st.booleans())
def test_events_are_legal_whatever_the_server_says(script: list[bytes], quiet: bool, parallel: bool | None) -> None:
    _, turn = server.opened(parallel_tool_calls=parallel)
    events, fault = play(turn, script, quiet=quiet)
    checker = Checker()
    for event in events:
        checker.see(event)
    assert checker.done is turn.finished
    if fault is None and not quiet:
        assert checker.done
    if checker.done:
        answer = fold(events)
        calls = answer.of(PartKind.TOOL_CALL)
        assert (answer.finish.unified is Unified.TOOL_CALLS) is bool(calls)
        assert len({call.call_id for call in calls}) == len(calls)
        assert parallel is not False or len(calls) <= 1
    assert all(event.text for event in events if isinstance(event, PartDelta))


@given(scripts, st.lists(st.integers(0, 10_000), max_size=10))
def test_slicing_changes_neither_events_nor_answers_nor_fault(script: list[bytes], places: list[int]) -> None:
    data = b"".join(script)
    _, whole = server.opened()
    _, sliced = server.opened()
    expected, fault = play(whole, [data])
    events, other = play(sliced, slices(data, places))
    assert events == expected
    assert repr(other) == repr(fault)
    assert sliced.outgoing() == whole.outgoing()


@given(st.lists(spoken, max_size=6))
def test_a_text_is_what_was_said_without_control_tokens(script: list[bytes]) -> None:
    said = {"text_delta": "", "thinking_delta": ""}
    for frame in script:
        update = pb.AgentServerMessage.FromString(frame[5:]).interaction_update
        for kind in said:
            said[kind] += getattr(update, kind).text
    _, turn = server.opened()
    events, fault = play(turn, [*script, server.turn_ended(), server.END])
    if fault is not None:
        assert fault.reason is Reason.EMPTY
        return
    answer = fold(events)
    assert "".join(part.text for part in answer.of(PartKind.REASONING)) == said["thinking_delta"]
    text = "".join(part.text for part in answer.of(PartKind.TEXT))
    if "<|" not in said["text_delta"].replace("<|eos|>", ""):
        assert text == said["text_delta"].replace("<|eos|>", "")


WHOLE = (
    server.thinking("hm")
    + server.text("Hello <|eos|>")
    + struct.pack(">BI", 1, len(packed := gzip.compress(server.text("world")[5:])))
    + packed
    + server.call("call_1", arguments={"city": "Oslo"})
    + server.turn_ended(input_tokens=4, output_tokens=2)
    + server.END
)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_a_turn_cut_off_at_any_byte_is_a_fault_and_never_a_success(size: int) -> None:
    _, turn = server.opened()
    events, fault = play(turn, [WHOLE[:size]])
    assert fault is not None
    assert fault.reason is Reason.CUT
    started = any(isinstance(event, PartStart) for event in events)
    assert (fault.stage is Stage.PREAMBLE) is not started
    checker = Checker()
    for event in events:
        checker.see(event)
    assert not checker.done


def test_the_turn_that_is_cut_is_a_success_when_it_is_whole() -> None:
    _, turn = server.opened()
    events, fault = play(turn, [WHOLE])
    assert fault is None
    assert [(part.kind.value, part.text) for part in fold(events).parts] == [
        ("reasoning", "hm"), ("text", "Hello world"), ("tool_call", '{"city":"Oslo"}'),
    ]  # fmt: skip


@given(st.lists(st.binary(max_size=40).map(connect.encode) | st.binary(max_size=20), max_size=5))
def test_any_bytes_end_in_events_or_a_fault(pieces: list[bytes]) -> None:
    _, turn = server.opened()
    events, fault = play(turn, pieces)
    assert fault is not None or turn.finished
    checker = Checker()
    for event in events:
        checker.see(event)


def test_every_question_gets_exactly_one_answer_with_its_id() -> None:
    _, turn = server.opened()
    questions: list[dict[str, Any]] = [
        {"request_context_args": pb.RequestContextArgs()},
        {"ls_args": pb.LsArgs(path="a")},
        {"read_args": pb.ReadArgs(path="a")},
    ]
    turn.feed(b"".join(server.ask(f"e{index}", index + 1, **question) for index, question in enumerate(questions)))
    replies = [one.exec_client_message for one in server.answered(turn)]
    assert [(one.id, one.exec_id) for one in replies] == [(1, "e0"), (2, "e1"), (3, "e2")]
    assert turn.outgoing() == []
