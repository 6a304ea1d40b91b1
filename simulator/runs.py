"""Runs that are joined from two sides: the stream that answers and the appends that ask.

The two race, so either side may come first; what is appended before the stream attaches is held. Appends act in the
order of their numbers, once each: the first number seen (0 or 1) is the base, lower ones are stale, repeated ones
are counted and ignored, and one that comes early waits for those before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from protobufs import agent_v1_pb2 as pb
from simulator.causes import Cause, Failure, refusal, scripted
from simulator.faults import Verdict
from simulator.journal import Entry

ENDED_KEPT = 10_000
ABANDONED_SECONDS = 120.0
BASES = (0, 1)

Answer = pb.ExecClientMessage | pb.KvClientMessage | pb.InteractionResponse | pb.ExecClientThrow | None


class Run:
    """One run. ``failure`` is a cause that meets every request of the run at the HTTP level; ``verdict`` is what was
    ordered to happen on its stream."""

    def __init__(self, request_id: str, account: str, entry: Entry) -> None:
        self.request_id = request_id
        self.account = account
        self.entry = entry
        self.attached = False
        self.ended = False
        self.failure: Cause | None = None
        self.verdict = Verdict()
        self.request: asyncio.Future[pb.AgentRunRequest] = asyncio.get_running_loop().create_future()
        self._next: int | None = None
        self._held: dict[int, pb.AgentClientMessage] = {}
        self._open: dict[tuple[str, int], asyncio.Future[Answer]] = {}
        self._cancelled: Failure | None = None

    def append(self, seqno: int, message: pb.AgentClientMessage) -> Iterator[pb.AgentClientMessage]:
        """Takes one append and yields the messages that are now due, in order."""
        self.entry.seqnos.append(seqno)
        if self._next is None and seqno in BASES:
            self._next = seqno
        if seqno in self._held or (self._next is not None and seqno < self._next):
            self.entry.duplicates += 1
            return
        self._held[seqno] = message
        while self._next is not None and (due := self._held.pop(self._next, None)) is not None:
            self._next += 1
            yield due

    def deliver(self, message: pb.AgentClientMessage) -> None:
        """Lets a message act: the request starts the run, an answer releases whoever waits for it."""
        kind = message.WhichOneof("message")
        if not self.request.done():
            if kind == "run_request":
                self.request.set_result(message.run_request)
            else:
                self._refuse_start()
            return
        match kind:
            case "run_request":
                self._cancel(refusal("a second run_request on one stream"))
            case "client_heartbeat":
                self.entry.client_heartbeats += 1
            case "kv_client_message":
                self._answer("kv", message.kv_client_message.id, message.kv_client_message)
            case "exec_client_message":
                self._answer("exec", message.exec_client_message.id, message.exec_client_message)
            case "interaction_response":
                self._answer("query", message.interaction_response.id, message.interaction_response)
            case "exec_client_control_message":
                self._control(message.exec_client_control_message)
            case "conversation_action" if message.conversation_action.HasField("cancel_action"):
                self._cancel(scripted("aborted"))

    def expect(self, kind: str, number: int) -> asyncio.Future[Answer]:
        """A future for the client's answer to message ``number`` of ``kind`` (kv, exec, close or query)."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[kind, number] = future
        if self._cancelled is not None:
            future.set_exception(self._cancelled)
        return future

    def check_cancelled(self) -> None:
        """Raises what the client did to the run: cancelled it, or broke its rules."""
        if self._cancelled is not None:
            raise self._cancelled

    def _control(self, control: pb.ExecClientControlMessage) -> None:
        kind = control.WhichOneof("message")
        if kind == "throw":
            self._answer("exec", control.throw.id, control.throw)
        elif kind == "stream_close":
            self._answer("close", control.stream_close.id, None)

    def _answer(self, kind: str, number: int, answer: Answer) -> None:
        self.entry.answers.append(_describe(kind, number, answer))
        future = self._open.pop((kind, number), None)
        if future is not None and not future.done():
            future.set_result(answer)

    def _refuse_start(self) -> None:
        self.request.set_exception(refusal("the first message is not a run_request"))

    def _cancel(self, failure: Failure) -> None:
        self._cancelled = failure
        for future in self._open.values():
            if not future.done():
                future.set_exception(failure)


def _describe(kind: str, number: int, answer: Answer) -> str:
    what = "close"
    if isinstance(answer, pb.ExecClientThrow):
        what = "throw"
    elif isinstance(answer, pb.InteractionResponse):
        what = answer.WhichOneof("result") or "nothing"
    elif answer is not None:
        what = answer.WhichOneof("message") or "nothing"
    return f"{kind} {number} {what}"


class Runs:
    """All runs by request id. Ended ones are remembered so that a late append gets its empty answer."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def get(self, request_id: str) -> Run | None:
        return self._runs.get(request_id)

    def add(self, run: Run, now: float) -> None:
        self._sweep(now)
        self._runs[run.request_id] = run

    def forget(self, request_id: str) -> None:
        self._runs.pop(request_id, None)

    def clear(self) -> None:
        """Forgets every run that is not open now."""
        self._runs = {key: run for key, run in self._runs.items() if run.attached and not run.ended}

    def _sweep(self, now: float) -> None:
        """Drops the oldest runs that are over, and those whose stream never came."""
        surplus = len(self._runs) - ENDED_KEPT
        for key, run in list(self._runs.items()) if surplus > 0 else []:
            if surplus > 0 and (run.ended or (not run.attached and now - run.entry.time > ABANDONED_SECONDS)):
                del self._runs[key]
                surplus -= 1
