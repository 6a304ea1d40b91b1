"""What a connection may cost before its request is known.

uvicorn's parser bounds neither the size of a request's head nor the time it may take, and adds the trailers of a
chunked body to the request's headers, behind the back of whoever vouched for those; a proxy that does better is not
always in front. A head over ``HEAD_LIMIT`` is answered with 431, a connection that has not brought a whole head within
``HEAD_SECONDS`` is closed, and trailers are dropped. Once the head is there, the application's own limits hold.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT = 64 * 1024
HEAD_SECONDS = 30.0

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with these bounds.

    ``_unused`` counts bytes that led to nothing yet, of a head or of what may follow a body: the parser keeps them. A
    read may overshoot the limit by what it brings at once.
    """

    _in_head = _moved = False
    _unused = 0
    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._moved = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._unused = 0 if self._moved else self._unused + len(data)
        if self._unused > HEAD_LIMIT:
            if self._is_idle():  # else an answer is on its way
                self.transport.write(TOO_LARGE)
            self.transport.close()
        elif self._closing is None and self._is_idle():
            self._await_head()

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._moved = False, True
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved = True
        super().on_body(body)

    def _is_idle(self) -> bool:
        return bool(getattr(self.cycle, "response_complete", True))  # no cycle before the first request

    def _await_head(self) -> None:
        self._closing = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
