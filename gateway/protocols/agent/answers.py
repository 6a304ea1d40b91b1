"""What a client owes the server during a run: an unanswered question is a run that stands still.

Every exec is answered in its own shape or thrown, every approval question is refused under its own field number, so
nothing ever runs outside the caller's tools. Answers are given as ``AgentClientMessage`` bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.protocols.agent.history import write_result
from gateway.protocols.agent.values import unknown_messages
from ir.images import sniff
from ir.request import ToolResult
from protobufs import agent_v1_pb2 as pb

REFUSAL = "This tool is not available here. Use only the tools that the user provided."
NO_RESOURCE = "There is no such resource."
UNSUPPORTED = "not supported"

STORE_LIMIT = 16 * 1024 * 1024  # bytes of one run's blobs and files that the server may make us keep

Fill = Callable[[Any, Any], None]


def heartbeat() -> bytes:
    return pb.AgentClientMessage(client_heartbeat=pb.ClientHeartbeat()).SerializeToString()


def approve(exec_message: pb.ExecServerMessage) -> bytes:
    """The answer to a permission probe for one of the caller's tools."""
    answer = _answer_to(exec_message)
    answer.mcp_result.approved.SetInParent()
    return _seal(answer)


def tool_result(number: int, exec_id: str, result: ToolResult) -> bytes:
    """The result of a caller's tool, for the exec with these ids that ordered the call."""
    answer = pb.ExecClientMessage(id=number, exec_id=exec_id)
    write_result(answer.mcp_result.success, result)
    return _seal(answer)


def request_context(exec_message: pb.ExecServerMessage, tools: Sequence[pb.McpToolDefinition]) -> bytes:
    """An almost empty workspace; the tools are listed here again, or the model does not know them."""
    answer = _answer_to(exec_message)
    context = answer.request_context_result.success.request_context
    context.env.os_version = "linux"
    context.tools.extend(tools)
    return _seal(answer)


def refuse(exec_message: pb.ExecServerMessage, kind: str | None) -> list[bytes]:
    """The refusal of a native exec; a kind without a known shape is thrown."""
    fill = _REFUSALS.get(kind or "")
    if fill is None:
        control = pb.ExecClientControlMessage(throw=pb.ExecClientThrow(id=exec_message.id, error=UNSUPPORTED))
        return [_control(control), _close(exec_message.id)]
    answer = _answer_to(exec_message)
    fill(answer, getattr(exec_message, kind or ""))
    if kind == "shell_stream_args":
        return [_seal(answer), _close(exec_message.id)]
    return [_seal(answer)]


def reject_query(query: pb.InteractionQuery) -> bytes:
    """The refusal of an approval question, under the question's own field number, known to us or not."""
    response = pb.InteractionResponse(id=query.id)
    kind = query.WhichOneof("query")
    if kind == "ask_question_interaction_query":
        response.ask_question_interaction_response.result.rejected.reason = REFUSAL
    elif kind == "create_plan_request_query":
        response.create_plan_request_response.result.error.error = REFUSAL
    else:
        rejected = pb.ApprovalResponse(rejected=pb.Rejected(reason=REFUSAL)).SerializeToString()
        for number in _query_numbers(query, kind):
            response.MergeFromString(_tag(number) + _varint(len(rejected)) + rejected)
    return pb.AgentClientMessage(interaction_response=response).SerializeToString()


class Store:
    """The run's blobs and the files of an image turn, in memory and bounded; nothing touches a disk."""

    def __init__(self, blobs: Mapping[bytes, bytes], images: Mapping[str, bytes]) -> None:
        self._blobs = blobs
        self._images = images
        self._set: dict[bytes, bytes] = {}
        self._files: dict[str, bytes] = {}
        self._room = STORE_LIMIT

    @property
    def kept(self) -> int:
        """Bytes that the server has made us keep."""
        return STORE_LIMIT - max(self._room, 0)

    def answer_kv(self, message: pb.KvServerMessage) -> bytes:
        answer = pb.KvClientMessage(id=message.id)
        if message.HasField("span_context"):
            answer.span_context.CopyFrom(message.span_context)
        if message.WhichOneof("message") == "set_blob_args":
            args = message.set_blob_args
            answer.set_blob_result.SetInParent()
            if self._has_room(args.blob_data):
                self._set[args.blob_id] = args.blob_data
            else:
                answer.set_blob_result.error.message = "the blob store is full"
        else:
            blob_id = message.get_blob_args.blob_id
            data = self._blobs.get(blob_id, self._set.get(blob_id))
            answer.get_blob_result.SetInParent()  # without data: not found
            if data is not None:
                answer.get_blob_result.blob_data = data
        return pb.AgentClientMessage(kv_client_message=answer).SerializeToString()

    def answer_file(self, exec_message: pb.ExecServerMessage, kind: str) -> bytes | None:
        """The answer when an image turn writes an image into its assets or reads one back; else ``None``."""
        if not self._images:
            return None
        if kind == "write_args":
            return self._write(exec_message)
        return self._read(exec_message) if kind == "read_args" else None

    def _write(self, exec_message: pb.ExecServerMessage) -> bytes | None:
        args = exec_message.write_args
        is_image = "assets/" in args.path and sniff(args.file_bytes[:16])
        if not is_image or not self._has_room(args.file_bytes):
            return None
        self._files[args.path] = args.file_bytes
        answer = _answer_to(exec_message)
        answer.write_result.success.path = args.path
        answer.write_result.success.file_size = len(args.file_bytes)
        return _seal(answer)

    def _read(self, exec_message: pb.ExecServerMessage) -> bytes | None:
        path = exec_message.read_args.path
        data = self._files.get(path, self._images.get(path.rpartition("/")[2]))
        if data is None:
            return None
        answer = _answer_to(exec_message)
        success = answer.read_result.success
        success.path, success.file_size, success.data = path, len(data), data
        return _seal(answer)

    def _has_room(self, data: bytes) -> bool:
        self._room -= len(data)
        return self._room >= 0


def _answer_to(exec_message: pb.ExecServerMessage) -> pb.ExecClientMessage:
    """An empty answer with the question's ids."""
    return pb.ExecClientMessage(id=exec_message.id, exec_id=exec_message.exec_id)


def _seal(answer: pb.ExecClientMessage) -> bytes:
    """The answer in its envelope. The id is written even when it is 0, which proto3 would leave out."""
    body = answer.SerializeToString(deterministic=True)
    if not answer.id:
        body = b"\x08\x00" + body
    return b"\x12" + _varint(len(body)) + body


def _control(control: pb.ExecClientControlMessage) -> bytes:
    return pb.AgentClientMessage(exec_client_control_message=control).SerializeToString()


def _close(exec_id: int) -> bytes:
    return _control(pb.ExecClientControlMessage(stream_close=pb.ExecClientStreamClose(id=exec_id)))


def _query_numbers(query: pb.InteractionQuery, kind: str | None) -> list[int]:
    if kind is not None:
        return [pb.InteractionQuery.DESCRIPTOR.fields_by_name[kind].number]
    return [number for number, _ in unknown_messages(query)]


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _refuse_shell(answer: pb.ExecClientMessage, args: pb.ShellArgs) -> None:
    rejected = answer.shell_result.rejected
    rejected.command, rejected.working_directory, rejected.reason = args.command, args.working_directory, REFUSAL


def _refuse_shell_stream(answer: pb.ExecClientMessage, args: pb.ShellArgs) -> None:
    rejected = answer.shell_stream.rejected
    rejected.command, rejected.working_directory, rejected.reason = args.command, args.working_directory, REFUSAL


def _refuse_background_shell(answer: pb.ExecClientMessage, args: pb.BackgroundShellSpawnArgs) -> None:
    rejected = answer.background_shell_spawn_result.rejected
    rejected.command, rejected.working_directory, rejected.reason = args.command, args.working_directory, REFUSAL


def _refuse_path(field: str) -> Fill:
    def fill(answer: pb.ExecClientMessage, args: Any) -> None:
        rejected = getattr(answer, field).rejected
        rejected.path, rejected.reason = args.path, REFUSAL

    return fill


def _refuse_grep(answer: pb.ExecClientMessage, args: pb.GrepArgs) -> None:
    answer.grep_result.error.error = REFUSAL


def _refuse_fetch(answer: pb.ExecClientMessage, args: pb.FetchArgs) -> None:
    answer.fetch_result.error.url, answer.fetch_result.error.error = args.url, REFUSAL


def _list_no_resources(answer: pb.ExecClientMessage, args: pb.Empty) -> None:
    answer.list_mcp_resources_exec_result.success.SetInParent()


def _refuse_resource(answer: pb.ExecClientMessage, args: pb.Empty) -> None:
    answer.read_mcp_resource_exec_result.error.error = NO_RESOURCE


_LENGTH_DELIMITED = 2

_REFUSALS: Mapping[str, Fill] = {
    "shell_args": _refuse_shell,
    "shell_stream_args": _refuse_shell_stream,
    "background_shell_spawn_args": _refuse_background_shell,
    "write_args": _refuse_path("write_result"),
    "delete_args": _refuse_path("delete_result"),
    "read_args": _refuse_path("read_result"),
    "ls_args": _refuse_path("ls_result"),
    "diagnostics_args": _refuse_path("diagnostics_result"),
    "grep_args": _refuse_grep,
    "fetch_args": _refuse_fetch,
    "list_mcp_resources_args": _list_no_resources,
    "read_mcp_resource_args": _refuse_resource,
}
