from __future__ import annotations

import pytest

from bench import mock
from bench.mock import Connection, Run, Shape
from bench.relay import Frames, context_answer, run_request
from protobufs import agent_v1_pb2 as pb
from tests.unit.bench.wire import FakeTransport, http_body, post

RUN = "/agent.v1.AgentService/RunSSE"
APPEND = "/aiserver.v1.BidiService/BidiAppend"


def append(message: pb.AgentClientMessage, number: int) -> bytes:
    request = pb.BidiAppendRequest(
        data=message.SerializeToString().hex(), request_id=pb.BidiRequestId(request_id="r1"), append_seqno=number
    )
    return post(APPEND, request.SerializeToString())


def open_run() -> bytes:
    payload = pb.BidiRequestId(request_id="r1").SerializeToString()
    return post(RUN, b"\0" + len(payload).to_bytes(4, "big") + payload)


def question_for(shape: Shape) -> pb.AgentClientMessage:
    return run_request({"model": shape.model, "messages": [{"role": "user", "content": "Hi"}]}, "r1")


def test_a_run_asks_for_the_context_and_then_says_every_delta_in_order_and_ends() -> None:
    runs: dict[str, Run] = {}
    stream, appends = FakeTransport(), FakeTransport()
    reader, writer = Connection(runs), Connection(runs)
    reader.connection_made(stream)
    writer.connection_made(appends)

    reader.data_received(open_run())
    writer.data_received(append(question_for(Shape(5, 0)), 0))
    [asked] = list(Frames().feed(http_body(stream.written)))
    assert asked.exec_server_message.WhichOneof("message") == "request_context_args"

    writer.data_received(append(context_answer(asked.exec_server_message), 1))
    _, *said, ended = list(Frames().feed(http_body(stream.written)))
    texts = [message.interaction_update.text_delta.text for message in said]
    assert [int(text[:7]) for text in texts] == [0, 1, 2, 3, 4]
    assert all(int(text[8:24]) > 0 for text in texts)
    assert ended.interaction_update.turn_ended.output_tokens == 40
    assert http_body(stream.written).endswith(b"\x02\0\0\0\x02{}")
    assert stream.written.endswith(b"0\r\n\r\n")


def test_a_heartbeat_is_no_answer_to_the_question() -> None:
    runs: dict[str, Run] = {}
    stream, appends = FakeTransport(), FakeTransport()
    reader, writer = Connection(runs), Connection(runs)
    reader.connection_made(stream)
    writer.connection_made(appends)
    reader.data_received(open_run())
    writer.data_received(append(question_for(Shape(5, 0)), 0))
    before = stream.written

    writer.data_received(append(pb.AgentClientMessage(client_heartbeat=pb.ClientHeartbeat()), 1))

    assert stream.written == before


def test_a_request_that_comes_in_pieces_is_served_once_it_is_whole() -> None:
    stream = FakeTransport()
    reader = Connection({})
    reader.connection_made(stream)
    data = open_run()
    for position in range(len(data) - 1):
        reader.data_received(data[position : position + 1])
    assert not stream.written
    reader.data_received(data[-1:])
    assert stream.written.startswith(b"HTTP/1.1 200 OK")


def test_a_model_that_is_no_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="not of the bench"):
        mock.read_shape(b"sonnet".hex())
    assert mock.read_shape(b"..bench-c40-d50..".hex()) == Shape(40, 50)
