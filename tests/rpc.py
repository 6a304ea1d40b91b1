"""A small Agent RPC client that does everything right, except what a test tells it to do wrong.

It is not the product's: the simulator's tests must not depend on what they help to test.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from google.protobuf import json_format

from protobufs import agent_v1_pb2 as pb

STREAM = "application/connect+proto"
UNARY = "application/proto"
RUN_SSE = "/agent.v1.AgentService/RunSSE"
APPEND = "/aiserver.v1.BidiService/BidiAppend"
MODELS = "/agent.v1.AgentService/GetUsableModels"
EXCHANGE = "/auth/exchange_user_api_key"

Change = Callable[[pb.AgentRunRequest], None]


def frame(payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(payload)) + payload


def unpack(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Whole envelopes as (flags, payload as sent), and the rest."""
    frames = []
    while len(data) >= 5:
        flags, size = struct.unpack(">BI", data[:5])
        if len(data) < 5 + size:
            break
        frames.append((flags, data[5 : 5 + size]))
        data = data[5 + size :]
    return frames, data


def tool(name: str, schema: dict[str, Any] | None = None, description: str = "") -> pb.McpToolDefinition:
    definition = pb.McpToolDefinition(
        name=f"gw-{name}", description=description, provider_identifier="gw", tool_name=name
    )
    json_format.ParseDict(schema or {"type": "object", "properties": {}}, definition.input_schema)
    return definition


WEATHER = tool(
    "get_weather",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["city", "days"],
    },
    "Weather by city",
)


@dataclass
class Blobs:
    """The client's blob store."""

    data: dict[bytes, bytes] = field(default_factory=dict)

    def put(self, value: bytes) -> bytes:
        identifier = hashlib.sha256(value).digest()
        self.data[identifier] = value
        return identifier

    def put_json(self, role: str, content: object) -> bytes:
        return self.put(json.dumps({"role": role, "content": content}, separators=(",", ":")).encode())


def request(
    model: str,
    text: str,
    blobs: Blobs,
    *,
    system: str = "",
    tools: Sequence[pb.McpToolDefinition] = (),
    parameters: dict[str, str] | None = None,
    turns: Sequence[bytes] = (),
) -> pb.AgentRunRequest:
    """A run request as a good client sends it."""
    run = pb.AgentRunRequest(conversation_id=str(uuid.uuid4()))
    state = run.conversation_state
    state.mode = pb.AGENT_MODE_AGENT if tools else pb.AGENT_MODE_ASK
    if system:
        state.root_prompt_messages_json.append(blobs.put_json("system", system))
    state.turns.extend(turns)
    action = run.action.user_message_action
    action.user_message.text = text
    action.user_message.mode = state.mode
    action.request_context.SetInParent()
    run.mcp_tools.mcp_tools.extend(tools)
    run.requested_model.model_id = model
    for name, value in sorted((parameters or {}).items()):
        run.requested_model.parameters.add(id=name, value=value)
    return run


def turn(blobs: Blobs, text: str, *steps: pb.ConversationStep) -> bytes:
    """One structured turn of history as a blob id."""
    inner = pb.AgentConversationTurnStructure(
        user_message=blobs.put(pb.UserMessage(text=text).SerializeToString()),
        steps=[blobs.put(step.SerializeToString()) for step in steps],
    )
    return blobs.put(pb.ConversationTurnStructure(agent_conversation_turn=inner).SerializeToString())


def said(text: str) -> pb.ConversationStep:
    return pb.ConversationStep(assistant_message=pb.AssistantMessage(text=text))


def called(name: str, arguments: dict[str, Any], result: str, *, is_error: bool = False) -> pb.ConversationStep:
    call = pb.McpToolCall(args=pb.McpArgs(name=f"gw-{name}", tool_name=name, tool_call_id="call_1"))
    for key, value in arguments.items():
        json_format.ParseDict(value, call.args.args[key])
    call.result.CopyFrom(text_result(result, is_error=is_error))
    return pb.ConversationStep(tool_call=pb.ToolCall(mcp_tool_call=call))


def text_result(text: str, *, is_error: bool = False) -> pb.McpResult:
    item = pb.McpToolResultContentItem(text=pb.McpTextContent(text=text))
    return pb.McpResult(success=pb.McpSuccess(content=[item], is_error=is_error))


@dataclass
class Reply:
    """All that came back on one run."""

    status: int = 0
    content_type: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    messages: list[pb.AgentServerMessage] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    end: Any = None
    broken: str = ""
    append_status: int = 0
    append_body: bytes = b""
    append_headers: dict[str, str] = field(default_factory=dict)
    calls: list[pb.McpArgs] = field(default_factory=list)
    deltas: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.deltas)

    @property
    def thinking(self) -> str:
        return "".join(one.interaction_update.thinking_delta.text for one in self.messages)

    @property
    def heartbeats(self) -> int:
        return sum(one.interaction_update.HasField("heartbeat") for one in self.messages)

    @property
    def usage(self) -> pb.TurnEndedUpdate | None:
        for one in self.messages:
            if one.interaction_update.HasField("turn_ended"):
                return one.interaction_update.turn_ended
        return None

    @property
    def error(self) -> pb.ErrorDetails:
        """The decoded details of the error at the end of the stream."""
        return decode_details(self.end["error"])


def decode_details(error: dict[str, Any]) -> pb.ErrorDetails:
    value = error["details"][0]["value"]
    return pb.ErrorDetails.FromString(base64.b64decode(value + "=" * (-len(value) % 4)))


class Client:
    """Speaks for one account. The members are what a test can have it do wrong, or differently."""

    def __init__(self, http: aiohttp.ClientSession, url: str, token: str, blobs: Blobs | None = None) -> None:
        self.http = http
        self.url = url
        self.token = token
        self.blobs = blobs or Blobs()
        self.mute: set[str] = set()  # of: get, set, context, native, query, mcp
        self.context_tools: Sequence[pb.McpToolDefinition] = ()
        self.results: dict[str, pb.McpResult] = {}
        self.park = False
        self.spoil_exec_id = False
        self.gzip = False
        self.base = 0
        self.binary = False
        self.extra_headers: dict[str, str] = {}
        self.answer_native: Callable[[pb.ExecServerMessage], list[pb.AgentClientMessage] | None] | None = None
        self.answer_query: Callable[[pb.InteractionQuery], pb.InteractionResponse] | None = None
        self.files: dict[str, bytes] = {}
        self.on_delta: Callable[[str], None] | None = None

    @property
    def headers(self) -> dict[str, str]:
        headers = {"authorization": f"Bearer {self.token}", "connect-protocol-version": "1", **self.extra_headers}
        if self.gzip:
            headers["connect-accept-encoding"] = "gzip"
        return headers

    async def run(self, run: pb.AgentRunRequest, *, seconds: float = 5.0, append_first: bool = False) -> Reply:
        """One turn. Stops waiting after ``seconds``: then ``Reply.end`` is None and ``broken`` says ``silence``."""
        reply = Reply()
        request_id = str(uuid.uuid4())
        sender = Sender(self, request_id)
        self.context_tools = self.context_tools or list(run.mcp_tools.mcp_tools)
        try:
            async with asyncio.timeout(seconds):
                if append_first:
                    await self._start(sender, run, reply)
                await self._stream(sender, run, reply, append_first)
        except TimeoutError:
            reply.broken = "silence"
        except aiohttp.ClientError as error:
            reply.broken = type(error).__name__
        return reply

    async def _start(self, sender: Sender, run: pb.AgentRunRequest, reply: Reply) -> None:
        try:
            status, body, headers = await sender.send(pb.AgentClientMessage(run_request=run))
        except aiohttp.ClientError as error:
            reply.append_body = type(error).__name__.encode()
            return
        reply.append_status, reply.append_body, reply.append_headers = status, body, headers

    async def _stream(self, sender: Sender, run: pb.AgentRunRequest, reply: Reply, started: bool) -> None:
        body = frame(pb.BidiRequestId(request_id=sender.request_id).SerializeToString())
        headers = {**self.headers, "content-type": STREAM}
        async with self.http.post(self.url + RUN_SSE, data=body, headers=headers) as answer:
            reply.status, reply.content_type = answer.status, answer.content_type
            reply.headers = {name.lower(): value for name, value in answer.headers.items()}
            if answer.status != 200 or answer.content_type != STREAM:
                reply.body = await answer.read()
                return
            if not started:
                await self._start(sender, run, reply)
            rest = b""
            async for data in answer.content.iter_any():
                frames, rest = unpack(rest + data)
                for flags, payload in frames:
                    if not await self._take(sender, reply, flags, payload):
                        return
            reply.body = rest
            if reply.end is None:
                reply.broken = "eof"

    async def _take(self, sender: Sender, reply: Reply, flags: int, payload: bytes) -> bool:
        reply.flags.append(flags)
        if flags & 1:
            payload = gzip.decompress(payload)
        if flags & 2:
            reply.end = json.loads(payload or b"{}")
            return True
        message = pb.AgentServerMessage.FromString(payload)
        reply.messages.append(message)
        if message.interaction_update.HasField("text_delta"):
            reply.deltas.append(message.interaction_update.text_delta.text)
            if self.on_delta:
                self.on_delta(reply.deltas[-1])
        if message.exec_server_message.HasField("mcp_args"):
            reply.calls.append(message.exec_server_message.mcp_args)
        for answer in self.answers(message):
            await sender.send(answer)
        return True

    def answers(self, message: pb.AgentServerMessage) -> list[pb.AgentClientMessage]:
        match message.WhichOneof("message"):
            case "kv_server_message":
                return self._answer_kv(message.kv_server_message)
            case "exec_server_message":
                return self._answer_exec(message.exec_server_message)
            case "interaction_query" if "query" not in self.mute:
                return [self._answer_query(message.interaction_query)]
        return []

    def _answer_kv(self, kv: pb.KvServerMessage) -> list[pb.AgentClientMessage]:
        answer = pb.KvClientMessage(id=kv.id)
        if kv.HasField("set_blob_args"):
            assert self.blobs.put(kv.set_blob_args.blob_data) == kv.set_blob_args.blob_id
            if "set" in self.mute:
                return []
            answer.set_blob_result.SetInParent()
        else:
            if "get" in self.mute:
                return []
            answer.get_blob_result.SetInParent()
            if (data := self.blobs.data.get(kv.get_blob_args.blob_id)) is not None:
                answer.get_blob_result.blob_data = data
        return [pb.AgentClientMessage(kv_client_message=answer)]

    def _answer_exec(self, order: pb.ExecServerMessage) -> list[pb.AgentClientMessage]:
        answer = pb.ExecClientMessage(id=order.id, exec_id="wrong" if self.spoil_exec_id else order.exec_id)
        match order.WhichOneof("message"):
            case "request_context_args":
                if "context" in self.mute:
                    return []
                answer.request_context_result.success.request_context.tools.extend(self.context_tools)
            case "mcp_args":
                if "mcp" in self.mute:
                    return []
                if order.mcp_args.smart_mode_approval_only:
                    answer.mcp_result.approved.SetInParent()
                else:
                    answer.mcp_result.CopyFrom(self.results.get(order.mcp_args.tool_name, text_result("7C")))
            case "write_args" if order.write_args.file_bytes:
                self.files[order.write_args.path] = order.write_args.file_bytes
                answer.write_result.success.path = order.write_args.path
            case "read_args" if order.read_args.path in self.files:
                answer.read_result.success.data = self.files[order.read_args.path]
            case _:
                return self._refuse(order)
        return [pb.AgentClientMessage(exec_client_message=answer)]

    def _refuse(self, order: pb.ExecServerMessage) -> list[pb.AgentClientMessage]:
        if "native" in self.mute:
            return []
        if self.answer_native and (answers := self.answer_native(order)) is not None:
            return answers
        return [throw(order.id)]

    def _answer_query(self, query: pb.InteractionQuery) -> pb.AgentClientMessage:
        if self.answer_query:
            response = self.answer_query(query)
        else:
            response = pb.InteractionResponse(id=query.id)
            response.web_search_request_response.rejected.reason = "not here"
        return pb.AgentClientMessage(interaction_response=response)

    async def append(self, message: pb.BidiAppendRequest, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        sent = {**self.headers, "content-type": UNARY, **headers}
        sent_body = io.BytesIO(message.SerializeToString())
        async with self.http.post(self.url + APPEND, data=sent_body, headers=sent) as answer:
            body = await answer.read()
            return answer.status, body, {name.lower(): value for name, value in answer.headers.items()}


class Sender:
    """Numbers the appends of one run."""

    def __init__(self, client: Client, request_id: str) -> None:
        self.client = client
        self.request_id = request_id
        self.seqno = client.base

    async def send(self, message: pb.AgentClientMessage) -> tuple[int, bytes, dict[str, str]]:
        append = append_of(self.request_id, self.seqno, message, binary=self.client.binary)
        self.seqno += 1
        return await self.client.append(append)


def append_of(
    request_id: str, seqno: int, message: pb.AgentClientMessage, *, binary: bool = False
) -> pb.BidiAppendRequest:
    append = pb.BidiAppendRequest(request_id=pb.BidiRequestId(request_id=request_id), append_seqno=seqno)
    if binary:
        append.data_binary = message.SerializeToString()
    else:
        append.data = message.SerializeToString().hex()
    return append


def throw(number: int) -> pb.AgentClientMessage:
    control = pb.ExecClientControlMessage(throw=pb.ExecClientThrow(id=number, error="not supported"))
    return pb.AgentClientMessage(exec_client_control_message=control)


async def exchange(http: aiohttp.ClientSession, url: str, key: str) -> str:
    """The JWT of a key. Raises ``aiohttp.ClientResponseError`` for a refusal."""
    headers = {"authorization": f"Bearer {key}"}
    async with http.post(url + EXCHANGE, json={}, headers=headers, raise_for_status=True) as answer:
        return str((await answer.json())["accessToken"])


@asynccontextmanager
async def connect(url: str, key: str) -> AsyncIterator[Client]:
    """A client with a fresh token."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        yield Client(http, url, await exchange(http, url, key))
