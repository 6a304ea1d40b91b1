"""Text chat: a text model server of the operator's own, with tools and thinking over the text bridge.

One POST, one stream. Cursor's own hosts are refused here as well as at validation: this wire is for other servers, and
nothing is done against bot checks. A page instead of an answer means that the way is at fault.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

from core.hosts import is_cursor_host
from gateway.contracts import Clocks, Target
from gateway.protocols.textchat.client import PATH, TextStream, classify, encode_request
from gateway.upstreams.faults import restage
from gateway.upstreams.http import Answer, Door, header_lines
from gateway.upstreams.speech import Speech
from gateway.upstreams.watch import Watch
from ir.errors import Fault, Reason, Stage
from ir.events import Event
from ir.request import Request

USER_AGENT = "poolgate/0.1.0"
ERROR_BODY = 64 * 1024


class TextChat:
    """The upstream for text chat accounts. ``close`` ends it, the door included."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> TextRun:
        """Sends the turn; a refusal is raised here."""
        parts = urlsplit(target.base_url)
        if is_cursor_host(parts.hostname or ""):
            raise Fault(Reason.INTERNAL, Stage.CONNECT, upstream_code="address_refused")
        speech = Speech(request, target.policy, thinking=target.parameters.get("thinking") == "true")
        told = speech.told
        body = encode_request(
            target.model, told.system, [(line.role, line.text) for line in told.lines], secrets.token_hex(8)
        )
        head = header_lines(
            {
                "authorization": f"Bearer {target.credential}",
                "user-agent": USER_AGENT,
                "content-type": "application/json",
                "accept": "text/event-stream",
                "accept-encoding": "identity",
            }
        )
        loop = asyncio.get_running_loop()
        last = loop.time() + clocks.total
        deadline = min(loop.time() + clocks.first_token, last)
        origin = self._door.origin(target.base_url, target.proxy_url)
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._door.post(origin, parts.path + PATH, head, body, connect_timeout=clocks.connect)
                if answer.status != 200 or not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    raise classify(answer.status, answer.headers, await answer.read_all(ERROR_BODY))
        except TimeoutError:
            raise Fault(Reason.TIMEOUT, Stage.HEADERS) from None
        return TextRun(answer, speech, clocks, deadline, last)

    async def close(self) -> None:
        await self._door.close()


class TextRun:
    """One answer in flight: ``gateway.contracts.Run``."""

    def __init__(self, answer: Answer, speech: Speech, clocks: Clocks, deadline: float, last: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.last_sign = self._loop.time()
        self._answer = answer
        self._speech = speech
        self._stream = TextStream()
        self._watch = Watch()
        self._idle = clocks.idle
        self._deadline = deadline
        self._last = last
        self._signs = 0

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        stream = self._stream
        while not stream.ended:
            data = await self._read()
            if not data:
                break
            events = self._speech.feed(stream.feed(data))
            if events:
                yield events
            if stream.fault is not None:
                raise stream.fault
            if self._speech.done:
                return
        self._watch.stop()
        reason = stream.close()
        self._answer.release()
        yield self._speech.close(reason, stream.usage)

    async def close(self) -> None:
        """Drops the connection unless the answer was whole. Never raises."""
        self._watch.stop()
        self._answer.close()

    async def _read(self) -> bytes:
        if self._stream.signs != self._signs:
            self._signs = self._stream.signs
            self._deadline = min(self._loop.time() + self._idle, self._last)
        try:
            data = await self._watch.read(self._answer, self._deadline)
        except TimeoutError:
            raise Fault(Reason.TIMEOUT, self._stream.stage) from None
        except Fault as fault:
            raise restage(fault, self._stream.stage) from None
        self.last_sign = self._loop.time()
        return data
