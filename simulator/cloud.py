"""The agents of the fake Cloud Agents API: each with one run at a time, whose events are kept and can be read again.

A run goes on whether anybody listens or not, as the real one does. Every event of the answer has an id; the richer twin
of a text event follows or precedes it under the same id. A break in a script breaks one connection, not the run: who
comes back after the last id hears the rest, and the last frame once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from simulator import scripts, words
from simulator.causes import CAUSES
from simulator.faults import Verdict
from simulator.journal import Entry
from simulator.rest import error_of
from simulator.spoken import Spoken
from simulator.steps import Break, Fail, Pause, Spend, Stall, Step, Text, Thinking

TERMINAL = ("FINISHED", "ERROR", "CANCELLED", "EXPIRED")


@dataclass(frozen=True)
class Event:
    """``broken``: what happens to the connection that comes to this event, once, in its place."""

    name: str
    data: dict[str, Any]
    id: str = ""
    broken: Break | None = None


@dataclass
class Habits:
    """Trouble that only this API has, until the next reset. Numbers are used up one by one."""

    failing_deletes: int = 0
    refused_streams: int = 0
    expired_streams: bool = False
    told_usage: bool = True


@dataclass
class Run:
    """``fresh`` is set anew whenever an event has come."""

    id: str
    agent_id: str
    entry: Entry
    status: str = "RUNNING"
    events: list[Event] = field(default_factory=list)
    met: set[int] = field(default_factory=set)
    text: str = ""
    spent: dict[str, int] = field(default_factory=dict)
    fresh: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return self.status in TERMINAL

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.fresh.set()
        self.fresh = asyncio.Event()

    def end(self, status: str) -> None:
        """The terminal status and its event; what was over stays as it was."""
        if self.over:
            return
        self.status = status
        data: dict[str, Any] = {"runId": self.id, "status": status}
        if status == "FINISHED":
            data["text"] = self.text
        self.add(Event("result", data, f"{self.id}-end"))

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def describe(self) -> dict[str, Any]:
        shown = {"id": self.id, "agentId": self.agent_id, "status": self.status}
        return shown | ({"result": self.text} if self.status == "FINISHED" else {})


@dataclass
class Agent:
    id: str
    account: str
    runs: list[Run] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return any(not run.over for run in self.runs)

    def describe(self) -> dict[str, Any]:
        return {"id": self.id, "status": "ACTIVE", "repos": [], "latestRunId": self.runs[-1].id if self.runs else None}


@dataclass
class Agents:
    """All agents of one process. ``made`` and ``deleted`` count since the last reset."""

    by_id: dict[str, Agent] = field(default_factory=dict)
    habits: Habits = field(default_factory=Habits)
    made: int = 0
    deleted: int = 0

    def order(self, body: Mapping[str, Any]) -> None:
        """Takes on habits until the next reset. Raises ``ValueError`` for unknown ones."""
        try:
            self.habits = Habits(**body)
        except TypeError:
            raise ValueError(f"habits are {', '.join(one.name for one in fields(Habits))}") from None

    def describe(self) -> dict[str, Any]:
        """As ``GET /_sim/cloud`` shows them."""
        agents = [
            {"id": one.id, "account": one.account, "runs": [run.status for run in one.runs]}
            for one in self.by_id.values()
        ]
        return {"agents": agents, "made": self.made, "deleted": self.deleted}

    def drop(self, agent: Agent) -> None:
        for run in agent.runs:
            run.stop()
        del self.by_id[agent.id]
        self.deleted += 1

    def clear(self) -> None:
        for agent in list(self.by_id.values()):
            self.drop(agent)
        self.habits, self.made, self.deleted = Habits(), 0, 0


class Player:
    """Plays one script into a run's events."""

    def __init__(self, run: Run, spoken: Spoken, verdict: Verdict, heartbeat: Callable[[], float]) -> None:
        self._run = run
        self._spoken = spoken
        self._verdict = verdict
        self._heartbeat = heartbeat
        self._number = 0
        self._thought = 0
        self._told = True

    async def play(self, ended: Callable[[str], None]) -> None:
        """``ended`` is told how, in the journal's words."""
        run = self._run
        try:
            await self._wait(self._verdict.latency)
            script = self._spoken.steps(scripts.play(self._spoken.prompt))
            cause = await self._perform(script, self._verdict.after if self._verdict.cause else None)
            if cause is None and self._verdict.cause:
                cause = self._verdict.cause
            if cause is not None:
                self._fail(cause)
                ended(f"error:{cause}")
                return
            if self._told:
                self._count()
            run.end("FINISHED")
            ended("complete")
        except asyncio.CancelledError:
            run.end("CANCELLED")
            ended("cancelled")
            raise

    async def _perform(self, script: Iterator[Step], limit: int | None) -> str | None:
        """Runs the script to its end, or until ``limit`` deltas are out. Returns the cause it fails with."""
        for step in script:
            match step:
                case Text(text):
                    self._say("assistant", text)
                case Thinking(text):
                    self._say("thinking", text)
                case Pause(seconds):
                    await self._wait(seconds)
                case Stall(heartbeats):
                    await self._wait(None, heartbeats=heartbeats)
                case Fail(cause):
                    return cause
                case Break():
                    self._run.add(Event("", {}, broken=step))
                case Spend():
                    self._told = step is not Spend.NONE
                case _:
                    pass  # native tools, questions and wire wear are the Agent RPC's
            if limit is not None and self._run.entry.deltas >= limit:
                return None
            await asyncio.sleep(0)
        return None

    def _say(self, name: str, text: str) -> None:
        run = self._run
        run.entry.deltas += 1
        self._number += 1
        identifier = f"{1713033005000 + self._number}-{self._number % 3}"
        kind = "text-delta" if name == "assistant" else "thinking-delta"
        pair = [
            Event(name, {"text": text}, identifier),
            Event("interaction_update", {"type": kind, "text": text}, identifier),
        ]
        for event in pair if self._number % 2 else reversed(pair):
            run.add(event)
        if name == "assistant":
            run.text += text
        else:
            self._thought += 1

    def _count(self) -> None:
        said = words.count(self._run.text) + self._thought
        read = words.count(self._spoken.whole)
        self._run.spent = {
            "inputTokens": read,
            "outputTokens": said,
            "cacheWriteTokens": 0,
            "cacheReadTokens": 0,
            "totalTokens": read + said,
        }

    def _fail(self, cause: str) -> None:
        _, code = error_of(CAUSES[cause])
        self._run.add(Event("error", {"code": code, "message": "Error"}))
        self._run.end("ERROR")

    async def _wait(self, seconds: float | None, *, heartbeats: bool = True) -> None:
        """For ever with None; the heart goes on beating meanwhile."""
        left = seconds
        while left is None or left > 0:
            nap = self._heartbeat() if left is None else min(left, self._heartbeat())
            await asyncio.sleep(nap)
            if left is not None:
                left -= nap
            if heartbeats and (left is None or left > 0):
                self._run.add(Event("heartbeat", {}))
