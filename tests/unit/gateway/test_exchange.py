from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange import CallerGone, Exchange
from ir.errors import ApiError, Kind

Message = MutableMapping[str, Any]


def exchange(pieces: Sequence[bytes], headers: dict[bytes, bytes] | None = None, *, end: str = "whole") -> Exchange:
    """An exchange whose body arrives in ``pieces`` and then ends: whole, gone, or silent."""
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if end == "whole":
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    elif end == "gone":
        messages.append({"type": "http.disconnect"})

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError(message)

    scope = {"method": "POST", "path": "/", "headers": list((headers or {}).items()), "client": ("127.0.0.1", 1)}
    return Exchange(scope, receive, send, "req_1")


def read(pieces: Sequence[bytes], coding: bytes = b"", limit: int = 1000, end: str = "whole") -> bytes:
    headers = {b"content-encoding": coding} if coding else {}
    return asyncio.run(exchange(pieces, headers, end=end).read_body(limit, 0.05))


@given(st.binary(max_size=60), st.integers(1, 7), st.sampled_from([b"", b"gzip", b"deflate", b"identity"]))
def test_a_body_is_read_whole_whatever_its_pieces_and_coding(body: bytes, size: int, coding: bytes) -> None:
    coded = gzip.compress(body) if coding == b"gzip" else zlib.compress(body) if coding == b"deflate" else body
    pieces = [coded[at : at + size] for at in range(0, len(coded), size)]
    assert read(pieces, coding) == body


@pytest.mark.parametrize("coding", [b"", b"gzip"])
def test_a_body_at_the_limit_passes_and_one_byte_more_does_not(coding: bytes) -> None:
    def sized(size: int) -> list[bytes]:
        return [gzip.compress(b"x" * size) if coding else b"x" * size]

    assert len(read(sized(1000), coding)) == 1000
    with pytest.raises(ApiError) as caught:
        read(sized(1001), coding)
    assert (caught.value.kind, caught.value.code) == (Kind.TOO_LARGE, "request_too_large")


def test_gzip_data_in_several_members_is_one_body() -> None:
    assert read([gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")], b"gzip") == b"one two"
    with pytest.raises(ApiError) as caught:
        read([gzip.compress(b"x" * 600) + gzip.compress(b"x" * 600)], b"gzip")
    assert caught.value.kind is Kind.TOO_LARGE


def test_a_declared_length_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(ApiError) as caught:
        asyncio.run(exchange([], {b"content-length": b"1001"}, end="silent").read_body(1000, 0.05))
    assert caught.value.kind is Kind.TOO_LARGE


def test_a_bomb_is_refused_without_being_inflated() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(ApiError) as caught:
        read([bomb], b"gzip", limit=10_000)
    assert caught.value.kind is Kind.TOO_LARGE


@pytest.mark.parametrize(
    ("pieces", "coding", "kind", "code"),
    [
        ([b"not gzip"], b"gzip", Kind.INVALID_REQUEST, "invalid_content_encoding"),
        ([gzip.compress(b"abc", mtime=0) + b"junk"], b"gzip", Kind.INVALID_REQUEST, "invalid_content_encoding"),
        ([gzip.compress(b"abc", mtime=0)[:-3]], b"gzip", Kind.INVALID_REQUEST, "invalid_content_encoding"),
        ([b"x"], b"br", Kind.UNSUPPORTED_MEDIA, "unsupported_content_encoding"),
    ],
)
def test_broken_and_unknown_codings_are_named(pieces: list[bytes], coding: bytes, kind: Kind, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(pieces, coding)
    assert (caught.value.kind, caught.value.code) == (kind, code)


def test_a_body_that_stops_half_way_is_a_timeout_or_a_caller_that_left() -> None:
    with pytest.raises(ApiError) as caught:
        read([b"{"], end="silent")
    assert caught.value.kind is Kind.REQUEST_TIMEOUT
    with pytest.raises(CallerGone):
        read([b"{"], end="gone")


async def test_a_body_that_only_trickles_in_is_a_timeout() -> None:
    async def receive() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    trickle = Exchange({"method": "POST", "path": "/", "headers": []}, receive, send, "req_1")
    with pytest.raises(ApiError) as caught:
        await trickle.read_body(1_000_000, 0.05)
    assert caught.value.kind is Kind.REQUEST_TIMEOUT
