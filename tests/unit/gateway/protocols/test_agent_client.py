from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from gateway.protocols.agent import answers
from gateway.protocols.agent.client import NATIVE_REJECTIONS, Turn, read_usage
from gateway.wire import connect
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartKind, Unified
from ir.request import Image, Message, Text, ToolCall, ToolResult
from ir.response import Response, fold
from ir.usage import Usage
from protobufs import agent_v1_pb2 as pb
from tests.unit.gateway.protocols.agent_server import (
    END,
    announced,
    answered,
    ask,
    call,
    heartbeat,
    opened,
    query,
    say,
    text,
    thinking,
    turn_ended,
)


def frames(*hexes: str) -> bytes:
    return b"".join(connect.encode(bytes.fromhex(one)) for one in hexes)


def run_whole(*pieces: bytes, **more: Any) -> Response:
    _, turn = opened(**more)
    events: list[Event] = []
    for piece in pieces:
        events += turn.feed(piece)
    return fold(events)


def fault_of(turn: Turn, *pieces: bytes) -> tuple[Fault, list[Event]]:
    """The fault that ``pieces`` lead to, and what was delivered before it."""
    events: list[Event] = []
    try:
        for piece in pieces:
            events += turn.feed(piece)
        turn.close()
    except Fault as fault:
        return fault, events
    raise AssertionError("no fault")


# The vectors of the protocol's notes, to the byte.


def test_vector_request_context() -> None:
    _, turn = opened(tools=())
    assert turn.feed(frames("1208080152007a026531")) == []
    assert [one.hex() for one in turn.outgoing()] == ["12150801520d0a0b0a0922070a056c696e75787a026531"]


def test_vector_kv_get_and_set() -> None:
    _, turn = opened(system="Be brief.", tools=())
    get = "2226080112220a20e57d1ef21a87af392778b05a6fd54e4a3a1d173b56c411c9b997cf1a45fa7dc1"
    kept = "222908021a250a202d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881120178"
    turn.feed(frames(get, kept))
    assert [one.hex() for one in turn.outgoing()] == [
        "1a2d080112290a277b22726f6c65223a2273797374656d222c22636f6e74656e74223a2242652062726965662e227d",
        "1a0408021a00",
    ]


def test_vector_a_whole_turn() -> None:
    _, turn = opened(tools=())
    events = turn.feed(frames("0a0622040a02686d", "0a026a00", "0a050a030a0134", "0a08720608781008181e"))
    events += turn.feed(bytes.fromhex("02000000027b7d"))
    answer = fold(events)
    assert [(part.kind, part.text) for part in answer.parts] == [(PartKind.REASONING, "hm"), (PartKind.TEXT, "4")]
    assert answer.finish.unified is Unified.STOP
    assert answer.usage == Usage(input_uncached=90, output=8, cache_read=30)
    assert turn.close() == []


def test_vector_mcp_args() -> None:
    wire = (
        "125408035a4c0a0e67772d6765745f77656174686572120e0a046369747912061a044f736c6f12110a0464617973120911000000000000084"
        "01a0663616c6c5f31220267772a0b6765745f776561746865727a026533"
    )
    _, turn = opened()
    answer = fold(turn.feed(frames(wire)) + turn.quiet())
    (part,) = answer.parts
    assert (part.call_id, part.name, part.text) == ("call_1", "get_weather", '{"city":"Oslo","days":3}')
    assert answer.finish.unified is Unified.TOOL_CALLS


def test_vector_throw_and_heartbeat() -> None:
    _, turn = opened()
    turn.feed(ask(exec_id="", number=4))
    assert turn.outgoing()[0].hex() == "2a1312110804120d6e6f7420737570706f72746564"
    assert answers.heartbeat().hex() == "3a00"


# Text, thinking and the end.


def test_deltas_of_one_kind_are_one_part() -> None:
    answer = run_whole(thinking("a"), thinking("b"), text("c"), text("d"), thinking("e"), turn_ended(), END)
    assert [(part.kind.value, part.text) for part in answer.parts] == [
        ("reasoning", "ab"), ("text", "cd"), ("reasoning", "e"),
    ]  # fmt: skip


def test_empty_deltas_and_server_notices_are_not_output() -> None:
    notice = say(
        pb.AgentServerMessage(
            interaction_update=pb.InteractionUpdate(
                text_delta=pb.TextDeltaUpdate(text="You were moved to Auto", is_server_notice=True)
            )
        )
    )
    answer = run_whole(text(""), thinking(""), notice, text("x"), turn_ended(), END)
    assert [part.text for part in answer.parts] == ["x"]


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["a<|eos|>b"], "ab"),
        (["a<|e", "os", "|>", "b"], "ab"),
        (["<", "|", "i", "m", "_end|", ">"], ""),
        (["a <| b"], "a <| b"),
        (["a <", "b> c"], "a <b> c"),
        (["x<|eo", "x"], "x<|eox"),
        (["ends with <|en"], "ends with <|en"),
        (["<|eos|><|eos|>", "y<"], "y<"),
        (["<tool_call>{}</tool_call>"], "<tool_call>{}</tool_call>"),
    ],
)
def test_control_tokens_are_taken_out_over_any_border(pieces: list[str], whole: str) -> None:
    answer = run_whole(thinking("t"), *map(text, pieces), turn_ended(), END)
    assert "".join(part.text for part in answer.of(PartKind.TEXT)) == whole


def test_text_that_was_held_back_comes_out_before_a_call() -> None:
    _, turn = opened()
    answer = fold(turn.feed(text("<") + call("c1")) + turn.quiet())
    assert [(part.kind.value, part.text) for part in answer.parts] == [("text", "<"), ("tool_call", "{}")]


def test_an_end_without_turn_ended_is_a_cut() -> None:
    _, turn = opened()
    fault, events = fault_of(turn, text("a"), END)
    assert (fault.reason, fault.stage, len(events)) == (Reason.CUT, Stage.CONTENT, 3)


@pytest.mark.parametrize(
    ("pieces", "stage"),
    [
        ([], Stage.PREAMBLE),
        ([heartbeat()], Stage.PREAMBLE),
        ([thinking("a")], Stage.CONTENT),
        ([text("a")], Stage.CONTENT),
        ([text("a"), call("c1")], Stage.CONTENT),
        ([announced()], Stage.PREAMBLE),
        ([text("a"), turn_ended()], Stage.END),
    ],
)
def test_a_connection_that_ends_early_is_a_cut_at_its_stage(pieces: list[bytes], stage: Stage) -> None:
    _, turn = opened()
    fault, _ = fault_of(turn, *pieces)
    assert (fault.reason, fault.stage) == (Reason.CUT, stage)


def test_silence_after_turn_ended_is_an_end() -> None:
    _, turn = opened()
    events = turn.feed(text("a") + turn_ended(output_tokens=1))
    assert turn.ended
    assert not turn.finished
    assert fold(events + turn.quiet()).usage.output == 1
    assert turn.close() == []


def test_silence_before_anything_ended_is_nothing() -> None:
    _, turn = opened()
    turn.feed(text("a"))
    assert turn.quiet() == []


def test_a_checkpoint_after_turn_ended_is_taken_and_its_blobs_are_acknowledged() -> None:
    _, turn = opened()
    checkpoint = say(pb.AgentServerMessage(conversation_checkpoint_update=pb.ConversationStateStructure(mode=1)))
    kept = say(
        pb.AgentServerMessage(
            kv_server_message=pb.KvServerMessage(id=9, set_blob_args=pb.SetBlobArgs(blob_id=b"k", blob_data=b"v"))
        )
    )
    events = turn.feed(text("a") + turn_ended() + kept + checkpoint)
    assert [one.kv_client_message.id for one in answered(turn)] == [9]
    assert fold(events + turn.feed(END)).parts[0].text == "a"


@pytest.mark.parametrize("pieces", [[], [text("")], [text("<|eos|>")], [heartbeat()]])
def test_an_empty_turn_is_a_fault(pieces: list[bytes]) -> None:
    _, turn = opened()
    fault, events = fault_of(turn, *pieces, turn_ended(), END)
    assert (fault.reason, events) == (Reason.EMPTY, [])


def test_an_error_before_output_is_classified() -> None:
    _, turn = opened()
    fault, events = fault_of(turn, connect.encode_end({"code": "resource_exhausted", "message": "Error"}))
    assert (fault.reason, fault.stage, events) == (Reason.EXHAUSTED, Stage.PREAMBLE, [])


def test_output_in_the_same_read_as_an_error_is_delivered_first() -> None:
    _, turn = opened()
    events = turn.feed(text("a") + connect.encode_end({"code": "unavailable"}))
    assert len(events) == 3
    assert turn.fault is not None
    steps: list[Callable[[], list[Event]]] = [lambda: turn.feed(b""), turn.quiet, turn.close]
    for step in steps:
        with pytest.raises(Fault) as caught:
            step()
        assert (caught.value.reason, caught.value.stage) == (Reason.CAPACITY, Stage.CONTENT)


def test_a_retry_hint_of_the_headers_reaches_the_fault() -> None:
    _, turn = opened()
    turn.announce({"retry-after": "7"})
    fault, _ = fault_of(turn, connect.encode_end({"code": "resource_exhausted"}))
    assert fault.retry_after == 7


@pytest.mark.parametrize("garbage", [connect.encode(b"\xff\xff"), b"\x80\0\0\0\0", b"\0\xff\xff\xff\xff"])
def test_an_undecodable_frame_is_a_protocol_fault(garbage: bytes) -> None:
    _, turn = opened()
    fault, events = fault_of(turn, text("a") + garbage)
    assert (fault.reason, fault.stage, len(events)) == (Reason.PROTOCOL, Stage.CONTENT, 3)


def test_unknown_fields_and_members_are_skipped() -> None:
    strange = connect.encode(bytes.fromhex("9a060161")) + connect.encode(bytes.fromhex("0a06fa3e03616263"))
    assert run_whole(strange, text("a"), strange, turn_ended(), END).parts[0].text == "a"


# Tool calls.


def test_parallel_calls_are_collected_until_it_is_quiet() -> None:
    _, turn = opened()
    events = turn.feed(text("Let me look.") + announced() + call("c1", arguments={"city": "Oslo"}, exec_id="e1"))
    assert (turn.calls, turn.finished) == (1, False)
    events += turn.feed(heartbeat())
    events += turn.feed(call("c2", "clock", exec_id="e2"))
    answer = fold(events + turn.quiet())
    assert [(part.name, part.text, part.call_id) for part in answer.of(PartKind.TOOL_CALL)] == [
        ("get_weather", '{"city":"Oslo"}', "c1"), ("clock", "{}", "c2"),
    ]  # fmt: skip
    assert answer.finish.unified is Unified.TOOL_CALLS
    assert answer.usage == Usage()
    assert turn.outgoing() == []


def test_a_turn_that_ends_by_itself_after_calls_is_a_tool_call_turn_with_usage() -> None:
    answer = run_whole(call("c1"), text("done"), turn_ended(input_tokens=5, output_tokens=2), END)
    assert answer.finish.unified is Unified.TOOL_CALLS
    assert answer.usage.output == 2
    assert [part.kind for part in answer.parts] == [PartKind.TOOL_CALL, PartKind.TEXT]


def test_without_parallel_calls_the_first_one_ends_the_turn() -> None:
    _, turn = opened(parallel_tool_calls=False)
    events = turn.feed(call("c1") + call("c2", exec_id="e2"))
    assert turn.finished
    assert [part.call_id for part in fold(events).parts] == ["c1"]
    assert turn.feed(call("c3") + END) == []


def test_an_announcement_alone_is_never_a_call() -> None:
    partial = say(
        pb.AgentServerMessage(
            interaction_update=pb.InteractionUpdate(
                partial_tool_call=pb.PartialToolCallUpdate(call_id="c", args_text_delta='{"city"')
            )
        )
    )
    answer = run_whole(text("a"), announced(), partial, turn_ended(), END)
    assert [part.kind for part in answer.parts] == [PartKind.TEXT]


def test_a_permission_probe_is_approved_and_is_no_call() -> None:
    _, turn = opened()
    assert turn.feed(call("c1", exec_id="e7", smart_mode_approval_only=True)) == []
    (reply,) = answered(turn)
    assert reply.exec_client_message.mcp_result.WhichOneof("result") == "approved"
    assert (reply.exec_client_message.id, reply.exec_client_message.exec_id) == (1, "e7")
    assert turn.calls == 0


def test_the_same_call_twice_is_one_call() -> None:
    _, turn = opened()
    events = turn.feed(call("c1", arguments={"a": 1.0, "b": 2}) + call("c1", arguments={"b": 2.0, "a": 1}))
    assert len(fold(events + turn.quiet()).parts) == 1


@pytest.mark.parametrize("other", [{"arguments": {"city": "Bergen"}}, {"name": "clock"}])
def test_one_id_with_two_contents_is_a_fault(other: dict[str, Any]) -> None:
    _, turn = opened()
    fault, _ = fault_of(turn, call("c1", arguments={"city": "Oslo"}), call("c1", **other))
    assert (fault.reason, fault.upstream_code) == (Reason.BROKEN_TOOL_CALL, "call_id_conflict")


def test_a_call_of_a_tool_that_was_never_offered_is_a_fault() -> None:
    _, turn = opened()
    fault, events = fault_of(turn, call("c1", "rm_rf"))
    assert (fault.reason, fault.upstream_code, events) == (Reason.BROKEN_TOOL_CALL, "unknown_tool", [])


def first_id(wire_id: str, **more: Any) -> str:
    _, turn = opened(**more)
    return fold(turn.feed(call(wire_id)) + turn.quiet()).parts[0].call_id


@pytest.mark.parametrize("wire_id", ["call_1\nfc_2", "", "x" * 65, "a b", "é"])
def test_ids_that_callers_cannot_take_are_replaced_in_a_stable_way(wire_id: str) -> None:
    own = first_id(wire_id)
    assert own == first_id(wire_id)
    assert own.startswith("call_")
    assert own.replace("_", "").isalnum()
    assert own != first_id(wire_id + "z" if wire_id else "q" * 65)


def test_an_id_that_the_history_already_uses_is_replaced() -> None:
    used = (
        Message("user", (Text("q"),)),
        Message("assistant", (ToolCall("call_1", "clock", "{}"),)),
        Message("user", (ToolResult("call_1", "noon"),)),
    )
    assert first_id("call_1") == "call_1"
    assert first_id("call_1", messages=used) not in ("call_1", "")


def test_two_calls_without_ids_are_two_calls() -> None:
    _, turn = opened()
    events = turn.feed(call("", exec_id="e1") + call("", "clock", exec_id="e2"))
    ids = [part.call_id for part in fold(events + turn.quiet()).parts]
    assert len(set(ids)) == 2


# Questions.


def test_the_request_context_lists_the_tools_again() -> None:
    run, turn = opened()
    turn.feed(ask("e9", 3, request_context_args=pb.RequestContextArgs()))
    (reply,) = answered(turn)
    context = reply.exec_client_message.request_context_result.success.request_context
    assert list(context.tools) == list(run.tools)
    assert (reply.exec_client_message.id, reply.exec_client_message.exec_id) == (3, "e9")


NATIVE: list[tuple[dict[str, Any], str, str]] = [
    ({"shell_args": pb.ShellArgs(command="ls", working_directory="/w")}, "shell_result", "rejected"),
    ({"write_args": pb.WriteArgs(path="/w/a", file_text="x")}, "write_result", "rejected"),
    ({"delete_args": pb.DeleteArgs(path="/w/a")}, "delete_result", "rejected"),
    ({"grep_args": pb.GrepArgs(pattern="x")}, "grep_result", "error"),
    ({"read_args": pb.ReadArgs(path="/w/a")}, "read_result", "rejected"),
    ({"ls_args": pb.LsArgs(path="/w")}, "ls_result", "rejected"),
    ({"diagnostics_args": pb.DiagnosticsArgs(path="/w")}, "diagnostics_result", "rejected"),
    ({"shell_stream_args": pb.ShellArgs(command="ls")}, "shell_stream", "rejected"),
    (
        {"background_shell_spawn_args": pb.BackgroundShellSpawnArgs(command="ls")},
        "background_shell_spawn_result",
        "rejected",
    ),
    ({"list_mcp_resources_args": pb.Empty()}, "list_mcp_resources_exec_result", "success"),
    ({"read_mcp_resource_args": pb.Empty()}, "read_mcp_resource_exec_result", "error"),
    ({"fetch_args": pb.FetchArgs(url="http://x")}, "fetch_result", "error"),
]


def test_every_native_exec_of_the_descriptor_is_in_the_list() -> None:
    kinds = {field.name for field in pb.ExecServerMessage.DESCRIPTOR.oneofs_by_name["message"].fields}
    assert {next(iter(args)) for args, _, _ in NATIVE} == kinds - {"mcp_args", "request_context_args"}


@pytest.mark.parametrize(("args", "field", "result"), NATIVE)
def test_a_native_exec_is_refused_in_its_own_shape(args: dict[str, Any], field: str, result: str) -> None:
    _, turn = opened()
    assert turn.feed(ask("e2", 7, **args)) == []
    replies = answered(turn)
    answer = replies[0].exec_client_message
    assert (answer.id, answer.exec_id, answer.WhichOneof("message")) == (7, "e2", field)
    shape = getattr(answer, field)
    assert shape.WhichOneof("event" if field == "shell_stream" else "result") == result
    sent, asked = (kind.DESCRIPTOR.fields_by_name for kind in (pb.ExecClientMessage, pb.ExecServerMessage))
    assert sent[field].number == asked[next(iter(args))].number
    closes = [one.exec_client_control_message.stream_close.id for one in replies[1:]]
    assert closes == ([7] if field == "shell_stream" else [])


def test_a_refusal_names_what_it_refuses() -> None:
    _, turn = opened()
    turn.feed(ask(shell_args=pb.ShellArgs(command="rm -rf /", working_directory="/w")))
    rejected = answered(turn)[0].exec_client_message.shell_result.rejected
    assert (rejected.command, rejected.working_directory, rejected.reason) == ("rm -rf /", "/w", answers.REFUSAL)


def test_an_unknown_exec_is_thrown_and_closed() -> None:
    _, turn = opened()
    unknown = bytes.fromhex("12060804aa010161")  # id 4, field 21
    turn.feed(connect.encode(unknown))
    thrown, closed = (one.exec_client_control_message for one in answered(turn))
    assert (thrown.throw.id, thrown.throw.error, closed.stream_close.id) == (4, "not supported", 4)


def test_an_exec_id_of_zero_is_written() -> None:
    _, turn = opened()
    turn.feed(ask("e1", 0, read_args=pb.ReadArgs(path="a")))
    (wire,) = turn.outgoing()
    assert wire[2:4] == b"\x08\x00"
    assert pb.AgentClientMessage.FromString(wire).exec_client_message.read_result.rejected.path == "a"


def test_the_fourth_native_exec_of_a_turn_is_a_fault() -> None:
    _, turn = opened()
    for _ in range(NATIVE_REJECTIONS):
        assert turn.feed(ask(shell_args=pb.ShellArgs(command="ls"))) == []
    fault, _ = fault_of(turn, ask(fetch_args=pb.FetchArgs(url="http://x")))
    assert (fault.reason, fault.upstream_code) == (Reason.BROKEN_TOOL_CALL, "native_tools")


@pytest.mark.parametrize("field", list(pb.InteractionQuery.DESCRIPTOR.oneofs_by_name["query"].fields))
def test_every_query_is_rejected_under_its_own_number(field: Any) -> None:
    _, turn = opened()
    turn.feed(query(**{field.name: pb.Empty()}))
    (reply,) = answered(turn)
    response = reply.interaction_response
    assert response.id == 5
    known = pb.InteractionResponse.DESCRIPTOR.fields_by_number.get(field.number)
    if known is None:
        assert [one.field_number for one in UnknownFieldSet(response)] == [field.number]  # type: ignore[attr-defined]
    else:
        assert response.WhichOneof("result") == known.name
        answer = getattr(response, known.name)
        inner = answer.result if hasattr(answer, "result") else answer
        assert inner.WhichOneof("result") in ("rejected", "error")


def test_a_query_of_a_newer_server_is_rejected_too() -> None:
    _, turn = opened()
    turn.feed(connect.encode(bytes.fromhex("3a050803a20600")))
    (reply,) = answered(turn)
    assert [one.field_number for one in UnknownFieldSet(reply.interaction_response)] == [100]  # type: ignore[attr-defined]


def kv(number: int, **fields: Any) -> bytes:
    return say(pb.AgentServerMessage(kv_server_message=pb.KvServerMessage(id=number, **fields)))


def test_an_unknown_blob_is_answered_as_not_found() -> None:
    _, turn = opened()
    turn.feed(kv(4, get_blob_args=pb.GetBlobArgs(blob_id=b"?" * 32)))
    (reply,) = answered(turn)
    assert reply.kv_client_message.id == 4
    assert reply.kv_client_message.WhichOneof("message") == "get_blob_result"
    assert not reply.kv_client_message.get_blob_result.HasField("blob_data")


def test_a_blob_that_was_set_can_be_got_and_the_span_is_copied() -> None:
    _, turn = opened()
    span = pb.SpanContext.FromString(bytes.fromhex("0a0161"))
    turn.feed(
        kv(1, set_blob_args=pb.SetBlobArgs(blob_id=b"k", blob_data=b"v"), span_context=span)
        + kv(2, get_blob_args=pb.GetBlobArgs(blob_id=b"k"))
    )
    first, second = answered(turn)
    assert first.kv_client_message.span_context == span
    assert second.kv_client_message.get_blob_result.blob_data == b"v"


def test_the_blob_store_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "STORE_LIMIT", 10)
    _, turn = opened()
    for number in (1, 2):
        turn.feed(kv(number, set_blob_args=pb.SetBlobArgs(blob_id=b"%d" % number, blob_data=b"12345678")))
    first, second = answered(turn)
    assert not first.kv_client_message.set_blob_result.HasField("error")
    assert second.kv_client_message.set_blob_result.HasField("error")


PNG = b"\x89PNG\r\n\x1a\n data"


def image_turn() -> Turn:
    image = Image("image/png", base64.b64encode(PNG).decode())
    return opened(messages=(Message("user", (Text("what is it?"), image)),))[1]


def test_an_image_turn_writes_and_reads_its_assets_in_memory() -> None:
    turn = image_turn()
    turn.feed(ask("e1", 1, write_args=pb.WriteArgs(path="/w/assets/i.png", file_bytes=PNG)))
    turn.feed(ask("e2", 2, read_args=pb.ReadArgs(path="/w/assets/i.png")))
    turn.feed(ask("e3", 3, read_args=pb.ReadArgs(path="/w/image-1.png")))
    written, read, shown = (one.exec_client_message for one in answered(turn))
    assert (written.write_result.success.path, written.write_result.success.file_size) == ("/w/assets/i.png", len(PNG))
    assert read.read_result.success.data == shown.read_result.success.data == PNG


@pytest.mark.parametrize(
    "args",
    [
        pb.WriteArgs(path="/w/assets/i.png", file_bytes=b"#!/bin/sh"),
        pb.WriteArgs(path="/etc/passwd", file_bytes=PNG),
        pb.WriteArgs(path="/w/assets/i.png", file_text="x"),
    ],
)
def test_nothing_but_images_in_assets_is_written_on_an_image_turn(args: pb.WriteArgs) -> None:
    turn = image_turn()
    turn.feed(ask(write_args=args))
    assert answered(turn)[0].exec_client_message.write_result.HasField("rejected")


def test_a_turn_without_images_has_no_assets() -> None:
    _, turn = opened()
    turn.feed(ask(write_args=pb.WriteArgs(path="/w/assets/i.png", file_bytes=PNG)))
    assert answered(turn)[0].exec_client_message.write_result.HasField("rejected")


# Usage.


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, Usage()),
        ({"input_tokens": 0, "output_tokens": 0}, Usage()),
        ({"input_tokens": 120, "output_tokens": 8, "cache_read_tokens": 30}, Usage(90, 8, 30)),
        ({"input_tokens": 10, "cache_read_tokens": 30, "cache_write_tokens": 5}, Usage(0, None, 30, 5)),
        ({"output_tokens": 8, "reasoning_tokens": 3}, Usage(None, 8, reasoning=3)),
    ],
)
def test_usage_is_what_was_counted(counts: dict[str, int], usage: Usage) -> None:
    assert read_usage(pb.TurnEndedUpdate(**counts)) == usage


def test_usage_one_level_deeper_is_found() -> None:
    inner = pb.TurnEndedUpdate(input_tokens=7, output_tokens=2).SerializeToString()
    nested = pb.TurnEndedUpdate.FromString(b"\x0a" + bytes([len(inner)]) + inner)
    assert read_usage(nested) == Usage(7, 2)
    assert read_usage(pb.TurnEndedUpdate.FromString(b"\x0a\x01\xff")) == Usage()


def test_input_that_excludes_the_cache_is_taken_as_it_is() -> None:
    update = pb.TurnEndedUpdate(input_tokens=120, cache_read_tokens=30)
    assert read_usage(update, input_includes_cache=False) == Usage(120, None, 30)


def test_signs_count_the_models_work_and_not_heartbeats() -> None:
    _, turn = opened()
    turn.feed(heartbeat() + ask(request_context_args=pb.RequestContextArgs()) + turn_ended())
    assert turn.signs == 0
    _, turn = opened()
    turn.feed(text("<") + thinking("a") + announced() + call("c1"))
    assert turn.signs == 4


def test_no_answer_of_ours_holds_what_the_caller_said() -> None:
    _, turn = opened(messages=(Message("user", (Text("canary-7f3a"),)),), system="canary-7f3a")
    for args, _, _ in NATIVE[:NATIVE_REJECTIONS]:
        turn.feed(ask(**args))
    turn.feed(ask(request_context_args=pb.RequestContextArgs()) + query(web_search_request_query=pb.Empty()))
    assert turn.outgoing()
    assert b"canary-7f3a" not in b"".join(turn.outgoing())
    assert "canary" not in json.dumps(repr(Fault(Reason.CUT, Stage.END)))
