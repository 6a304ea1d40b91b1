"""The Agent RPC over HTTP/1.1: ``RunSSE`` streams, ``BidiAppend`` asks, ``Run`` is refused as the balancer does."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

from protobufs import agent_v1_pb2 as pb
from simulator import checks, connect, messages, scripts
from simulator.accounts import Account
from simulator.causes import CAUSES, HTML, Cause, Failure, Form, end_of_stream, refusal
from simulator.faces import http
from simulator.journal import redact
from simulator.line import Line
from simulator.runs import Run
from simulator.steps import Break
from simulator.turn import Turn
from simulator.world import World

# A reset must not overtake what was sent before it.
RESET_DELAY = 0.05
ILLEGAL_TAG = "illegal tag: field no 0 wire type 0"


class Response:
    """The body of a RunSSE answer, one envelope a write."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._gzip_allowed = "gzip" in request.headers.get("connect-accept-encoding", "")
        headers = {"content-type": connect.STREAM_TYPE}
        if self._gzip_allowed:
            headers["connect-content-encoding"] = "gzip"
        self.web = web.StreamResponse(headers=headers)
        self._mixing = False
        self._count = 0

    async def open(self) -> None:
        await self.web.prepare(self._request)

    async def send(self, payload: bytes) -> None:
        await self.web.write(self._frame(payload, 0))

    def mix_gzip(self) -> None:
        self._mixing = self._gzip_allowed

    async def end(self, cause: Cause | None) -> None:
        """The end-of-stream frame, then the end of the body."""
        await self.web.write(self._frame(end_of_stream(cause), connect.END))
        await self.web.write_eof()

    async def spoil(self, how: Break) -> None:
        """One of the ends that are not ends."""
        if how is Break.RESET:
            await asyncio.sleep(RESET_DELAY)
            http.reset(self._request)
            return
        if how is Break.GARBAGE:
            await self.web.write(connect.frame(messages.UNDECODABLE))
            await self.end(None)
            return
        await self.web.write_eof()

    async def fail(self, cause: Cause) -> None:
        """A failure after the stream has begun: an error frame, or what a middlebox would leave behind."""
        match cause.form:
            case Form.CLOSE:
                http.close(self._request)
            case Form.HTML | Form.PLAIN | Form.EMPTY:
                await self.web.write(HTML.encode())
                await self.web.write_eof()
            case _:
                await self.end(cause)

    def _frame(self, payload: bytes, flags: int) -> bytes:
        self._count += 1
        if self._mixing and self._count % 2:
            return connect.squeeze(payload, flags)
        return connect.frame(payload, flags)


class AgentFace:
    """Joins the two sides of a run by request id, whichever comes first."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/agent.v1.AgentService/RunSSE", self.run_sse),
            web.post("/aiserver.v1.BidiService/BidiAppend", self.bidi_append),
            web.post("/agent.v1.AgentService/Run", self.run),
        ]

    async def run(self, request: web.Request) -> web.Response:
        """``Run`` needs HTTP/2; over HTTP/1.1 the load balancer answers 464."""
        entry = self._world.open_entry("run", None, request.headers)
        entry.end("refused:Run over HTTP/1.1", self._world.now())
        return web.Response(status=464)

    async def run_sse(self, request: web.Request) -> web.StreamResponse:
        """The streaming side. Refusals before the stream has begun are HTTP answers and journal entries."""
        account: Account | None = None
        try:
            account = self._world.account_of_token(request.headers)
            request_id = _request_id(await _stream_body(request))
            run = self._join(request_id, account, "run_sse", request)
            if run.attached and run.failure is not None:
                # The first try met trouble on the way and never became a stream: this one starts anew.
                self._world.runs.forget(request_id)
                run = self._join(request_id, account, "run_sse", request)
            if run.attached:
                raise refusal("a second stream for one request id", code="already_exists")
        except Failure as failure:
            return self._refuse(request, account, failure)
        except web.HTTPUnsupportedMediaType:
            self._note_refusal(request, account, "content type")
            return http.unsupported(connect.STREAM_TYPE)
        run.attached = True
        run.entry.headers = redact(request.headers)
        if run.failure is not None:
            return self._meet(request, run, run.failure)
        return await self._serve(request, account, run)

    async def _serve(self, request: web.Request, account: Account, run: Run) -> web.StreamResponse:
        account.runs += 1
        account.active_streams += 1
        response = Response(request)
        dropped = asyncio.ensure_future(self._drop_when_told(request, run))
        try:
            await response.open()
            line = Line(run, response, lambda: self._world.options.heartbeat)
            ended = await self._play(account, run, line, response)
            run.entry.end(ended, self._world.now())
        except (asyncio.CancelledError, ConnectionError):
            run.entry.end("cancelled", self._world.now())
            raise
        finally:
            run.entry.end("crashed", self._world.now())
            run.ended = True
            account.active_streams -= 1
            dropped.cancel()
        return response.web

    async def _play(self, account: Account, run: Run, line: Line, response: Response) -> str:
        try:
            ending = await Turn(account, run, line).play()
            if ending is None:
                await response.end(None)
                return "complete"
            run.entry.end(ending.name.lower(), self._world.now())
            await response.spoil(ending)
        except Failure as failure:
            run.entry.end(failure.label, self._world.now())
            await response.fail(failure.cause)
        return run.entry.ended or ""

    async def _drop_when_told(self, request: web.Request, run: Run) -> None:
        """A cause that closes connections closes the stream's too, not only the append that met it."""
        with contextlib.suppress(Failure):
            await asyncio.shield(run.request)
        if run.failure is not None and run.failure.form is Form.CLOSE:
            http.close(request)

    async def bidi_append(self, request: web.Request) -> web.Response:
        """The asking side: one client message. The answer is empty, also after the run's end."""
        account: Account | None = None
        try:
            account = self._world.account_of_token(request.headers)
            if request.content_type != connect.UNARY_TYPE:
                self._note_refusal(request, account, "content type")
                return http.unsupported(connect.UNARY_TYPE)
            append = checks.parse(pb.BidiAppendRequest, await request.read(), ILLEGAL_TAG)
            message = _client_message(append)
            run = self._join(append.request_id.request_id, account, "bidi_append", request)
        except Failure as failure:
            return self._refuse(request, account, failure)
        if run.ended:
            return _empty()
        for due in run.append(append.append_seqno, message):
            self._deliver(run, due)
        if run.failure is not None:
            return self._meet(request, run, run.failure)
        return _empty()

    def _join(self, request_id: str, account: Account, transport: str, request: web.Request) -> Run:
        if not request_id:
            raise refusal("no request id")
        run = self._world.runs.get(request_id)
        if run is None:
            entry = self._world.open_entry(transport, account, request.headers)
            entry.request_id = request_id
            run = Run(request_id, account.name, entry)
            cause = self._world.faults.at_contact(account.name)
            run.failure = CAUSES[cause] if cause else None
            self._world.runs.add(run, self._world.now())
        elif run.account != account.name:
            raise refusal("the run belongs to another account", code="permission_denied")
        if transport == "run_sse":
            run.entry.transport = transport
        return run

    def _deliver(self, run: Run, message: pb.AgentClientMessage) -> None:
        """Lets a message act. With the first the model is known, and so is whatever trouble was ordered for it."""
        if message.HasField("run_request") and not run.request.done():
            request = message.run_request
            run.entry.model = checks.model_of(request)
            run.entry.text = request.action.user_message_action.user_message.text
            if run.failure is None:
                self._decide(run)
        run.deliver(message)

    def _decide(self, run: Run) -> None:
        run.verdict = self._world.faults.at_run(run.account, run.entry.model)
        cause = run.verdict.cause if not run.verdict.after else None
        cause = cause or scripts.failure_before_output(run.entry.model, run.entry.text)
        if cause and CAUSES[cause].form is not Form.STREAM:
            run.failure = CAUSES[cause]

    def _meet(self, request: web.Request, run: Run, cause: Cause) -> web.Response:
        run.entry.end(f"error:{cause.name}", self._world.now())
        return http.answer(request, cause)

    def _refuse(self, request: web.Request, account: Account | None, failure: Failure) -> web.Response:
        self._note_refusal(request, account, failure.label.removeprefix("refused:"))
        return http.answer(request, failure.cause)

    def _note_refusal(self, request: web.Request, account: Account | None, reason: str) -> None:
        transport = "run_sse" if request.path.endswith("RunSSE") else "bidi_append"
        entry = self._world.open_entry(transport, account, request.headers)
        entry.end(f"refused:{reason}", self._world.now())


async def _stream_body(request: web.Request) -> bytes:
    """The one envelope of a server-streaming request. Raises for another content type, version or framing."""
    if request.content_type != connect.STREAM_TYPE:
        raise web.HTTPUnsupportedMediaType
    if request.headers.get("connect-protocol-version") != "1":
        raise refusal("connect-protocol-version is not 1")
    announced = request.headers.get("connect-content-encoding") == "gzip"
    try:
        return connect.unframe(await request.read(), gzip_allowed=announced)
    except ValueError as error:
        raise refusal(str(error)) from None


def _request_id(body: bytes) -> str:
    return checks.parse(pb.BidiRequestId, body, ILLEGAL_TAG).request_id


def _client_message(append: pb.BidiAppendRequest) -> pb.AgentClientMessage:
    """The message of an append, from hex ``data`` or raw ``data_binary``."""
    data = append.data_binary
    if append.data:
        try:
            data = bytes.fromhex(append.data)
        except ValueError:
            raise refusal("data is not hex") from None
    if not data:
        raise refusal("an append without data")
    return checks.parse(pb.AgentClientMessage, data, "the append holds no client message")


def _empty() -> web.Response:
    return web.Response(body=b"", content_type=connect.UNARY_TYPE)
