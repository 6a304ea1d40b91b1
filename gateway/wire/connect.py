"""The Connect protocol's stream framing: envelopes out, and an incremental reader in.

An envelope is one flag byte, a big-endian u32 length and the payload. Flag ``0x01`` says that the payload is gzip,
``0x02`` that it is the end of the stream, whose payload is JSON; any other bit is an error. Source: the public
Connect specification, "Streaming RPCs". The bytes come from a network that may cut them anywhere and from a peer
that may lie about sizes, so a length is checked before it is waited for, and inflating stops at a limit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

MIB = 1024 * 1024
FRAME_LIMIT = 8 * MIB
INFLATED_LIMIT = 16 * MIB

COMPRESSED = 0x01
END = 0x02

_HEAD = struct.Struct(">BI")
_GZIP = 16 + zlib.MAX_WBITS


class FrameError(ValueError):
    """The bytes are no Connect stream, or go over a limit. The message holds numbers, never content."""


def encode(payload: bytes) -> bytes:
    """One plain envelope around a message."""
    return _HEAD.pack(0, len(payload)) + payload


def encode_end(error: Mapping[str, Any] | None = None) -> bytes:
    """The end-of-stream envelope: ``{}``, or ``{"error": …}``."""
    payload = orjson.dumps({} if error is None else {"error": error})
    return _HEAD.pack(END, len(payload)) + payload


class Reader:
    """Bytes in, message payloads out. After a ``FrameError`` the reader is of no more use.

    ``ended`` turns True with the end-of-stream envelope, and ``error`` is then its error object (``code``, ``message``,
    ``details``) or ``None`` for a good end. ``gzip`` tells whether the peer announced compression; without it a
    compressed envelope is an error. Sizes in bytes.
    """

    def __init__(
        self, *, gzip: bool = True, frame_limit: int = FRAME_LIMIT, inflated_limit: int = INFLATED_LIMIT
    ) -> None:
        self.gzip = gzip
        self.ended = False
        self.error: Mapping[str, Any] | None = None
        self._frame_limit = frame_limit
        self._inflated_limit = inflated_limit
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = _HEAD.size

    @property
    def clean(self) -> bool:
        """Nothing half-read is left."""
        return not self._held

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The payloads that ``data`` completes, inflated, in order; raises ``FrameError`` where a mistake stands.

        Lazy, so that what came before a mistake is delivered; exhaust it before the next ``feed``.
        """
        if self._held:
            self._pieces.append(data)
            self._held += len(data)
            if self._held < self._wanted:  # a large envelope in many pieces is joined once, not once a piece
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._held = 0
        start, size = 0, len(data)
        while size - start >= 5:
            flags, length = _HEAD.unpack_from(data, start)
            if flags or length > self._frame_limit or self.ended:
                self._check(flags, length)
            stop = start + 5 + length
            if stop > size:
                break
            payload = data[start + 5 : stop]
            start = stop
            if flags & COMPRESSED:
                payload = inflate(payload, self._inflated_limit)
            if flags & END:
                self.ended = True
                self.error = parse_end(payload)
            else:
                yield payload
        if start < size:
            self._hold(data[start:] if start else data)

    def _hold(self, rest: bytes) -> None:
        if self.ended:
            raise FrameError("bytes after the end of the stream")
        self._pieces.append(rest)
        self._held = len(rest)
        self._wanted = 5 + _HEAD.unpack_from(rest)[1] if len(rest) >= 5 else 5

    def _check(self, flags: int, length: int) -> None:
        if self.ended:
            raise FrameError("bytes after the end of the stream")
        if flags & ~(COMPRESSED | END):
            raise FrameError(f"unknown envelope flags 0x{flags:02x}")
        if flags & COMPRESSED and not self.gzip:
            raise FrameError("compressed envelope without an announced encoding")
        if length > self._frame_limit:
            raise FrameError(f"envelope of {length} bytes, the limit is {self._frame_limit}")


def inflate(payload: bytes, limit: int) -> bytes:
    """One gzip member, at most ``limit`` bytes of output are ever made. Raises ``FrameError``."""
    if not payload:  # an empty message may carry the flag without a gzip header
        return payload
    inflater = zlib.decompressobj(_GZIP)
    try:
        inflated = inflater.decompress(payload, limit + 1)
    except zlib.error:
        raise FrameError("broken gzip data") from None
    if len(inflated) > limit:
        raise FrameError(f"inflated envelope over {limit} bytes")
    if not inflater.eof or inflater.unused_data:
        raise FrameError("broken gzip data")
    return inflated


def parse_end(payload: bytes) -> Mapping[str, Any] | None:
    """The error object of an end-of-stream payload, ``None`` for a good end.

    Good ends seen: ``{}``, nothing at all, ``{"message": "OK"}``. Errors seen: ``{"error": {…}}`` and the bare object.
    """
    if not payload.strip():
        return None
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        raise FrameError("the end of the stream is not JSON") from None
    if not isinstance(value, dict):
        raise FrameError("the end of the stream is not a JSON object")
    error = value.get("error", value)
    if isinstance(error, dict):
        return error if error.get("code") or "error" in value else None
    return {"code": "unknown"} if error is not None else None
