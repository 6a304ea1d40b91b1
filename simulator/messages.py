"""Server messages as bytes: every ``AgentServerMessage`` the simulator sends is made here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from google.protobuf import json_format, struct_pb2

from protobufs import agent_v1_pb2 as pb
from simulator.steps import Call, Spend, Tool

HEARTBEAT = bytes.fromhex("0a026a00")
TURN_ENDED_EMPTY = bytes.fromhex("0a027200")
# A payload that no protobuf parser accepts: a field of wire type 7.
UNDECODABLE = b"\xff\xff\xff\xff\x0f garbage"
# A member (50) and an update kind (99) that no client knows, and an extra field (77) to hang on known messages.
UNKNOWN_MEMBER = b"\x92\x03\x03\x08\x96\x01"
UNKNOWN_UPDATE = b"\x0a\x06\x9a\x06\x03\x08\x96\x01"
UNKNOWN_FIELD = b"\xea\x04\x07unknown"
# pi_read (45): an exec that clients do not decode and have to throw.
UNKNOWN_EXEC = b"\xea\x02\x04\x0a\x02/x"

# Questions that have a response in the protocol, by the short name scripts use.
QUERIES: Mapping[str, str] = {
    "web_search": "web_search_request_query",
    "ask_question": "ask_question_interaction_query",
    "switch_mode": "switch_mode_request_query",
    "exa_search": "exa_search_request_query",
    "exa_fetch": "exa_fetch_request_query",
    "create_plan": "create_plan_request_query",
    "web_fetch": "web_fetch_request_query",
}


def blob_id(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@lru_cache(maxsize=4096)
def text_delta(text: str) -> bytes:
    return _update(pb.InteractionUpdate(text_delta=pb.TextDeltaUpdate(text=text)))


@lru_cache(maxsize=1024)
def thinking_delta(text: str) -> bytes:
    return _update(pb.InteractionUpdate(thinking_delta=pb.ThinkingDeltaUpdate(text=text)))


def thinking_completed(milliseconds: int) -> bytes:
    done = pb.ThinkingCompletedUpdate(thinking_duration_ms=milliseconds)
    return _update(pb.InteractionUpdate(thinking_completed=done))


def token_delta(tokens: int) -> bytes:
    return _update(pb.InteractionUpdate(token_delta=pb.TokenDeltaUpdate(tokens=tokens)))


def step_started(number: int) -> bytes:
    return _update(pb.InteractionUpdate(step_started=pb.StepUpdate(step_id=number)))


def step_completed(number: int) -> bytes:
    return _update(pb.InteractionUpdate(step_completed=pb.StepUpdate(step_id=number, step_duration_ms=1)))


def get_blob(number: int, identifier: bytes) -> bytes:
    message = pb.KvServerMessage(id=number, get_blob_args=pb.GetBlobArgs(blob_id=identifier))
    return pb.AgentServerMessage(kv_server_message=message).SerializeToString()


def set_blob(number: int, data: bytes) -> bytes:
    arguments = pb.SetBlobArgs(blob_id=blob_id(data), blob_data=data)
    message = pb.KvServerMessage(id=number, set_blob_args=arguments)
    return pb.AgentServerMessage(kv_server_message=message).SerializeToString()


def execute(message: pb.ExecServerMessage) -> bytes:
    return pb.AgentServerMessage(exec_server_message=message).SerializeToString()


def checkpoint(state: pb.ConversationStateStructure) -> bytes:
    return pb.AgentServerMessage(conversation_checkpoint_update=state).SerializeToString()


def query(number: int, kind: str) -> tuple[bytes, int]:
    """An approval question and the number of its member, which the response has to use too."""
    message = pb.InteractionQuery(id=number)
    field = message.DESCRIPTOR.fields_by_name[QUERIES[kind]]
    getattr(message, field.name).SetInParent()
    return pb.AgentServerMessage(interaction_query=message).SerializeToString(), field.number


def mcp_args(call: Call, call_id: str, tool: Tool | None, *, probe: bool = False) -> pb.McpArgs:
    """The arguments of a call; every number becomes a double, as the real upstream sends them."""
    arguments = pb.McpArgs(
        name=call.name,
        tool_call_id=call_id,
        provider_identifier=tool.provider if tool else "",
        tool_name=tool.tool_name if tool else call.name,
    )
    for key, value in call.arguments.items():
        json_format.ParseDict(value, arguments.args[key]) if value is not None else _null(arguments.args[key])
    if probe:
        arguments.smart_mode_approval_only = True
    return arguments


def call_started(call_id: str, arguments: pb.McpArgs) -> bytes:
    return _update(pb.InteractionUpdate(tool_call_started=_call_update(call_id, arguments)))


def call_completed(call_id: str, arguments: pb.McpArgs, result: pb.McpResult) -> bytes:
    update = _call_update(call_id, arguments)
    update.tool_call.mcp_tool_call.result.CopyFrom(result)
    return _update(pb.InteractionUpdate(tool_call_completed=update))


def partial_call(call_id: str, arguments: pb.McpArgs, text: str) -> bytes:
    shown = pb.McpArgs(
        name=arguments.name,
        tool_call_id=call_id,
        tool_name=arguments.tool_name,
        provider_identifier=arguments.provider_identifier,
    )
    partial = pb.PartialToolCallUpdate(call_id=call_id, args_text_delta=text, model_call_id=call_id)
    partial.tool_call.mcp_tool_call.args.CopyFrom(shown)
    return _update(pb.InteractionUpdate(partial_tool_call=partial))


def arguments_text(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def turn_ended(form: Spend, prompt_words: int, output_words: int, thinking_words: int) -> bytes:
    """The end of a turn in one of the forms of its usage."""
    if form is Spend.NONE:
        return TURN_ENDED_EMPTY
    usage = pb.TurnEndedUpdate(input_tokens=max(1, prompt_words), output_tokens=output_words)
    if thinking_words:
        usage.reasoning_tokens = thinking_words
    if form is Spend.CACHE:
        usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens = 120, 30, 10
        usage.output_tokens, usage.reasoning_tokens = 8, 5
    if form is Spend.NESTED:
        return _inside(b"\x0a", _inside(b"\x72", _inside(b"\x0a", usage.SerializeToString())))
    return _update(pb.InteractionUpdate(turn_ended=usage))


def with_unknown(payload: bytes) -> bytes:
    """A message with a field that no client knows: parsers have to skip it."""
    return payload + UNKNOWN_FIELD


def schema_of(value: struct_pb2.Value) -> Any:
    """A protobuf Value as plain JSON, whole doubles as integers."""
    return _integers(json_format.MessageToDict(value))


def _integers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _integers(one) for key, one in value.items()}
    return [_integers(one) for one in value] if isinstance(value, list) else value


def _null(value: struct_pb2.Value) -> None:
    value.null_value = struct_pb2.NULL_VALUE


def _call_update(call_id: str, arguments: pb.McpArgs) -> pb.ToolCallUpdate:
    tool_call = pb.ToolCall(mcp_tool_call=pb.McpToolCall(args=arguments), tool_call_id=call_id)
    return pb.ToolCallUpdate(call_id=call_id, tool_call=tool_call, model_call_id=call_id)


def _update(update: pb.InteractionUpdate) -> bytes:
    return pb.AgentServerMessage(interaction_update=update).SerializeToString()


def _inside(tag: bytes, payload: bytes) -> bytes:
    if len(payload) > 127:
        raise ValueError("only for short messages")
    return tag + bytes([len(payload)]) + payload
