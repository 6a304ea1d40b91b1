"""Server-sent events: one frame out, and an incremental reader in.

Source: the HTML standard, "Server-sent events". Only the fields that model vendors use: ``event``, ``data``, ``id``.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

COMMENT = b": keepalive\n\n"


class Frame(Struct, frozen=True):
    """One dispatched event. ``event`` is "message" when the stream named none, ``id`` "" when the event had none of
    its own (the standard lets the last one stick: whoever resumes a stream keeps it)."""

    event: str
    data: str
    id: str = ""


def data_frame(payload: bytes) -> bytes:
    """``payload`` must hold no line feed (compact JSON never does)."""
    return b"data: " + payload + b"\n\n"


def event_frame(event: bytes, payload: bytes) -> bytes:
    return b"event: " + event + b"\ndata: " + payload + b"\n\n"


class Reader:
    """Bytes in, frames out, split anywhere: inside a line, inside a character, between CR and LF.

    ``limit`` bounds an unfinished line or event, in bytes; over it ``feed`` raises ``ValueError``.
    """

    def __init__(self, limit: int = 16 * 1024 * 1024) -> None:
        self._limit = limit
        self._buffer = b""
        self._first = True
        self._event = ""
        self._id = ""
        self._data: list[str] = []
        self._size = 0

    @property
    def clean(self) -> bool:
        """Nothing half-read is left."""
        return not self._buffer.strip(b"\r\n") and not self._data

    def feed(self, data: bytes) -> list[Frame]:
        return list(self._frames(data))

    def _frames(self, data: bytes) -> Iterator[Frame]:
        buffer = self._buffer + data
        if self._first and len(buffer) >= 3:
            self._first = False
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
        held = b""
        if buffer.endswith(b"\r"):  # a line feed may follow: it would be one line end, not two
            buffer, held = buffer[:-1], b"\r"
        lines = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._buffer = lines.pop() + held
        if len(self._buffer) + self._size > self._limit:
            raise ValueError("event too large")
        for line in lines:
            frame = self._line(line)
            if frame is not None:
                yield frame

    def _line(self, line: bytes) -> Frame | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        match name:
            case b"data":
                self._data.append(text)
                self._size += len(value)
            case b"event":
                self._event = text
            case b"id":
                self._id = text
            case _:
                pass
        return None

    def _dispatch(self) -> Frame | None:
        event, data, identifier = self._event, self._data, self._id
        self._event, self._data, self._size, self._id = "", [], 0, ""
        return Frame(event or "message", "\n".join(data), identifier) if data else None
