"""The conversation so far, as the upstream stores it: root prompt texts and turns, both as blobs.

A message without tools is told as it is. One with tool calls or results becomes JSON lines, one a part, so that
nothing inside a result can look like the end of it. Thinking is never told: it belongs to the upstream that thought
it. A vendor limits root prompt blobs, so the oldest messages of a very long history share blobs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from gateway.protocols.agent import values
from gateway.protocols.agent.names import PREFIX, PROVIDER, wire_name
from ir.request import Content, Image, Message, Reasoning, Text, ToolCall, ToolResult
from protobufs import agent_v1_pb2 as pb

ROOT_LIMIT = 180  # blobs; 192 were seen to work and 208 to fail

_MERGE_STEP = 60  # merging in steps keeps the prompt's beginning equal, thus cached, over many turns

_NO_TEXT = "(no output)"

Put = Callable[[bytes], bytes]


class _Turn(Struct):
    user: Sequence[Content]
    steps: list[pb.ConversationStep]


def call_ids(messages: Iterable[Message]) -> frozenset[str]:
    """Every tool call id of the history."""
    return frozenset(part.id for message in messages for part in message.content if isinstance(part, ToolCall))


def derived_id(seed: str, label: str) -> str:
    """A stable id in UUID form."""
    digest = hashlib.sha256(f"{seed}/{label}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def root_prompt(system: str, messages: Sequence[Message]) -> list[bytes]:
    """The texts of the root prompt as JSON ``{"role", "content"}``, at most ``ROOT_LIMIT`` of them."""
    entries = [("system", system)] if system else []
    told = [(message.role, text) for message in messages if (text := tell(message))]
    room = ROOT_LIMIT - len(entries)
    if len(told) > room:
        surplus = -(-(len(told) - room + 1) // _MERGE_STEP) * _MERGE_STEP
        lines = (orjson.dumps({"role": role, "content": text}).decode() for role, text in told[:surplus])
        told = [("user", "\n".join(lines)), *told[surplus:]]
    return [orjson.dumps({"role": role, "content": text}) for role, text in (*entries, *told)]


def tell(message: Message) -> str:
    """A message as text; "" when nothing of it may be told."""
    parts = [part for part in message.content if not isinstance(part, Reasoning)]
    if all(isinstance(part, Text) for part in parts):
        text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
        if '{"type":"tool_' not in text:  # else it could be taken for one of the lines below
            return text
    return "\n".join(orjson.dumps(_line(part)).decode() for part in parts)


def put_turns(messages: Sequence[Message], mode: int, seed: str, put: Put) -> list[bytes]:
    """Stores the history as turns, returns their blob ids. A user text opens a turn; results belong to their calls."""
    results = {part.call_id: part for message in messages for part in message.content if isinstance(part, ToolResult)}
    turns: list[_Turn] = []
    for message in messages:
        if message.role == "user":
            said = [part for part in message.content if isinstance(part, Text | Image)]
            if said or not turns:
                turns.append(_Turn(said, []))
        else:
            if not turns:
                turns.append(_Turn((), []))
            turns[-1].steps.extend(_steps(message.content, results))
    return [_put_turn(turn, mode, derived_id(seed, str(index)), put) for index, turn in enumerate(turns)]


def _line(part: Content) -> Mapping[str, Any]:
    match part:
        case ToolCall():
            # Written by itself: one level more could be one too many for the writer.
            arguments = orjson.Fragment(orjson.dumps(_arguments(part.arguments)))
            return {"type": "tool_call", "id": part.id, "name": wire_name(part.name), "arguments": arguments}
        case ToolResult():
            content = part.content if isinstance(part.content, str) else [_line(item) for item in part.content]
            return {"type": "tool_result", "id": part.call_id, "is_error": part.is_error, "content": content}
        case Image():
            return {"type": "image", "media_type": part.media_type}
        case _:
            return {"type": "text", "text": part.text}


def _arguments(text: str) -> Any:
    """Parsed, so that a line stays one line whatever white space the caller used."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _put_turn(turn: _Turn, mode: int, message_id: str, put: Put) -> bytes:
    user = pb.UserMessage(message_id=message_id, mode=mode)
    user.text = "\n\n".join(part.text for part in turn.user if isinstance(part, Text))
    for position, part in enumerate(part for part in turn.user if isinstance(part, Image)):
        user.selected_context.selected_images.add(
            uuid=derived_id(message_id, f"image-{position}"), mime_type=part.media_type, blob_id=put(part.data)
        )
    structure = pb.ConversationTurnStructure()
    structure.agent_conversation_turn.user_message = put(_bytes(user))
    structure.agent_conversation_turn.steps.extend(put(_bytes(step)) for step in turn.steps)
    return put(_bytes(structure))


def _steps(content: Sequence[Content], results: Mapping[str, ToolResult]) -> Iterable[pb.ConversationStep]:
    for part in content:
        if isinstance(part, Text):
            yield pb.ConversationStep(assistant_message=pb.AssistantMessage(text=part.text))
        elif isinstance(part, ToolCall):
            yield _call_step(part, results.get(part.id))


def _call_step(call: ToolCall, result: ToolResult | None) -> pb.ConversationStep:
    step = pb.ConversationStep()
    args = step.tool_call.mcp_tool_call.args
    bare = wire_name(call.name)
    args.name, args.tool_name, args.provider_identifier, args.tool_call_id = PREFIX + bare, bare, PROVIDER, call.id
    data = _arguments(call.arguments)
    if not isinstance(data, dict) or not values.fits(data):
        data = {"arguments": call.arguments}  # too deep for a protobuf parser: told as text rather than lost
    for key, value in data.items():
        values.fill(args.args[key], value)
    step.tool_call.tool_call_id = call.id
    if result is not None:
        write_result(step.tool_call.mcp_tool_call.result.success, result)
    return step


def write_result(success: pb.McpSuccess, result: ToolResult) -> None:
    """The result as the upstream takes it. A failed tool is a success that says so: an error would end the turn."""
    success.is_error = result.is_error
    if isinstance(result.content, str):
        success.content.add().text.text = result.content or _NO_TEXT
        return
    for item in result.content:
        if isinstance(item, Text):
            success.content.add().text.text = item.text
        else:
            image = success.content.add().image
            image.data, image.mime_type = item.data, item.media_type
    if not result.content:
        success.content.add().text.text = _NO_TEXT


def _bytes(message: pb.UserMessage | pb.ConversationStep | pb.ConversationTurnStructure) -> bytes:
    return message.SerializeToString(deterministic=True)
