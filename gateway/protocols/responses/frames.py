"""The events of one stream: their numbers, and those that carry the response object."""

from __future__ import annotations

from gateway.contracts import JsonObject, ResponseMeta
from gateway.protocols.responses.envelope import envelope, failure, progress
from gateway.protocols.responses.errors import error_body
from gateway.wire.json import dump
from gateway.wire.sse import event_frame
from ir.errors import ApiError
from ir.request import Request


class Frames:
    """``sequence`` is the number of the next event; ``started``: the response was announced."""

    def __init__(self, request: Request, meta: ResponseMeta) -> None:
        self.sequence = 0
        self.started = False
        self._constant = envelope(request, meta)
        self._bytes = b""

    def event(self, kind: str, fields: JsonObject) -> bytes:
        payload = dump({"type": kind, "sequence_number": self.sequence, **fields})
        self.sequence += 1
        return event_frame(kind.encode(), payload)

    def response(self, kind: str, changing: JsonObject) -> bytes:
        """An event that carries the response object."""
        if not self._bytes:
            self._bytes = dump(self._constant)[:-1]
        head = b'{"type":"%s","sequence_number":%d,"response":' % (kind.encode(), self.sequence)
        self.sequence += 1
        return event_frame(kind.encode(), head + self._bytes + b"," + dump(changing)[1:] + b"}")

    def start(self) -> bytes:
        """Once; another attempt that takes over gives nothing."""
        if self.started:
            return b""
        self.started = True
        changing = progress("in_progress")
        return self.response("response.created", changing) + self.response("response.in_progress", changing)

    def whole(self, changing: JsonObject) -> JsonObject:
        return {**self._constant, **changing}

    def fail(self, error: ApiError, output: list[JsonObject]) -> bytes:
        """``response.failed`` under the response's id; before it began, the ``error`` that some clients want first."""
        first = b""
        if not self.started:
            body = error_body(error)["error"]
            first = self.event("error", {name: body[name] for name in ("code", "message", "param")})
        return first + self.response("response.failed", progress("failed", output, error=failure(error)))
