"""What the upstream refuses about a run request before it does anything: pure checks, each with its own reason."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from protobufs import agent_v1_pb2 as pb
from simulator import catalogue, messages
from simulator.causes import Failure, refusal, scripted
from simulator.steps import Tool

MAX_ROOT_BLOBS = 192
MODES = (pb.AGENT_MODE_AGENT, pb.AGENT_MODE_ASK, pb.AGENT_MODE_PLAN, pb.AGENT_MODE_DEBUG)
AnyMessage = TypeVar("AnyMessage", bound=Message)
ALLOWED_TOOLS_HEADER = "x-cursor-agent-allowed-tools"


def parse(kind: type[AnyMessage], data: bytes, complaint: str) -> AnyMessage:
    """A protobuf message of that kind; ``complaint`` is what a client is told whose bytes are none."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise refusal(complaint) from None


def check_state(request: pb.AgentRunRequest) -> None:
    """Raises for a missing or empty conversation state, bad blob ids, and blobs that do not hash to their id."""
    state = request.conversation_state
    if not request.HasField("conversation_state") or not state.ByteSize():
        raise refusal("Conversation state is required")
    if state.mode not in MODES:
        raise refusal("conversation_state.mode is not set to a known mode")
    if len(state.root_prompt_messages_json) > MAX_ROOT_BLOBS:
        raise refusal(f"more than {MAX_ROOT_BLOBS} root prompt blobs")
    if any(len(identifier) != 32 for identifier in (*state.root_prompt_messages_json, *state.turns)):
        raise refusal("a blob id is not 32 bytes")
    for blob in request.pre_fetched_blobs:
        check_blob(blob.id, blob.value)


def check_blob(identifier: bytes, data: bytes) -> None:
    """Raises unless ``identifier`` is the SHA-256 of ``data``."""
    if messages.blob_id(data) != identifier:
        raise refusal("Failed to resolve request context blobs: a blob does not hash to its id")


def check_action(request: pb.AgentRunRequest) -> None:
    """Raises when the request asks for nothing. A missing request context is not refused: the run just stalls."""
    kind = request.action.WhichOneof("action")
    if kind not in ("user_message_action", "resume_action"):
        raise refusal("no action")
    if kind == "user_message_action" and not request.action.user_message_action.HasField("user_message"):
        raise refusal("user_message_action without user_message")


def has_context(request: pb.AgentRunRequest) -> bool:
    """Whether the action carries a request context, even an empty one."""
    if request.action.HasField("resume_action"):
        return request.action.resume_action.HasField("request_context")
    return request.action.user_message_action.HasField("request_context")


def model_of(request: pb.AgentRunRequest) -> str:
    """The id the request names, unresolved."""
    return request.requested_model.model_id or request.model_details.model_id


def check_model(request: pb.AgentRunRequest, allowed: frozenset[str] | None) -> tuple[catalogue.Model, dict[str, str]]:
    """The model and its parameters. Raises for ``auto``, unknown ids, undeclared parameters and values."""
    wanted = request.requested_model
    if wanted.parameters and request.HasField("model_details"):
        raise refusal("model_details beside requested_model.parameters")
    name = model_of(request)
    variant = catalogue.find_variant(name) if wanted.is_variant_string_representation else None
    model, parameters = variant or (catalogue.find(name), {})
    if model is None:
        raise bad_model(name)
    if allowed is not None and model.id not in allowed:
        raise scripted("model_not_in_plan")
    for parameter in wanted.parameters:
        values = model.parameters.get(parameter.id)
        if values is None:
            raise refusal(f"the model does not declare the parameter {parameter.id!r}")
        if parameter.value not in values:
            raise refusal(f"the parameter {parameter.id!r} does not take {parameter.value!r}")
        if parameter.id in parameters:
            raise refusal(f"the parameter {parameter.id!r} is given twice")
        parameters[parameter.id] = parameter.value
    return model, parameters


def bad_model(name: str) -> Failure:
    return refusal(f"unknown model {name!r}", code="not_found", error=pb.ERROR_BAD_MODEL_NAME)


def read_tools(definitions: Iterable[pb.McpToolDefinition]) -> tuple[Tool, ...]:
    """The declared tools. Raises when one does not decode, has no object schema, or repeats a name."""
    tools: dict[str, Tool] = {}
    for definition in definitions:
        if not definition.name or not definition.tool_name or not definition.provider_identifier:
            raise refusal("a tool definition lacks name, tool_name or provider_identifier")
        if definition.name in tools:
            raise refusal(f"the tool name {definition.name!r} is used twice")
        tools[definition.name] = Tool(
            definition.name,
            definition.tool_name,
            definition.provider_identifier,
            definition.description,
            _schema(definition),
        )
    return tuple(tools.values())


def callable_tools(
    tools: tuple[Tool, ...], known: tuple[Tool, ...], mode: int, headers: Mapping[str, str]
) -> tuple[Tool, ...]:
    """The tools the model can use: declared on the request, listed in the context, in a mode and under a header
    that allow them."""
    allowed = headers.get(ALLOWED_TOOLS_HEADER)
    if mode != pb.AGENT_MODE_AGENT or (allowed is not None and "mcp_tool_call" not in allowed.split(",")):
        return ()
    names = {tool.name for tool in known}
    return tuple(tool for tool in tools if tool.name in names)


def _schema(definition: pb.McpToolDefinition) -> Mapping[str, Any]:
    if definition.HasField("input_schema"):
        schema = messages.schema_of(definition.input_schema)
    elif definition.input_schema_json:
        try:
            schema = json.loads(definition.input_schema_json)
        except json.JSONDecodeError:
            raise refusal(f"the schema of {definition.name!r} is not JSON") from None
    else:
        raise refusal(f"the tool {definition.name!r} has no schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise refusal(f"the schema of {definition.name!r} is not an object's")
    return schema
