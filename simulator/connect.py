"""Connect envelopes as the simulator writes and reads them: flag byte, u32 big-endian length, payload."""

from __future__ import annotations

import gzip
import struct

COMPRESSED = 0x01
END = 0x02
STREAM_TYPE = "application/connect+proto"
UNARY_TYPE = "application/proto"
LIMIT = 32 * 1024 * 1024


def frame(payload: bytes, flags: int = 0) -> bytes:
    """One envelope, uncompressed."""
    return struct.pack(">BI", flags, len(payload)) + payload


def squeeze(payload: bytes, flags: int = 0) -> bytes:
    """One envelope with a gzip payload. Legal only when the peer announced gzip."""
    return frame(gzip.compress(payload, compresslevel=1, mtime=0), flags | COMPRESSED)


def unframe(body: bytes, *, gzip_allowed: bool = False) -> bytes:
    """The payload of a body that must be exactly one envelope. Raises ``ValueError`` for anything else."""
    if len(body) < 5:
        raise ValueError("the body is shorter than an envelope")
    flags, size = struct.unpack(">BI", body[:5])
    if flags & ~COMPRESSED:
        raise ValueError(f"envelope flags {flags:#04x} are not allowed here")
    if size != len(body) - 5 or size > LIMIT:
        raise ValueError("the envelope's length does not fit the body")
    if not flags & COMPRESSED:
        return body[5:]
    if not gzip_allowed:
        raise ValueError("a compressed envelope without connect-content-encoding")
    try:
        return gzip.decompress(body[5:])
    except (OSError, EOFError) as error:
        raise ValueError("the envelope is not gzip") from error
