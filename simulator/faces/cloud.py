"""The Cloud Agents API, version 1: agents, their runs, and the stream of a run. The API key itself is the bearer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Awaitable, Callable

from aiohttp import web

from simulator import cloud_requests, rest, scripts
from simulator.accounts import Account
from simulator.causes import CAUSES, Failure
from simulator.cloud import Agent, Event, Player, Run
from simulator.cloud_requests import Order
from simulator.faces import http
from simulator.faults import Verdict
from simulator.journal import Entry
from simulator.rest import Refusal
from simulator.spoken import read
from simulator.steps import Break
from simulator.world import World

Handler = Callable[[web.Request, Account], Awaitable[web.StreamResponse]]
RESET_DELAY = 0.05  # a reset must not overtake what was sent before it


class CloudFace:
    def __init__(self, world: World) -> None:
        self._world = world
        self._agents = world.agents

    def routes(self) -> list[web.RouteDef]:
        agent, run = "/v1/agents/{agent}", "/v1/agents/{agent}/runs/{run}"
        return [
            web.get("/v1/me", self._guarded("cloud_me", self.me)),
            web.get("/v1/models", self._guarded("cloud_models", self.models)),
            web.post("/v1/agents", self._guarded("cloud_agents", self.create)),
            web.get("/v1/agents", self._guarded("cloud_list", self.list_agents)),
            web.get(agent, self._guarded("cloud_agent", self.show)),
            web.delete(agent, self._guarded("cloud_delete", self.delete)),
            web.get(f"{agent}/usage", self._guarded("cloud_usage", self.usage)),
            web.post(f"{agent}/runs", self._guarded("cloud_agents", self.follow_up)),
            web.get(run, self._guarded("cloud_run", self.show_run)),
            web.get(f"{run}/stream", self._guarded("cloud_stream", self.stream)),
            web.post(f"{run}/cancel", self._guarded("cloud_cancel", self.cancel)),
        ]

    async def stop(self, _: web.Application) -> None:
        """Runs that nobody will hear any more."""
        self._agents.clear()

    # Agents

    async def me(self, _: web.Request, account: Account) -> web.Response:
        return web.json_response({"apiKeyName": account.name, "createdAt": "2026-01-01T00:00:00Z"})

    async def models(self, request: web.Request, account: Account) -> web.Response:
        cause = self._world.faults.at_unary(account.name)
        if cause:
            return rest.answer(request, CAUSES[cause])
        return web.json_response({"items": cloud_requests.listed(account.models)})

    async def create(self, request: web.Request, account: Account) -> web.StreamResponse:
        order = cloud_requests.read_order(await request.read(), account.models)
        if order.agent_id in self._agents.by_id:
            raise Refusal(409, "agent_id_conflict", "the agent id is taken")
        verdict = self._world.faults.at_run(account.name, order.model)
        cause = verdict.cause if verdict.cause and not verdict.after else None
        cause = cause or scripts.failure_before_output(order.model, order.text)
        agent = Agent(order.agent_id or f"bc-{uuid.uuid4()}", account.name)
        entry = self._world.open_entry("cloud_agents", account, request.headers)
        entry.request_id, entry.model, entry.parameters = agent.id, order.model, dict(order.parameters)
        if cause:
            entry.end(f"error:{cause}", self._world.now())
            return rest.answer(request, CAUSES[cause])
        self._agents.by_id[agent.id] = agent
        self._agents.made += 1
        account.runs += 1
        run = self._start(agent, order, entry, verdict)
        return web.json_response({"agent": agent.describe(), "run": run.describe()}, status=201)

    async def list_agents(self, _: web.Request, account: Account) -> web.Response:
        mine = [one.describe() for one in self._agents.by_id.values() if one.account == account.name]
        return web.json_response({"items": mine})

    async def show(self, request: web.Request, account: Account) -> web.Response:
        return web.json_response(self._agent(request, account).describe())

    async def delete(self, request: web.Request, account: Account) -> web.Response:
        agent = self._agent(request, account)
        if self._agents.habits.failing_deletes:
            self._agents.habits.failing_deletes -= 1
            raise Refusal(500, "internal_error", "ordered")
        self._agents.drop(agent)
        return web.json_response({"id": agent.id})

    async def usage(self, request: web.Request, account: Account) -> web.Response:
        agent = self._agent(request, account)
        if not self._agents.habits.told_usage:
            raise Refusal(403, "feature_unavailable", "ordered")
        runs = [{"id": run.id, "usage": run.spent} for run in agent.runs]
        return web.json_response({"totalUsage": agent.runs[-1].spent, "runs": runs})

    # Runs

    async def follow_up(self, request: web.Request, account: Account) -> web.Response:
        agent = self._agent(request, account)
        text, pictures = cloud_requests.read_follow_up(await request.read())
        if agent.busy:
            raise Refusal(409, "agent_busy", "a run is under way")
        entry = self._world.open_entry("cloud_agents", account, request.headers)
        entry.request_id = agent.id
        last = agent.runs[-1].entry
        entry.model, entry.parameters = last.model, last.parameters
        order = Order(agent.id, text, pictures, last.model, last.parameters)
        return web.json_response({"run": self._start(agent, order, entry, Verdict()).describe()}, status=201)

    async def show_run(self, request: web.Request, account: Account) -> web.Response:
        return web.json_response(self._run(request, account).describe())

    async def cancel(self, request: web.Request, account: Account) -> web.Response:
        run = self._run(request, account)
        if run.over:
            raise Refusal(409, "run_not_cancellable", "the run is over")
        run.stop()
        run.end("CANCELLED")
        return web.json_response({"id": run.id})

    async def stream(self, request: web.Request, account: Account) -> web.StreamResponse:
        run = self._run(request, account)
        habits = self._agents.habits
        if habits.refused_streams:
            habits.refused_streams -= 1
            raise Refusal(503, "stream_unavailable", "ordered")
        if habits.expired_streams:
            raise Refusal(410, "stream_expired", "ordered")
        position = _position(run, request.headers.get("last-event-id", ""))
        response = web.StreamResponse(
            headers={"content-type": "text/event-stream", "x-cursor-stream-retention-seconds": "3600"}
        )
        await response.prepare(request)
        await response.write(_frame(Event("status", {"runId": run.id, "status": run.status})))
        await self._follow(request, response, run, position)
        return response

    async def _follow(self, request: web.Request, response: web.StreamResponse, run: Run, position: int) -> None:
        while True:
            fresh = run.fresh
            while position < len(run.events):
                event = run.events[position]
                position += 1
                if event.broken is None:
                    await response.write(_frame(event))
                elif position not in run.met:
                    run.met.add(position)
                    await _spoil(request, response, event.broken)
                    return
            if run.over:
                await response.write(_frame(Event("done", {})))
                await response.write_eof()
                return
            await fresh.wait()

    def _start(self, agent: Agent, order: Order, entry: Entry, verdict: Verdict) -> Run:
        world = self._world
        spoken = read(order.text, order.model, order.pictures, order.parameters)
        prompt = spoken.prompt
        entry.system, entry.text = prompt.system, prompt.text
        entry.history = [(one.role, len(one.text)) for one in prompt.history]
        entry.tools = [{"name": one.name, "tool_name": one.tool_name, "schema": one.schema} for one in prompt.tools]
        entry.images = [
            {"mime_type": one.media_type, "bytes": len(one.data), "sha256": hashlib.sha256(one.data).hexdigest()}
            for one in order.pictures
        ]
        run = Run(f"run-{uuid.uuid4()}", agent.id, entry)
        agent.runs.append(run)
        player = Player(run, spoken, verdict, lambda: world.options.heartbeat)
        run.task = asyncio.create_task(player.play(lambda how: entry.end(how, world.now())))
        return run

    def _agent(self, request: web.Request, account: Account) -> Agent:
        agent = self._agents.by_id.get(request.match_info["agent"])
        if agent is None or agent.account != account.name:
            raise Refusal(404, "agent_not_found", "no such agent")
        return agent

    def _run(self, request: web.Request, account: Account) -> Run:
        wanted = request.match_info["run"]
        run = next((one for one in self._agent(request, account).runs if one.id == wanted), None)
        if run is None:
            raise Refusal(404, "run_not_found", "no such run")
        return run

    def _guarded(self, transport: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Checks the key, turns refusals into answers, and notes the call unless it made an entry of its own."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            world, account = self._world, None
            try:
                account = world.account_of_key(request.headers)
                answer = await handler(request, account)
            except Failure:
                self._note(request, transport, account, "refused:no such key")
                return Refusal(401, "unauthorized", "").answer()
            except Refusal as refusal:
                self._note(request, transport, account, f"refused:{refusal.reason}")
                return refusal.answer()
            if transport != "cloud_agents":
                self._note(request, transport, account, "complete")
            return answer

        return guarded

    def _note(self, request: web.Request, transport: str, account: Account | None, how: str) -> None:
        entry = self._world.open_entry(transport, account, request.headers)
        entry.request_id = request.match_info.get("agent", "")
        entry.end(how, self._world.now())


def _position(run: Run, last_id: str) -> int:
    """Where a stream begins: the frame that was heard last comes once more."""
    if not last_id:
        return 0
    for position, event in enumerate(run.events):
        if event.id == last_id:
            return position
    raise Refusal(400, "invalid_last_event_id", "the id of no event of this run")


def _frame(event: Event) -> bytes:
    head = f"id: {event.id}\n" if event.id else ""
    return f"{head}event: {event.name}\ndata: {json.dumps(event.data)}\n\n".encode()


async def _spoil(request: web.Request, response: web.StreamResponse, how: Break) -> None:
    """One of the ends that are not ends."""
    if how is Break.RESET:
        await asyncio.sleep(RESET_DELAY)
        http.reset(request)
        return
    if how is Break.GARBAGE:
        await response.write(b"event: assistant\ndata: {\xff\xfe\n\n")
    await response.write_eof()
