"""A transport that remembers, and HTTP by hand."""

from __future__ import annotations

import asyncio


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)


def post(path: str, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nhost: here\r\ncontent-length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def http_body(written: bytes) -> bytes:
    """The chunks of a chunked answer, joined, as far as they have come."""
    _, _, rest = written.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
    return body
