"""Fake providers: OpenAI's Chat and Responses, Anthropic's Messages. Scripts and faults are those of every face."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from simulator import asked, scripts, words
from simulator.accounts import Account, not_logged_in
from simulator.answers import ChatWriter, MessagesWriter, ResponsesWriter, Writer
from simulator.causes import Cause, Failure, Form, refusal, scripted
from simulator.faces import http
from simulator.journal import Entry
from simulator.steps import (
    Announce,
    Break,
    Calls,
    Fail,
    Pause,
    Prompt,
    Quirk,
    Script,
    Spend,
    Stall,
    Step,
    Text,
    Thinking,
)
from simulator.world import World

ANNOUNCED, CHARACTERS = 2, 10_000  # pieces of a call's arguments
CONTENT = ("messages", "input", "system", "instructions", "tools")

# cause → status, type and code at OpenAI; type at Anthropic, whose status follows from it
OPENAI: Mapping[str, tuple[int, str, str | None]] = {
    "token_expired": (401, "invalid_request_error", "invalid_api_key"),
    "key_bad": (401, "invalid_request_error", "invalid_api_key"),
    "usage_exhausted": (429, "insufficient_quota", "insufficient_quota"),
    "unpaid_invoice": (429, "insufficient_quota", "billing_not_active"),
    "rate_limited": (429, "requests", "rate_limit_exceeded"),
    "rate_limited_hint": (429, "tokens", "rate_limit_exceeded"),
    "bare_resource_exhausted": (429, "requests", None),
    "model_limit": (429, "requests", "rate_limit_exceeded"),
    "model_not_in_plan": (404, "invalid_request_error", "model_not_found"),
    "model_unknown": (404, "invalid_request_error", "model_not_found"),
    "context_too_large": (400, "invalid_request_error", "context_length_exceeded"),
    "image_unsupported": (400, "invalid_request_error", "invalid_image"),
    "account_closed": (403, "invalid_request_error", "account_deactivated"),
    "suspicious": (403, "permission_error", "organization_restricted"),
    "deadline": (504, "timeout_error", "timeout"),
    "unavailable": (503, "server_error", "engine_overloaded"),
    "internal": (500, "server_error", None),
}
ANTHROPIC: Mapping[str, tuple[int, str]] = {
    "token_expired": (401, "authentication_error"),
    "key_bad": (401, "authentication_error"),
    "usage_exhausted": (402, "billing_error"),
    "unpaid_invoice": (402, "billing_error"),
    "rate_limited": (429, "rate_limit_error"),
    "rate_limited_hint": (429, "rate_limit_error"),
    "bare_resource_exhausted": (429, "rate_limit_error"),
    "model_limit": (429, "rate_limit_error"),
    "model_not_in_plan": (404, "not_found_error"),
    "model_unknown": (404, "not_found_error"),
    "account_closed": (403, "permission_error"),
    "suspicious": (403, "permission_error"),
    "deadline": (504, "timeout_error"),
    "unavailable": (529, "overloaded_error"),
    "internal": (500, "api_error"),
}


class ProvidersFace:
    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self.chat),
            web.post("/v1/responses", self.responses),
            web.post("/v1/messages", self.messages),
        ]

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "openai_chat", asked.read_chat, ChatWriter)

    async def responses(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "openai_responses", asked.read_responses, ResponsesWriter)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "anthropic_messages", asked.read_messages, MessagesWriter)

    async def _serve(
        self,
        request: web.Request,
        transport: str,
        read: Callable[[Mapping[str, Any]], Prompt],
        writer: Callable[[str], Writer],
    ) -> web.StreamResponse:
        account: Account | None = None
        entry: Entry | None = None
        try:
            account = self._account(request, transport)
            entry = self._world.open_entry(transport, account, request.headers)
            prompt = read(await _body(request, entry))
            _note(entry, prompt)
            cause, after = self._trouble(account, prompt)
            if cause and not after:
                raise scripted(cause)
        except Failure as failure:
            entry = entry or self._world.open_entry(transport, account, request.headers)
            entry.end(failure.label, self._world.now())
            return refuse(request, failure.cause, anthropic=transport == "anthropic_messages")
        account.runs += 1
        turn = Turn(self._world, request, entry, writer(prompt.model), anthropic=transport == "anthropic_messages")
        account.active_streams += 1
        try:
            return await turn.play(prompt, cause, after)
        except (asyncio.CancelledError, ConnectionError):
            entry.end("cancelled", self._world.now())
            raise
        finally:
            account.active_streams -= 1

    def _account(self, request: web.Request, transport: str) -> Account:
        if transport != "anthropic_messages":
            return self._world.account_of_key(request.headers)
        if not request.headers.get("anthropic-version"):
            raise refusal("anthropic-version: header is required")
        if "x-api-key" not in request.headers:
            raise not_logged_in("x-api-key header is required")
        return self._world.account_of_key({"authorization": f"Bearer {request.headers['x-api-key']}"})

    def _trouble(self, account: Account, prompt: Prompt) -> tuple[str | None, int]:
        """What was ordered for this turn, or what its own script fails with before any output."""
        ordered = self._world.faults.at_contact(account.name)
        if ordered:
            return ordered, 0
        verdict = self._world.faults.at_run(account.name, prompt.model)
        if verdict.cause:
            return verdict.cause, verdict.after
        return scripts.failure_before_output(prompt.model, prompt.text), 0


class Turn:
    """One streamed answer."""

    def __init__(self, world: World, request: web.Request, entry: Entry, writer: Writer, *, anthropic: bool) -> None:
        self._world = world
        self._request = request
        self._entry = entry
        self._writer = writer
        self._anthropic = anthropic
        self._web = web.StreamResponse(headers={"content-type": "text/event-stream"})
        self._spend = Spend.PLAIN
        self._words = self._thought = 0
        self._started = False

    async def play(self, prompt: Prompt, cause: str | None, after: int) -> web.StreamResponse:
        script = scripts.play(prompt)
        step = next(script, None)
        if step is Quirk.JSON_ERROR:
            self._entry.end("json error", self._world.now())
            return web.json_response({"error": {"type": "overloaded_error", "message": "Overloaded"}})
        await self._web.prepare(self._request)
        if step is Quirk.EMPTY:
            self._entry.end("empty", self._world.now())
            return self._web
        try:
            if await self._perform(step, script, after if cause else None):
                return self._web
            if cause:
                raise scripted(cause)
            await self._finish(prompt)
        except Failure as failure:
            await self._fail(failure)
        return self._web

    async def _perform(self, step: Step | None, script: Script, limit: int | None) -> bool:
        """Runs the script; true when the answer has ended in one of its breaks."""
        while step is not None and not (limit is not None and self._entry.deltas >= limit):
            match step:
                case Text() | Thinking():
                    await self._say(step)
                case Calls():
                    pieces = CHARACTERS if step.announce is Announce.CHARACTERS else ANNOUNCED
                    for piece in self._writer.calls(step.calls, pieces):
                        await self._send(piece)
                    return False  # the results come with another request
                case Break():
                    await self._spoil(step)
                    return True
                case _:
                    await self._act(step)
            step = next(script, None)
        return False

    async def _act(self, step: Step) -> None:
        match step:
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Stall(heartbeats):
                while True:
                    await asyncio.sleep(self._world.options.heartbeat)
                    if heartbeats:
                        await self._send(self._writer.ping())
            case Fail(cause):
                raise scripted(cause)
            case Spend():
                self._spend = step
            case Quirk():
                self._writer.quirks.add(step)
            case _:
                pass  # what only Cursor's agent does

    async def _say(self, step: Text | Thinking) -> None:
        self._entry.deltas += 1
        if isinstance(step, Text):
            self._words += 1
            await self._send(self._writer.text(step.text))
        else:
            self._thought += 1
            await self._send(self._writer.thinking(step.text))

    async def _finish(self, prompt: Prompt) -> None:
        read = sum(words.count(text) for text in (prompt.system, prompt.text, *(one.text for one in prompt.history)))
        usage = (max(1, read), self._words + self._thought, self._thought)
        await self._send(self._writer.end(usage, self._spend))
        if Quirk.LATE_ERROR in self._writer.quirks:
            await self._send(self._writer.error({"type": "server_error", "message": "late"}))
        self._entry.end("complete", self._world.now())
        await self._web.write_eof()

    async def _spoil(self, how: Break) -> None:
        self._entry.end(how.name.lower(), self._world.now())
        if how is Break.RESET:
            await asyncio.sleep(0.05)
            http.reset(self._request)
            return
        if how is Break.GARBAGE:
            await self._send(b"data: {garbage\n\n")
        await self._web.write_eof()

    async def _fail(self, failure: Failure) -> None:
        self._entry.end(failure.label, self._world.now())
        if failure.cause.form in (Form.CLOSE, Form.HTML, Form.PLAIN, Form.EMPTY):
            http.close(self._request)
            return
        _, error = error_of(failure.cause, anthropic=self._anthropic)
        await self._send(self._writer.error(error))
        await self._web.write_eof()

    async def _send(self, data: bytes) -> None:
        if not self._started:
            self._started = True
            data = self._writer.start() + data
        if data:
            await self._web.write(data)


def refuse(request: web.Request, cause: Cause, *, anthropic: bool) -> web.Response:
    """The HTTP form of a cause, as this vendor says it."""
    if cause.form in (Form.CLOSE, Form.HTML, Form.PLAIN, Form.EMPTY):
        return http.answer(request, cause)
    status, error = error_of(cause, anthropic=anthropic)
    headers = {"retry-after": str(cause.retry_after)} if cause.retry_after is not None else {}
    body = {"type": "error", "error": error} if anthropic else {"error": error}
    return web.json_response(body, status=status, headers=headers)


def error_of(cause: Cause, *, anthropic: bool) -> tuple[int, dict[str, Any]]:
    """Status and error object. What the vendor has no word for is a bad request."""
    name = cause.name
    if name == "refused":
        name = {"unauthenticated": "key_bad", "not_found": "model_unknown"}.get(cause.code, name)
    if anthropic:
        status, kind = ANTHROPIC.get(name, (400, "invalid_request_error"))
        message = "prompt is too long: 210000 tokens > 200000 maximum" if name == "context_too_large" else cause.detail
        return status, {"type": kind, "message": message or cause.title}
    status, kind, code = OPENAI.get(name, (400, "invalid_request_error", None))
    return status, {"message": cause.detail or cause.title, "type": kind, "param": None, "code": code}


async def _body(request: web.Request, entry: Entry) -> Mapping[str, Any]:
    try:
        body = json.loads(await request.read())
    except ValueError:
        raise refusal("not JSON") from None
    if not isinstance(body, dict):
        raise refusal("not an object")
    entry.fields = {name: value for name, value in body.items() if name not in CONTENT}
    return body


def _note(entry: Entry, prompt: Prompt) -> None:
    entry.model, entry.text, entry.system = prompt.model, prompt.text, prompt.system
    entry.parameters = dict(prompt.parameters)
    entry.history = [(one.role, len(one.text)) for one in prompt.history]
    entry.tools = [{"name": one.name, "tool_name": one.tool_name, "schema": dict(one.schema)} for one in prompt.tools]
    pictures = [*(one for said in prompt.history for one in said.pictures), *prompt.pictures]
    entry.images = [{"mime_type": one.media_type, "bytes": len(one.data)} for one in pictures]
