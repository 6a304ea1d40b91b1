"""The upstream's own tools: how each is ordered, and which answers count as a proper refusal.

A fake success is worse than a refusal, so it does not count: the model would believe that a file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from protobufs import agent_v1_pb2 as pb
from simulator import messages
from simulator.line import Line
from simulator.runs import Answer
from simulator.steps import Picture

PATH = "/workspace/notes.txt"
Order = Callable[[], pb.ExecServerMessage]


def _shell_args() -> pb.ShellArgs:
    return pb.ShellArgs(command="ls -la", working_directory="/workspace", timeout=30000, tool_call_id="native_1")


def _unknown() -> pb.ExecServerMessage:
    message = pb.ExecServerMessage()
    message.MergeFromString(messages.UNKNOWN_EXEC)
    return message


# kind → (the order, the member that answers it, the variants of that member that refuse)
NATIVES: Mapping[str, tuple[Order, str, frozenset[str]]] = {
    "shell": (
        lambda: pb.ExecServerMessage(shell_args=_shell_args()),
        "shell_result",
        frozenset({"rejected"}),
    ),
    "shell_stream": (
        lambda: pb.ExecServerMessage(shell_stream_args=_shell_args()),
        "shell_stream",
        frozenset({"rejected"}),
    ),
    "background_shell": (
        lambda: pb.ExecServerMessage(background_shell_spawn_args=pb.BackgroundShellSpawnArgs(command="sleep 1")),
        "background_shell_spawn_result",
        frozenset({"rejected"}),
    ),
    "write": (
        lambda: pb.ExecServerMessage(write_args=pb.WriteArgs(path=PATH, file_text="x")),
        "write_result",
        frozenset({"rejected", "error"}),
    ),
    "delete": (
        lambda: pb.ExecServerMessage(delete_args=pb.DeleteArgs(path=PATH)),
        "delete_result",
        frozenset({"rejected"}),
    ),
    "grep": (
        lambda: pb.ExecServerMessage(grep_args=pb.GrepArgs(pattern="x", path="/workspace")),
        "grep_result",
        frozenset({"error"}),
    ),
    "read": (
        lambda: pb.ExecServerMessage(read_args=pb.ReadArgs(path=PATH)),
        "read_result",
        frozenset({"rejected", "error"}),
    ),
    "ls": (
        lambda: pb.ExecServerMessage(ls_args=pb.LsArgs(path="/workspace")),
        "ls_result",
        frozenset({"rejected", "error"}),
    ),
    "diagnostics": (
        lambda: pb.ExecServerMessage(diagnostics_args=pb.DiagnosticsArgs(path=PATH)),
        "diagnostics_result",
        frozenset({"rejected", "error"}),
    ),
    "list_mcp_resources": (
        lambda: pb.ExecServerMessage(list_mcp_resources_args=pb.Empty()),
        "list_mcp_resources_exec_result",
        frozenset({"success", "error"}),
    ),
    "read_mcp_resource": (
        lambda: pb.ExecServerMessage(read_mcp_resource_args=pb.Empty()),
        "read_mcp_resource_exec_result",
        frozenset({"error"}),
    ),
    "fetch": (
        lambda: pb.ExecServerMessage(fetch_args=pb.FetchArgs(url="https://example.com/")),
        "fetch_result",
        frozenset({"error"}),
    ),
    "unknown": (_unknown, "", frozenset()),
}


async def refused(kind: str, line: Line) -> bool:
    """Orders a native tool; whether the client refused it properly, or threw it."""
    make, member, variants = NATIVES[kind]
    answer = await line.execute(make())
    if isinstance(answer, pb.ExecClientThrow):
        return True
    if _variant(answer, member) not in variants:
        return False
    if kind == "shell_stream":
        await line.closed()
    return True


async def stored(pictures: tuple[Picture, ...], line: Line) -> bool:
    """Writes every image to the client's workspace and reads it back; whether the bytes came back whole."""
    for number, picture in enumerate(pictures, 1):
        path = f"/workspace/assets/image-{number}.{picture.media_type.rpartition('/')[2]}"
        written = await line.execute(pb.ExecServerMessage(write_args=pb.WriteArgs(path=path, file_bytes=picture.data)))
        if _variant(written, "write_result") != "success":
            return False
        answer = await line.execute(pb.ExecServerMessage(read_args=pb.ReadArgs(path=path)))
        if not isinstance(answer, pb.ExecClientMessage) or answer.read_result.success.data != picture.data:
            return False
    return True


def _variant(answer: Answer, member: str) -> str | None:
    if not isinstance(answer, pb.ExecClientMessage) or answer.WhichOneof("message") != member:
        return None
    variant: str | None = getattr(answer, member).WhichOneof("event" if member == "shell_stream" else "result")
    return variant
