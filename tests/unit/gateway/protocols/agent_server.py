"""What a server says, as a test writes it: short names for the messages of ``protobufs``, each in its envelope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.protocols.agent import values
from gateway.protocols.agent.client import Ids, RunRequest, Turn, encode_request
from gateway.wire import connect
from ir.request import Message, Request, Text, Tool
from protobufs import agent_v1_pb2 as pb

TOOLS = (
    Tool("get_weather", "Weather", {"type": "object", "properties": {"city": {"type": "string"}}}),
    Tool("clock", "Time", {}),
)
END = connect.encode_end()


def request(**more: Any) -> Request:
    return Request("m", more.pop("messages", (Message("user", (Text("hi"),)),)), tools=more.pop("tools", TOOLS), **more)


def opened(**more: Any) -> tuple[RunRequest, Turn]:
    run = encode_request(request(**more), "default", {}, Ids("c1", "m1"))
    turn = Turn(run)
    turn.announce({"connect-content-encoding": "gzip"})
    return run, turn


def say(message: pb.AgentServerMessage) -> bytes:
    return connect.encode(message.SerializeToString())


def update(**fields: Any) -> bytes:
    return say(pb.AgentServerMessage(interaction_update=pb.InteractionUpdate(**fields)))


def text(piece: str) -> bytes:
    return update(text_delta=pb.TextDeltaUpdate(text=piece))


def thinking(piece: str) -> bytes:
    return update(thinking_delta=pb.ThinkingDeltaUpdate(text=piece))


def heartbeat() -> bytes:
    return update(heartbeat=pb.Empty())


def turn_ended(**counts: int) -> bytes:
    return update(turn_ended=pb.TurnEndedUpdate(**counts))


def ask(exec_id: str = "e1", number: int = 1, **fields: Any) -> bytes:
    """An exec message."""
    return say(pb.AgentServerMessage(exec_server_message=pb.ExecServerMessage(id=number, exec_id=exec_id, **fields)))


def call(
    call_id: str,
    name: str = "get_weather",
    arguments: Mapping[str, Any] | None = None,
    exec_id: str = "e1",
    **more: Any,
) -> bytes:
    """A call of one of the caller's tools."""
    args = pb.McpArgs(
        name=f"poolgate-{name}", tool_name=name, provider_identifier="poolgate", tool_call_id=call_id, **more
    )
    for key, value in (arguments or {}).items():
        values.fill(args.args[key], value)
    return ask(exec_id, mcp_args=args)


def announced(name: str = "get_weather") -> bytes:
    """The announcement of a call, which is no call."""
    tool_call = pb.ToolCall(mcp_tool_call=pb.McpToolCall(args=pb.McpArgs(tool_name=name)))
    return update(tool_call_started=pb.ToolCallUpdate(call_id="c", tool_call=tool_call))


def query(**kind: Any) -> bytes:
    return say(pb.AgentServerMessage(interaction_query=pb.InteractionQuery(id=5, **kind)))


def answered(turn: Turn) -> list[pb.AgentClientMessage]:
    return [pb.AgentClientMessage.FromString(message) for message in turn.outgoing()]
