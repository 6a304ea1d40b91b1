"""The worked examples of the wire, byte by byte: both what the simulator writes and what it must understand."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import json_format

from protobufs import agent_v1_pb2 as pb
from simulator import causes, connect, messages
from simulator.journal import Journal
from simulator.runs import Run
from simulator.steps import Call, Spend, Tool

SYSTEM_BLOB = b'{"role":"system","content":"Be brief."}'
SYSTEM_ID = bytes.fromhex("e57d1ef21a87af392778b05a6fd54e4a3a1d173b56c411c9b997cf1a45fa7dc1")
RUN_REQUEST = bytes.fromhex(
    "0a4b0a240a20e57d1ef21a87af392778b05a6fd54e4a3a1d173b56c411c9b997cf1a45fa7dc1500212120a100a0c0a04322b323f12026d31"
    "2002120022002a0263314a090a0764656661756c74"
)
TOOL = bytes.fromhex(
    "0a0e67772d6765745f77656174686572120f5765617468657220627920636974791a5c2a5a0a2e0a0a70726f7065727469657312202a1e0a1c0a"
    "046369747912142a120a100a047479706512081a06737472696e670a160a087265717569726564120a32080a061a04636974790a100a04747970"
    "6512081a066f626a656374220267772a0b6765745f77656174686572"
)
MCP_ARGS = bytes.fromhex(
    "125408035a4c0a0e67772d6765745f77656174686572120e0a046369747912061a044f736c6f12110a046461797312091100000000000008401a"
    "0663616c6c5f31220267772a0b6765745f776561746865727a026533"
)
WEATHER = Tool("gw-get_weather", "get_weather", "gw", "Weather by city", {"type": "object"})


def test_the_system_blob_hashes_to_its_id() -> None:
    assert messages.blob_id(SYSTEM_BLOB) == SYSTEM_ID


def test_a_run_request_is_read_and_written_as_in_the_example() -> None:
    message = pb.AgentClientMessage.FromString(RUN_REQUEST)
    run = message.run_request
    assert list(run.conversation_state.root_prompt_messages_json) == [SYSTEM_ID]
    assert run.conversation_state.mode == pb.AGENT_MODE_ASK
    assert run.action.user_message_action.user_message.text == "2+2?"
    assert run.action.user_message_action.user_message.message_id == "m1"
    assert run.action.user_message_action.HasField("request_context")
    assert run.HasField("mcp_tools")
    assert run.conversation_id == "c1"
    assert run.requested_model.model_id == "default"
    assert message.SerializeToString(deterministic=True) == RUN_REQUEST
    assert connect.frame(RUN_REQUEST)[:5].hex() == "000000004d"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(
            messages.get_blob(1, SYSTEM_ID),
            "2226080112220a20e57d1ef21a87af392778b05a6fd54e4a3a1d173b56c411c9b997cf1a45fa7dc1",
            id="kv get",
        ),
        pytest.param(
            messages.set_blob(2, b"x"),
            "222908021a250a202d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881120178",
            id="kv set",
        ),
        pytest.param(
            messages.execute(pb.ExecServerMessage(id=1, exec_id="e1", request_context_args=pb.RequestContextArgs())),
            "1208080152007a026531",
            id="request context",
        ),
        pytest.param(messages.thinking_delta("hm"), "0a0622040a02686d", id="thinking"),
        pytest.param(messages.text_delta("4"), "0a050a030a0134", id="text"),
        pytest.param(messages.HEARTBEAT, "0a026a00", id="heartbeat"),
        pytest.param(messages.turn_ended(Spend.NONE, 1, 1, 0), "0a027200", id="empty end of turn"),
    ],
)
def test_server_messages_are_written_as_in_the_examples(payload: bytes, expected: str) -> None:
    assert payload.hex() == expected


def test_usage_has_the_numbers_of_the_example() -> None:
    example = pb.AgentServerMessage.FromString(bytes.fromhex("0a08720608781008181e"))
    usage = example.interaction_update.turn_ended
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (120, 8, 30)
    ours = pb.AgentServerMessage.FromString(messages.turn_ended(Spend.CACHE, 1, 1, 0)).interaction_update.turn_ended
    assert (ours.input_tokens, ours.output_tokens, ours.cache_read_tokens) == (120, 8, 30)


def test_nested_usage_is_invisible_at_the_usual_place_and_whole_one_level_deeper() -> None:
    payload = messages.turn_ended(Spend.NESTED, 12, 3, 1)
    ended = pb.AgentServerMessage.FromString(payload).interaction_update.turn_ended
    assert not ended.HasField("input_tokens")
    assert payload[:2] == b"\x0a\x0a"
    assert payload[4] == 0x0A
    inner = pb.TurnEndedUpdate.FromString(payload[6:])
    assert (inner.input_tokens, inner.output_tokens, inner.reasoning_tokens) == (12, 3, 1)


def test_a_tool_definition_is_read_as_in_the_example() -> None:
    definition = pb.McpToolDefinition.FromString(TOOL)
    assert (definition.name, definition.tool_name) == ("gw-get_weather", "get_weather")
    assert (definition.provider_identifier, definition.description) == ("gw", "Weather by city")
    assert messages.schema_of(definition.input_schema) == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    assert definition.SerializeToString(deterministic=True) == TOOL


def test_a_call_is_written_as_in_the_example_with_its_number_as_a_double() -> None:
    arguments = messages.mcp_args(Call("gw-get_weather", {"city": "Oslo", "days": 3}), "call_1", WEATHER)
    order = pb.ExecServerMessage(id=3, exec_id="e3", mcp_args=arguments)
    assert pb.AgentServerMessage(exec_server_message=order) == pb.AgentServerMessage.FromString(MCP_ARGS)
    assert bytes.fromhex("11") + bytes.fromhex("0000000000000840") in messages.execute(order)


def test_an_image_is_read_as_in_the_example() -> None:
    image = pb.SelectedImage.FromString(bytes.fromhex("120269312204080110013a09696d6167652f706e67420489504e47"))
    assert (image.uuid, image.mime_type, image.data) == ("i1", "image/png", b"\x89PNG")
    assert (image.dimension.width, image.dimension.height) == (1, 1)


def _run() -> Run:
    return Run("r", "alpha", Journal().open(0.0, "run_sse", "alpha", {}))


@pytest.mark.parametrize(
    ("kind", "number", "payload", "described"),
    [
        (
            "kv",
            1,
            "1a2d080112290a277b22726f6c65223a2273797374656d222c22636f6e74656e74223a2242652062726965662e227d",
            "kv 1 get_blob_result",
        ),
        ("exec", 1, "12150801520d0a0b0a0922070a056c696e75787a026531", "exec 1 request_context_result"),
        ("kv", 2, "1a0408021a00", "kv 2 set_blob_result"),
        ("exec", 3, "121208035a0a0a080a060a040a0237437a026533", "exec 3 mcp_result"),
        ("exec", 4, "2a1312110804120d6e6f7420737570706f72746564", "exec 4 throw"),
    ],
)
async def test_client_answers_of_the_examples_release_who_waits_for_them(
    kind: str, number: int, payload: str, described: str
) -> None:
    run = _run()
    run.deliver(pb.AgentClientMessage.FromString(RUN_REQUEST))
    future = run.expect(kind, number)
    run.deliver(pb.AgentClientMessage.FromString(bytes.fromhex(payload)))
    assert future.done()
    assert run.entry.answers == [described]


async def test_the_clients_heartbeat_of_the_example_is_counted() -> None:
    run = _run()
    run.deliver(pb.AgentClientMessage.FromString(RUN_REQUEST))
    run.deliver(pb.AgentClientMessage.FromString(bytes.fromhex("3a00")))
    assert run.entry.client_heartbeats == 1


def test_framing_is_that_of_the_examples() -> None:
    body = bytes.fromhex("00000000040a027231")
    assert pb.BidiRequestId.FromString(connect.unframe(body)).request_id == "r1"
    assert connect.frame(causes.end_of_stream(None), connect.END).hex() == "02000000027b7d"


def test_the_details_of_an_unpaid_invoice_are_those_of_the_example() -> None:
    encoded = base64.b64encode(causes.details(causes.CAUSES["unpaid_invoice"])).rstrip(b"=").decode()
    assert encoded == "CDISHgoaWW91IGhhdmUgYW4gdW5wYWlkIGludm9pY2UgABgB"


def test_a_schema_survives_the_way_through_a_protobuf_value() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}, "x": {"maximum": 0.5}}}
    definition = pb.McpToolDefinition()
    json_format.ParseDict(schema, definition.input_schema)
    assert messages.schema_of(definition.input_schema) == schema
