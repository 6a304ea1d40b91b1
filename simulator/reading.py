"""From a run request and the client's blobs to the prompt a model would see.

System text comes from the root prompt blobs. History comes from the structured ``turns`` when there are any, else
from the other root prompt blobs. Blobs arrive level by level, because one blob names the next.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from protobufs import agent_v1_pb2 as pb
from simulator import checks, messages
from simulator.causes import refusal
from simulator.steps import Picture, Utterance

UNRESOLVED = "Failed to resolve request context blobs"
Fetch = Callable[[Iterable[bytes]], Awaitable[dict[bytes, bytes]]]


@dataclass(frozen=True)
class Dialogue:
    """The read state of a conversation: see ``steps.Prompt`` for the meaning of the members."""

    system: str
    history: tuple[Utterance, ...]
    text: str
    pictures: tuple[Picture, ...]

    @property
    def size(self) -> int:
        """Characters of text in all."""
        return len(self.system) + len(self.text) + sum(len(one.text) for one in self.history)

    @property
    def results(self) -> tuple[str, ...]:
        """The texts of the tool results that the history ends with, calls between them allowed."""
        tail: list[str] = []
        for utterance in reversed(self.history):
            if utterance.role == "tool":
                tail.append(utterance.text)
            elif utterance.role != "call" or not tail:
                break
        return tuple(reversed(tail))

    @property
    def asked(self) -> str:
        """The last user text of the history."""
        return next((one.text for one in reversed(self.history) if one.role == "user"), "")


async def read(request: pb.AgentRunRequest, fetch: Fetch) -> Dialogue:
    """Reads everything the request refers to. Raises ``Failure`` for blobs that are missing or make no sense."""
    state = request.conversation_state
    blobs = await fetch([*state.root_prompt_messages_json, *state.turns])
    root = [_root_message(blobs[identifier]) for identifier in state.root_prompt_messages_json]
    system = "\n\n".join(one.text for one in root if one.role == "system")
    if state.turns:
        history = await _read_turns([_parse(pb.ConversationTurnStructure, blobs[one]) for one in state.turns], fetch)
    else:
        history = tuple(one for one in root if one.role != "system")
    message = request.action.user_message_action.user_message
    return Dialogue(system, history, message.text, await _pictures(message, fetch))


async def _read_turns(turns: list[pb.ConversationTurnStructure], fetch: Fetch) -> tuple[Utterance, ...]:
    wanted: list[bytes] = []
    for turn in turns:
        inner = turn.agent_conversation_turn
        wanted += [*([inner.user_message] if inner.user_message else []), *inner.steps]
    blobs = await fetch(wanted)
    history: list[Utterance] = []
    for turn in turns:
        inner = turn.agent_conversation_turn
        if inner.user_message:
            message = _parse(pb.UserMessage, blobs[inner.user_message])
            history.append(Utterance("user", message.text, pictures=await _pictures(message, fetch)))
        for identifier in inner.steps:
            history += _step(_parse(pb.ConversationStep, blobs[identifier]))
    return tuple(history)


def _step(step: pb.ConversationStep) -> list[Utterance]:
    match step.WhichOneof("message"):
        case "assistant_message":
            return [Utterance("assistant", step.assistant_message.text)]
        case "thinking_message":
            return [Utterance("thinking", step.thinking_message.text)]
        case "tool_call" if step.tool_call.WhichOneof("tool") == "mcp_tool_call":
            return _tool_call(step.tool_call.mcp_tool_call)
    raise refusal(f"{UNRESOLVED}: a step of an unknown kind")


def _tool_call(call: pb.McpToolCall) -> list[Utterance]:
    name = call.args.tool_name or call.args.name
    arguments = {key: messages.schema_of(value) for key, value in call.args.args.items()}
    said = [Utterance("call", messages.arguments_text(dict(sorted(arguments.items()))), name)]
    if call.HasField("result"):
        said.append(result(call.result, name))
    return said


def result(answer: pb.McpResult, name: str) -> Utterance:
    """A call's result as something that was said; a refusal of any kind is its error text."""
    kind = answer.WhichOneof("result")
    if kind != "success":
        member = getattr(answer, kind) if kind else None
        return Utterance("tool", str(getattr(member, "error", "") or getattr(member, "reason", "")), name)
    texts: list[str] = []
    pictures: list[Picture] = []
    for item in answer.success.content:
        if item.HasField("image"):
            pictures.append(Picture(item.image.mime_type, item.image.data))
        else:
            texts.append(item.text.text)
    return Utterance("tool", "\n".join(texts), name, tuple(pictures))


async def _pictures(message: pb.UserMessage, fetch: Fetch) -> tuple[Picture, ...]:
    images = message.selected_context.selected_images
    blobs = await fetch([image.blob_id for image in images if image.WhichOneof("data_or_blob_id") == "blob_id"])
    pictures: list[Picture] = []
    for image in images:
        match image.WhichOneof("data_or_blob_id"):
            case "data":
                data = image.data
            case "blob_id":
                data = blobs[image.blob_id]
            case "blob_id_with_data":
                checks.check_blob(image.blob_id_with_data.blob_id, image.blob_id_with_data.data)
                data = image.blob_id_with_data.data
            case _:
                raise refusal("an image without data")
        pictures.append(Picture(image.mime_type, data))
    return tuple(pictures)


def _root_message(data: bytes) -> Utterance:
    try:
        message = json.loads(data)
        return Utterance(str(message["role"]), _content_text(message["content"]))
    except (ValueError, KeyError, TypeError):
        raise refusal(f"{UNRESOLVED}: a root prompt blob is not a JSON message") from None


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content if "text" in part)


def _parse(kind: type[checks.AnyMessage], data: bytes) -> checks.AnyMessage:
    return checks.parse(kind, data, f"{UNRESOLVED}: a blob is no {kind.__name__}")
