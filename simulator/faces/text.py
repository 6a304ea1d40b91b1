"""The public text chat shape: one POST, an AI-SDK UI stream back. The API key is the bearer."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from aiohttp import web

from simulator import catalogue, rest, scripts, words
from simulator.accounts import Account
from simulator.causes import CAUSES, HTML, Failure, Form
from simulator.faces import http
from simulator.faults import Verdict
from simulator.journal import Entry
from simulator.rest import Refusal, invalid
from simulator.spoken import Spoken, read_messages
from simulator.steps import Break, Fail, Pause, Spend, Stall, Text, Thinking
from simulator.world import World

RESET_DELAY = 0.05  # a reset must not overtake what was sent before it
PREFIX = "text-"  # before a model's name, where a client wants to tell this server's models from others
ROLES = ("system", "user", "assistant")
_ID = re.compile(r"[0-9a-f]{16}")


class TextFace:
    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/api/chat", self.chat)]

    async def chat(self, request: web.Request) -> web.StreamResponse:
        world, account = self._world, None
        try:
            account = world.account_of_key(request.headers)
            model, spoken = _read(await request.read(), account.models)
        except (Failure, Refusal) as error:
            refusal = error if isinstance(error, Refusal) else Refusal(401, "unauthorized", "no such key")
            world.open_entry("text_chat", account, request.headers).end(f"refused:{refusal.reason}", world.now())
            return refusal.answer()
        entry = world.open_entry("text_chat", account, request.headers)
        _note(entry, model, spoken)
        verdict = world.faults.at_run(account.name, model)
        cause = verdict.cause if verdict.cause and not verdict.after else None
        cause = cause or scripts.failure_before_output(model, spoken.prompt.text)
        if cause:
            entry.end(f"error:{cause}", world.now())
            return rest.answer(request, CAUSES[cause])
        return await self._serve(request, account, entry, spoken, verdict)

    async def _serve(
        self, request: web.Request, account: Account, entry: Entry, spoken: Spoken, verdict: Verdict
    ) -> web.StreamResponse:
        account.runs += 1
        account.active_streams += 1
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        try:
            await response.prepare(request)
            entry.end(await Answer(request, response, entry, spoken, verdict).give(), self._world.now())
        except (asyncio.CancelledError, ConnectionError):
            entry.end("cancelled", self._world.now())
            raise
        finally:
            entry.end("crashed", self._world.now())
            account.active_streams -= 1
        return response


class Answer:
    """One script on this wire."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, entry: Entry, spoken: Spoken, verdict: Verdict
    ) -> None:
        self._request = request
        self._response = response
        self._entry = entry
        self._spoken = spoken
        self._verdict = verdict
        self._said = 0
        self._told = True

    async def give(self) -> str:
        """Returns how it ended, in the journal's words."""
        await asyncio.sleep(self._verdict.latency)
        await self._send({"type": "start"})
        await self._send({"type": "start-step"})
        end = await self._perform(self._verdict.after if self._verdict.cause else None)
        if end is None and self._verdict.cause:
            end = self._verdict.cause
        if isinstance(end, Break):
            return await self._spoil(end)
        if end is not None:
            return await self._fail(end)
        finish: dict[str, Any] = {"type": "finish"}
        if self._told:
            read = words.count(self._spoken.whole)
            counts = {"inputTokens": read, "outputTokens": self._said, "totalTokens": read + self._said}
            finish["messageMetadata"] = {"usage": counts}
        await self._send({"type": "finish-step"})
        await self._send(finish)
        await self._response.write(b"data: [DONE]\n\n")
        await self._response.write_eof()
        return "complete"

    async def _perform(self, limit: int | None) -> Break | str | None:
        """Runs the script to its end, or until ``limit`` deltas are out. Returns its break, or its cause."""
        for step in self._spoken.steps(scripts.play(self._spoken.prompt)):
            match step:
                case Text(text):
                    await self._say("text-delta", text)
                case Thinking(text):
                    await self._say("reasoning-delta", text)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Stall():
                    await asyncio.Event().wait()
                case Fail(cause):
                    return cause
                case Break():
                    return step
                case Spend():
                    self._told = step is not Spend.NONE
                case _:
                    pass  # native tools, questions and wire wear are the Agent RPC's
            if limit is not None and self._entry.deltas >= limit:
                return None
        return None

    async def _say(self, kind: str, text: str) -> None:
        self._entry.deltas += 1
        self._said += 1
        await self._send({"type": kind, "id": "0", "delta": text})

    async def _fail(self, cause: str) -> str:
        form = CAUSES[cause].form
        if form is Form.CLOSE:
            http.close(self._request)
        elif form in (Form.HTML, Form.PLAIN, Form.EMPTY):
            await self._response.write(f"data: {HTML}\n\n".encode())
            await self._response.write_eof()
        else:
            await self._send({"type": "error", "errorText": "Error"})
            await self._response.write_eof()
        return f"error:{cause}"

    async def _spoil(self, how: Break) -> str:
        if how is Break.RESET:
            await asyncio.sleep(RESET_DELAY)
            http.reset(self._request)
        elif how is Break.GARBAGE:
            await self._response.write(b"data: {\xff\xfe\n\n")
            await self._response.write_eof()
        else:
            await self._response.write_eof()
        return how.name.lower()

    async def _send(self, event: dict[str, Any]) -> None:
        await self._response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def _read(body: bytes, allowed: frozenset[str] | None) -> tuple[str, Spoken]:
    """Raises ``Refusal`` for anything but the shape."""
    try:
        order = json.loads(body)
    except ValueError:
        order = None
    if not isinstance(order, dict) or set(order) != {"context", "model", "id", "trigger", "messages"}:
        raise invalid("the members of the body")
    if order["context"] != [] or order["trigger"] != "submit-message" or not _ID.fullmatch(str(order["id"])):
        raise invalid("context, trigger or id")
    model = catalogue.find(str(order["model"]).removeprefix(PREFIX))
    if model is None or (allowed is not None and model.id not in allowed):
        raise Refusal(404, "model_not_found", f"unknown model {order['model']!r}")
    said = [_message(one) for one in order["messages"]]
    if not said or not all(text for _, text in said):
        raise invalid("no messages, or an empty one")
    return model.id, read_messages(said, model.id)


def _message(value: Any) -> tuple[str, str]:
    try:
        role, parts = value["role"], value["parts"]
        if (
            role not in ROLES
            or not parts
            or any(set(part) != {"type", "text"} or part["type"] != "text" for part in parts)
        ):
            raise invalid("a message that is no text")
        return role, "".join(part["text"] for part in parts)
    except (KeyError, TypeError):
        raise invalid("a message without role or parts") from None


def _note(entry: Entry, model: str, spoken: Spoken) -> None:
    prompt = spoken.prompt
    entry.model, entry.system, entry.text = model, prompt.system, prompt.text
    entry.history = [(one.role, len(one.text)) for one in prompt.history]
    entry.tools = [{"name": one.name, "tool_name": one.tool_name, "schema": one.schema} for one in prompt.tools]
