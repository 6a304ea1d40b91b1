"""What a connection may cost before its request is known.

uvicorn's parser bounds neither the size of a request's head nor the time it may take, and a proxy that does is not
always in front. A head over ``HEAD_LIMIT`` is answered with 431; a connection that has not brought a whole head within
``HEAD_SECONDS`` is closed. Once the head is there, the application's own limits hold.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT = 64 * 1024
HEAD_SECONDS = 30.0

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with both bounds. A read may overshoot the limit by what it brings at once."""

    _in_head = True
    _head_size = 0
    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._closing = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        self._head_size += len(data)
        if self._head_size > HEAD_LIMIT:
            self.transport.write(TOO_LARGE)
            self.transport.close()
        elif self._closing is None:
            self._closing = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _stop_waiting(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
