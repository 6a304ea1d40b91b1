"""A request as the first message of a run, with the blobs that the upstream may ask for.

The upstream keeps nothing between runs, so each run carries the whole history, in the two forms that are known to
work, side by side: root prompt blobs (JSON, one a message) and turn blobs (``history``). The last user message is the
run's action; when it holds only tool results, a short text of ours asks to go on from them. Blobs are content
addressed (SHA-256), sent ahead, and served again when asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

import orjson
from msgspec import Struct

from gateway.protocols.agent import history, values
from gateway.protocols.agent.names import PREFIX, PROVIDER, Names, wire_name
from ir.request import Image, Message, Request, Text, Tool, ToolChoice, ToolMode, ToolResult
from protobufs import agent_v1_pb2 as pb

ASK, AGENT = pb.AGENT_MODE_ASK, pb.AGENT_MODE_AGENT

GO_ON_FROM_RESULTS = "The results of your tool calls are already in the conversation above. Continue from them."
GO_ON_FROM_TEXT = "Continue your last message from exactly where it stops, without repeating any of it."
MUST_CALL = "You must call at least one of the provided tools in this turn. Do not answer with text alone."

_CACHED_TOOL_BYTES = 16 * 1024
_NO_SCHEMA = b'{"properties":{},"type":"object"}'


class Ids(Struct, frozen=True):
    """Fresh ids of one run, in the upstream's form (UUID text); ``run`` "" leaves the field out."""

    conversation: str
    message: str
    run: str = ""


class RunRequest(Struct, frozen=True):
    """What a run needs: ``first`` opens it, the rest answers the upstream's questions during it.

    ``images`` are the bytes of the action's images by their virtual path; ``call_ids`` the ids that the history
    already uses; ``parallel`` whether more than one tool call may end the turn.
    """

    first: bytes
    blobs: Mapping[bytes, bytes]
    tools: Sequence[pb.McpToolDefinition]
    names: Names
    conversation: str
    images: Mapping[str, bytes] = {}
    call_ids: frozenset[str] = frozenset()
    parallel: bool = True

    @property
    def allowed_tools(self) -> str:
        """The value of the header that hides the upstream's own tools; empty hides all."""
        return "mcp_tool_call" if self.tools else ""


class Blobs(dict[bytes, bytes]):
    """A content-addressed store."""

    def put(self, data: bytes) -> bytes:
        """Stores ``data`` and returns its id, 32 bytes."""
        key = hashlib.sha256(data).digest()
        self[key] = data
        return key


def encode_request(
    request: Request, model: str, parameters: Mapping[str, str], ids: Ids, *, max_mode: bool | None = None
) -> RunRequest:
    """``model`` is the upstream's id, ``parameters`` what that model declares; both are sent as they are. ``max_mode``
    None is left out, which is not the same as false."""
    offered = offered_tools(request.tools, request.tool_choice)
    tools = [_definition(tool) for tool in offered]
    mode = AGENT if tools else ASK
    past, current = _split(request.messages)
    blobs = Blobs()
    images = _action_images(request.messages, current)

    message = pb.AgentClientMessage()
    run = message.run_request
    state = run.conversation_state
    state.mode = mode
    state.root_prompt_messages_json.extend(
        blobs.put(text) for text in history.root_prompt(_system_text(request, bool(tools)), past)
    )
    state.turns.extend(history.put_turns(past, mode, ids.conversation, blobs.put))
    _write_action(run, _action_text(request.messages, current), images, mode, ids)
    run.mcp_tools.mcp_tools.extend(tools)
    run.conversation_id = ids.conversation
    run.requested_model.model_id = model
    if max_mode is not None:
        run.requested_model.max_mode = max_mode
    for name in sorted(parameters):
        run.requested_model.parameters.add(id=name, value=parameters[name])
    run.pre_fetched_blobs.extend(pb.PreFetchedBlob(id=key, value=data) for key, data in blobs.items())
    if request.images():
        run.client_supports_inline_images = True
    if ids.run:
        run.run_id = ids.run
    return RunRequest(
        first=message.SerializeToString(deterministic=True),
        blobs=blobs,
        tools=tools,
        names=Names(tool.name for tool in offered),
        conversation=ids.conversation,
        images={image_path(position, image): image.data for position, image in enumerate(images)},
        call_ids=history.call_ids(request.messages),
        parallel=request.parallel_tool_calls is not False,
    )


def offered_tools(tools: Sequence[Tool], choice: ToolChoice) -> Sequence[Tool]:
    """The tools a choice leaves: the upstream knows no such switch, so a tool that may not be called is not shown."""
    match choice.mode:
        case ToolMode.NONE:
            return ()
        case ToolMode.NAMED | ToolMode.ALLOWED:
            return [tool for tool in tools if tool.name in choice.names]
        case _:
            return tools


def image_path(position: int, image: Image) -> str:
    """The virtual file name of an image of the action."""
    return f"image-{position + 1}.{image.media_type.removeprefix('image/')}"


def _split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Text | Image]]:
    """The history, and what the last user message says beside results. Results always belong to the history."""
    if not messages or messages[-1].role != "user":
        return messages, ()
    last = messages[-1]
    results = tuple(part for part in last.content if isinstance(part, ToolResult))
    current = [part for part in last.content if isinstance(part, Text | Image)]
    past = messages[:-1]
    return ((*past, Message("user", results)) if results else past), current


def _action_text(messages: Sequence[Message], current: Sequence[Text | Image]) -> str:
    if current:
        return "\n\n".join(part.text for part in current if isinstance(part, Text))
    answered = bool(messages) and messages[-1].role == "user"
    return GO_ON_FROM_RESULTS if answered else GO_ON_FROM_TEXT


def _action_images(messages: Sequence[Message], current: Sequence[Text | Image]) -> Sequence[Image]:
    """The images the model has to look at now: those of the last message, the ones in its results first."""
    parts = messages[-1].content if messages and messages[-1].role == "user" else ()
    results = [part.content for part in parts if isinstance(part, ToolResult) and not isinstance(part.content, str)]
    shown = [item for content in results for item in content if isinstance(item, Image)]
    return [*shown, *(part for part in current if isinstance(part, Image))]


def _write_action(run: pb.AgentRunRequest, text: str, images: Sequence[Image], mode: int, ids: Ids) -> None:
    action = run.action.user_message_action
    action.request_context.SetInParent()  # a run without it never starts
    user = action.user_message
    user.text = text
    user.message_id = ids.message
    user.mode = mode
    for position, image in enumerate(images):
        user.selected_context.selected_images.add(
            uuid=history.derived_id(ids.message, f"image-{position}"),
            path=image_path(position, image),
            mime_type=image.media_type,
            data=image.data,
        )


def _system_text(request: Request, has_tools: bool) -> str:
    """The caller's system text, and the one sentence by which a demanded call can be asked for."""
    choice = request.tool_choice
    if not has_tools or not choice.demands_call:
        return request.system
    demand = MUST_CALL
    if choice.mode is ToolMode.NAMED:
        demand = f"You must call the tool {wire_name(choice.names[0])} in this turn. Do not answer with text alone."
    return f"{request.system}\n\n{demand}" if request.system else demand


def _definition(tool: Tool) -> pb.McpToolDefinition:
    schema = orjson.dumps(tool.schema, option=orjson.OPT_SORT_KEYS) if tool.schema else _NO_SCHEMA
    build = _cached_definition if len(schema) + len(tool.description) <= _CACHED_TOOL_BYTES else _build_definition
    return build(tool.name, tool.description, schema)


def _build_definition(name: str, description: str, schema: bytes) -> pb.McpToolDefinition:
    bare = wire_name(name)
    definition = pb.McpToolDefinition(
        name=PREFIX + bare, description=description, provider_identifier=PROVIDER, tool_name=bare
    )
    data = orjson.loads(schema)
    data.setdefault("type", "object")
    if values.fits(data):
        values.fill(definition.input_schema, data)
    else:
        definition.input_schema_json = schema.decode()
    return definition


# Agents send the same tools with every turn; building one costs far more than looking it up.
_cached_definition = lru_cache(maxsize=2048)(_build_definition)
