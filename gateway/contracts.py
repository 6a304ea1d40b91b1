"""The small contracts between the rooms of the data plane. Pure: types only.

A protocol is two roles. As *server* it is a module with ``decode_request``, ``encode_response``, ``stream`` and
``encode_error``; as *client* it is a module with ``encode_request``, ``stream`` and ``classify``. Both are sans-IO:
bytes in, events out, or events in, bytes out. An upstream is the part that owns a socket and drives a client role.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from accounts.channels import ChannelView
from ir.errors import ApiError, Fault
from ir.events import Event
from ir.request import Request, ToolResult
from ir.response import Response


def _no_seal(data: bytes) -> bytes:
    raise RuntimeError("this answer was given no seal")


class ResponseMeta(Struct, frozen=True):
    """What an encoder needs beside the events.

    ``response_id`` is bare (each protocol adds its prefix); ``created`` in Unix seconds; ``model`` as the caller
    named it; ``sign`` makes our opaque signature for a reasoning text; ``seal`` makes bytes opaque, for this tenant
    alone to give back; ``input_tokens`` is the estimate shown before the real count is known.
    """

    response_id: str
    created: int
    model: str
    expose_reasoning: bool = False
    input_tokens: int = 0
    sign: Callable[[str], str] = lambda text: ""
    seal: Callable[[bytes], bytes] = _no_seal


class ServerStream(Protocol):
    """Events in, wire bytes out, for one streamed answer. Empty bytes mean: nothing to send for this."""

    def send(self, event: Event) -> bytes: ...

    def fail(self, error: ApiError) -> bytes:
        """The error in band, after the commit point. Nothing may follow it."""
        ...

    def idle(self, alive: bool) -> bytes:
        """A keepalive; ``alive`` tells whether the upstream showed life since the last one."""
        ...


class ErrorReply(Struct, frozen=True):
    """A whole error answer: status, protocol headers (beside content type and request id), JSON body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ServerRole(Protocol):
    """We are the server. ``decode_request`` takes parsed JSON of any shape and raises ``ApiError``."""

    def decode_request(self, body: object) -> Request: ...

    def encode_response(self, response: Response, request: Request, meta: ResponseMeta) -> bytes: ...

    def stream(self, request: Request, meta: ResponseMeta) -> ServerStream: ...

    def encode_error(self, error: ApiError, request_id: str) -> ErrorReply: ...


class ClientStream(Protocol):
    """Wire bytes in, events out. Both raise ``Fault``; ``close`` raises it unless the end was regular.

    Events that came before a fault in the same read are given first: the fault then waits in ``fault``.
    """

    @property
    def fault(self) -> Fault | None: ...

    def feed(self, data: bytes) -> Sequence[Event]: ...

    def close(self) -> Sequence[Event]: ...


class ClientRole(Protocol):
    """We are the client. ``encode_request`` gives the JSON body, ``request_body`` what it is made of; ``model`` is the
    upstream's id."""

    def encode_request(self, request: Request, model: str) -> bytes: ...

    def request_body(self, request: Request, model: str) -> JsonObject: ...

    def stream(self) -> ClientStream: ...

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Fault: ...


class UnclosedThinking(StrEnum):
    """What thinking becomes that the end of the stream breaks off, where the caller is not shown thinking."""

    THINKING = "thinking"
    TEXT_IF_EMPTY = "text_if_empty"  # when there would be no answer without it
    TEXT = "text"


class Policy(Struct, frozen=True):
    """A key's switches for calls. ``stop_after_calls``: after a call no text is heard out where the upstream only
    takes text; None: only where a call is demanded. ``retries``: 0 to 2.

    ``kilo_tool_strict``: an orchestrator that expects a call in answer to everything its user says.
    ``strict_outcome``: a call that was demanded and never came is an error, not a text.
    """

    kilo_tool_strict: bool = False
    stop_after_calls: bool | None = None
    retries: int = 1
    strict_outcome: bool = False
    unclosed_thinking: UnclosedThinking = UnclosedThinking.TEXT_IF_EMPTY


DEFAULT_POLICY = Policy()


class Target(Struct, frozen=True):
    """Where one attempt goes: an account's way out, and the model as that upstream names it.

    ``credential`` is the bearer for this attempt (never logged: it is not part of any repr). ``channel`` is set for
    provider accounts alone. ``policy`` is the caller's.
    """

    account_id: int
    base_url: str
    model: str
    parameters: Mapping[str, str]
    credential: str
    client_type: str = ""
    client_version: str = ""
    proxy_url: str = ""
    context_tokens: int = 200_000
    channel: ChannelView | None = None
    policy: Policy = DEFAULT_POLICY
    max_mode: bool | None = None

    def __repr__(self) -> str:
        return f"Target(account_id={self.account_id}, model={self.model!r})"


class Clocks(Struct, frozen=True):
    """Time limits of one attempt, in seconds. ``tool_window``: quiet time after a tool call that closes the turn."""

    connect: float = 10.0
    first_token: float = 60.0
    idle: float = 90.0
    total: float = 900.0
    tool_window: float = 0.5


class Run(Protocol):
    """One attempt in flight. It owns its connection; ``close`` cancels the upstream and never raises.

    Iterating gives the events of one read at a time (never an empty list) and ends after ``Finish``;
    it raises ``Fault``, also when the upstream just stopped. ``last_sign`` is the loop time of the last byte
    that proved the upstream alive.
    """

    last_sign: float

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...

    async def close(self) -> None: ...


@runtime_checkable
class ParkableRun(Run, Protocol):
    """A run that can be kept open after an answer that ended with tool calls. See ``gateway.parked``.

    ``waits``: the answer is whole and the upstream waits for results. After ``park`` it can be resumed until ``lost``
    was called; ``resume`` takes the results of all open calls, raises ``Fault`` when the stream was lost all the same,
    and has the run iterated over again. ``weight`` is what it keeps, in bytes; ``cancel`` is ``close`` without a wait.
    """

    @property
    def waits(self) -> bool: ...

    @property
    def weight(self) -> int: ...

    def park(self, lost: Callable[[], object]) -> None: ...

    async def resume(self, request: Request, results: Sequence[ToolResult], clocks: Clocks) -> None: ...

    def cancel(self) -> None: ...


class Upstream(Protocol):
    """A kind of upstream. ``open`` raises ``Fault`` when the attempt fails before a stream is there."""

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> Run: ...

    async def close(self) -> None:
        """Lets go of pooled connections, at shutdown."""
        ...


JsonObject = dict[str, Any]
