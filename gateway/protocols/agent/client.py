"""One run of the Agent RPC, seen from the client: frames in, events out, and the answers that the run waits for.

A sans-IO machine for the driver in ``gateway.upstreams.agent_rpc``. The server talks in three voices. *Interaction
updates* are the output. *Exec*, *kv* and *query* messages are questions; each is answered at once (``answers``). A
call of a caller's tool is an exec too, and the one that stays open: the turn ends there, and the result comes with the
caller's next request. Either the run is given up and the result is part of a new one's history, or it is kept open
(``reopen``), gets its results (``answer``) and gives a further answer. Calls are collected until nothing more has come
for a while (``quiet``), since the server gives no sign that it was the last.

A turn ends well in two ways: ``turn_ended`` plus the end of the stream (or silence after it), or tool calls plus
silence. Everything else is a ``Fault``. A fault that comes in one read with events is kept in ``fault`` until those
are delivered. Source of the messages: ``protobufs/agent_v1.proto``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping

from google.protobuf.message import DecodeError

from gateway.protocols.agent import answers, values
from gateway.protocols.agent.classify import NO_SIZE, Size, classify_error, classify_http, parse_retry_after
from gateway.protocols.agent.encode import Ids, RunRequest, encode_request
from gateway.protocols.agent.text import TokenFilter
from gateway.wire.connect import FrameError, Reader
from ir.errors import Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import ToolResult
from ir.usage import Usage
from protobufs import agent_v1_pb2 as pb

__all__ = ["Ids", "RunRequest", "Size", "Turn", "call_id", "classify_http", "encode_request", "read_usage"]

NATIVE_REJECTIONS = 3  # per turn; a model that asks once more will not stop asking

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_parse = pb.AgentServerMessage.FromString


class Turn:
    """The state of one run. ``feed``, ``quiet`` and ``close`` raise ``Fault``.

    ``signs`` counts what proves that the model is at work (heartbeats do not); ``calls`` the tool calls so far;
    ``ended`` tells that ``turn_ended`` came, ``finished`` that ``Finish`` was given, ``missed`` that something was said
    after it; ``size`` works out how large the request was, which only an error asks for.
    """

    def __init__(
        self, run: RunRequest, size: Callable[[], Size] = lambda: NO_SIZE, *, input_includes_cache: bool = True
    ) -> None:
        self.signs = 0
        self.ended = False
        self.finished = self.missed = False
        self.fault: Fault | None = None
        self._run = run
        self.size = size
        self._input_includes_cache = input_includes_cache
        self._reader = Reader()
        self._store = answers.Store(run.blobs, run.images)
        self._outgoing: list[bytes] = []
        self._events: list[Event] = []
        self._started = False
        self._open: PartKind | None = None
        self._filter = TokenFilter()
        self._calls: dict[str, tuple[str, str]] = {}  # of this answer, by the upstream's id
        self._told: dict[str, tuple[str, str]] = {}  # of earlier answers of the run
        self._orders: dict[str, list[tuple[int, str]]] = {}  # the execs that wait for a result, by the caller's id
        self._rejections = 0
        self._usage = Usage()
        self._retry_after: float | None = None

    @property
    def calls(self) -> int:
        return len(self._calls)

    @property
    def weight(self) -> int:
        """Bytes that the run keeps in memory for the server to ask for."""
        return len(self._run.first) + sum(map(len, self._run.blobs.values())) + self._store.kept

    @property
    def stream_ended(self) -> bool:
        """The server said its last word; only the connection's own end is missing."""
        return self._reader.ended

    @property
    def stage(self) -> Stage:
        if self.ended:
            return Stage.END
        return Stage.CONTENT if self._started else Stage.PREAMBLE

    def announce(self, headers: Mapping[str, str]) -> None:
        """The response's headers (lower-case names): they tell whether envelopes may be compressed."""
        self._reader.gzip = headers.get("connect-content-encoding") == "gzip"
        self._retry_after = parse_retry_after(headers.get("retry-after", ""))

    def outgoing(self) -> list[bytes]:
        """The client messages to append, in order; each is given once."""
        out, self._outgoing = self._outgoing, []
        return out

    def feed(self, data: bytes) -> list[Event]:
        """The events of one read."""
        self._raise_kept()
        try:
            for payload in self._reader.feed(data):
                self._take(_parse(payload))
            if self._reader.ended:
                self._end_stream()
        except Fault as fault:
            self._keep(fault)
        except (FrameError, DecodeError):
            self._keep(Fault(Reason.PROTOCOL, self.stage, upstream_code="bad_frame"))
        return self._give()

    def quiet(self) -> list[Event]:
        """Nothing came for as long as is waited after ``turn_ended`` or after a tool call."""
        self._raise_kept()
        if not self.finished and (self.ended or self._calls):
            self._finish()
        return self._give()

    def reopen(self) -> None:
        """The answer that ended with calls is not the run's last: what the server says from here on is the next one."""
        self._told |= self._calls
        self._calls = {}
        self.finished = self._started = False
        self._rejections = 0

    def answer(self, results: Iterable[ToolResult]) -> None:
        """The results of all calls that are open. Raises ``KeyError`` for one that nobody ordered."""
        for result in results:
            for number, exec_id in self._orders.pop(result.call_id):
                self._outgoing.append(answers.tool_result(number, exec_id, result))

    def close(self) -> list[Event]:
        """The connection's end. A regular end has been seen by now; without it the answer was cut off."""
        self._raise_kept()
        if self.finished:
            return []
        raise Fault(Reason.CUT, self.stage, upstream_code="eof")

    def _raise_kept(self) -> None:
        if self.fault is not None:
            raise self.fault

    def _keep(self, fault: Fault) -> None:
        self.fault = fault
        if not self._events:
            raise fault

    def _give(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _take(self, message: pb.AgentServerMessage) -> None:
        if self.finished:
            self.missed = True
            return
        delta = message.interaction_update.text_delta
        if delta.text:  # by far the most frequent message, so it is asked for before the kind is
            if not delta.is_server_notice:
                self._write(PartKind.TEXT, delta.text)
            return
        match message.WhichOneof("message"):
            case "interaction_update":
                self._update(message.interaction_update)
            case "kv_server_message":
                self._outgoing.append(self._store.answer_kv(message.kv_server_message))
            case "exec_server_message":
                self._exec(message.exec_server_message)
            case "interaction_query":
                self._outgoing.append(answers.reject_query(message.interaction_query))
            case _:  # checkpoints, aborts, telemetry, and what newer servers say
                pass

    def _update(self, update: pb.InteractionUpdate) -> None:
        match update.WhichOneof("message"):
            case "thinking_delta":
                if update.thinking_delta.text:
                    self._write(PartKind.REASONING, update.thinking_delta.text)
            case "tool_call_started" | "partial_tool_call" | "token_delta":
                self.signs += 1  # an announcement is no call: only the exec is
            case "turn_ended":
                self.ended = True
                self._usage = read_usage(update.turn_ended, self._input_includes_cache)
            case _:
                pass

    def _write(self, kind: PartKind, text: str) -> None:
        self.signs += 1
        if kind is PartKind.TEXT:
            text = self._filter.feed(text)
            if not text:
                return
        if self._open is not kind:
            self._start_part(PartStart(kind))
        self._events.append(PartDelta(text))

    def _start_part(self, start: PartStart) -> None:
        if start.kind is not PartKind.TEXT:
            self._flush()
        self._end_part()
        self._start()
        self._open = start.kind
        self._events.append(start)

    def _flush(self) -> None:
        """The text stops here: what the filter held back was no token."""
        held = self._filter.flush()
        if held:
            if self._open is not PartKind.TEXT:
                self._start_part(PartStart(PartKind.TEXT))
            self._events.append(PartDelta(held))

    def _end_part(self) -> None:
        if self._open is not None:
            self._open = None
            self._events.append(PartEnd())

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._events.append(ResponseStart())

    def _exec(self, message: pb.ExecServerMessage) -> None:
        kind = message.WhichOneof("message")
        if kind == "request_context_args":
            self._outgoing.append(answers.request_context(message, self._run.tools))
        elif kind == "mcp_args":
            if message.mcp_args.smart_mode_approval_only:
                self._outgoing.append(answers.approve(message))
            else:
                self._call(message)
        elif kind is not None and (answer := self._store.answer_file(message, kind)) is not None:
            self._outgoing.append(answer)
        else:
            self._refuse(message, kind)

    def _refuse(self, message: pb.ExecServerMessage, kind: str | None) -> None:
        self.signs += 1
        self._rejections += 1
        if self._rejections > NATIVE_REJECTIONS:
            raise Fault(Reason.BROKEN_TOOL_CALL, self.stage, upstream_code="native_tools")
        self._outgoing.extend(answers.refuse(message, kind))

    def _call(self, message: pb.ExecServerMessage) -> None:
        self.signs += 1
        args = message.mcp_args
        name = self._run.names.caller_name(args.tool_name, args.name)
        if name is None:
            raise Fault(Reason.BROKEN_TOOL_CALL, self.stage, upstream_code="unknown_tool")
        wire_id = args.tool_call_id or f"exec {message.exec_id}"
        content = (name, values.arguments_json(args.args))
        known = self._calls.get(wire_id) or self._told.get(wire_id)
        if known is not None and known != content:
            raise Fault(Reason.BROKEN_TOOL_CALL, self.stage, upstream_code="call_id_conflict")
        shown_id = call_id(wire_id, self._run)
        # A call that is ordered twice is one call to the caller, but each order waits for its result.
        self._orders.setdefault(shown_id, []).append((message.id, message.exec_id))
        if known is not None:
            return
        self._calls[wire_id] = content
        self._start_part(PartStart(PartKind.TOOL_CALL, shown_id, name))
        self._events.append(PartDelta(content[1]))
        self._end_part()
        if not self._run.parallel:
            self._finish()

    def _end_stream(self) -> None:
        if self.finished:
            return
        if self._reader.error is not None:
            raise classify_error(self._reader.error, self.stage, size=self.size(), retry_after=self._retry_after)
        if not self.ended:
            raise Fault(Reason.CUT, self.stage, upstream_code="end_without_turn_ended")
        self._finish()

    def _finish(self) -> None:
        self._flush()
        self._end_part()
        if not self._started:
            raise Fault(Reason.EMPTY, Stage.END)
        self.finished = True
        unified = Unified.TOOL_CALLS if self._calls else Unified.STOP
        self._events.append(Finish(FinishReason(unified, "turn_ended" if self.ended else ""), self._usage))


def call_id(wire_id: str, run: RunRequest) -> str:
    """The id a caller sees: the upstream's own when it is plain and new in this history, else a hash of it."""
    if _PLAIN_ID.fullmatch(wire_id) and wire_id not in run.call_ids:
        return wire_id
    return f"call_{hashlib.sha256(f'{run.conversation}/{wire_id}'.encode()).hexdigest()[:24]}"


def read_usage(update: pb.TurnEndedUpdate, input_includes_cache: bool = True) -> Usage:
    """The counts of a turn, in tokens. Nothing, or zeros only, means that nobody counted.

    Whether ``input_tokens`` includes the cached ones is disputed, hence the switch; the default is the measured rule.
    """
    if not update.ListFields():
        update = _nested(update)
    counts = {field.name: count for field, count in update.ListFields()}
    if not any(counts.values()):
        return Usage()
    read, write = counts.get("cache_read_tokens"), counts.get("cache_write_tokens")
    total = counts.get("input_tokens")
    if total is not None and input_includes_cache:
        total = max(0, total - (read or 0) - (write or 0))
    return Usage(
        input_uncached=total,
        output=counts.get("output_tokens"),
        cache_read=read,
        cache_write=write,
        reasoning=counts.get("reasoning_tokens"),
    )


def _nested(update: pb.TurnEndedUpdate) -> pb.TurnEndedUpdate:
    """Some servers put the five counts one level deeper, into field 1."""
    for number, data in values.unknown_messages(update):
        if number == 1:
            try:
                return pb.TurnEndedUpdate.FromString(data)
            except DecodeError:
                break
    return update
