from __future__ import annotations

import gzip
import itertools
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import connect
from gateway.wire.connect import FrameError, Reader


def envelope(payload: bytes, flags: int = 0) -> bytes:
    if flags & connect.COMPRESSED:
        payload = gzip.compress(payload)
    return struct.pack(">BI", flags, len(payload)) + payload


def read(reader: Reader, pieces: Sequence[bytes]) -> list[bytes]:
    return [payload for piece in pieces for payload in reader.feed(piece)]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(borders)]


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.sampled_from([0, connect.COMPRESSED])), max_size=6),
    st.sampled_from([connect.END, connect.END | connect.COMPRESSED]),
    st.lists(st.integers(0, 10_000), max_size=12),
)
def test_payloads_survive_any_cut_and_any_mix_of_gzip(
    messages: list[tuple[bytes, int]], end: int, places: list[int]
) -> None:
    data = b"".join(envelope(payload, flags) for payload, flags in messages) + envelope(b"{}", end)
    reader = Reader()
    assert read(reader, cut(data, places)) == [payload for payload, _ in messages]
    assert (reader.ended, reader.error, reader.clean) == (True, None, True)


def test_one_byte_at_a_time_gives_the_same_as_all_at_once() -> None:
    data = envelope(b"first") + envelope(b"") + envelope(b"x" * 300, connect.COMPRESSED) + envelope(b"{}", connect.END)
    reader = Reader()
    assert read(reader, [data[at : at + 1] for at in range(len(data))]) == [b"first", b"", b"x" * 300]
    assert reader.ended


@given(st.binary(min_size=1, max_size=30), st.integers(1, 34))
def test_a_cut_stream_is_never_clean_and_never_ended(payload: bytes, size: int) -> None:
    data = envelope(payload)[:size]
    reader = Reader()
    got = read(reader, [data])
    assert reader.clean is (size >= len(payload) + 5)
    assert not reader.ended
    assert got == ([payload] if size >= len(payload) + 5 else [])


def test_encode_is_what_the_reader_reads() -> None:
    assert connect.encode(bytes.fromhex("0a027231")).hex() == "00000000040a027231"
    assert list(Reader().feed(connect.encode(b"a") + connect.encode(b"b"))) == [b"a", b"b"]


@pytest.mark.parametrize("flags", [0x04, 0x08, 0x80, 0x07])
def test_unknown_flags_are_refused_before_their_payload_has_come(flags: int) -> None:
    with pytest.raises(FrameError, match="unknown envelope flags"):
        list(Reader().feed(struct.pack(">BI", flags, 1000)))


def test_a_length_over_the_limit_is_refused_before_its_payload_has_come() -> None:
    assert list(Reader(frame_limit=10).feed(envelope(b"x" * 10))) == [b"x" * 10]
    with pytest.raises(FrameError, match="11 bytes"):
        list(Reader(frame_limit=10).feed(struct.pack(">BI", 0, 11)))


@pytest.mark.parametrize("flags", [connect.COMPRESSED, connect.COMPRESSED | connect.END])
def test_a_bomb_is_stopped_at_the_limit(flags: int) -> None:
    bomb = envelope(b"\0" * 5_000_000, flags)
    assert len(bomb) < 10_000
    with pytest.raises(FrameError, match="over 100000 bytes"):
        list(Reader(inflated_limit=100_000).feed(bomb))


def test_inflating_allows_exactly_the_limit() -> None:
    assert connect.inflate(gzip.compress(b"x" * 100), 100) == b"x" * 100
    with pytest.raises(FrameError):
        connect.inflate(gzip.compress(b"x" * 101), 100)


@pytest.mark.parametrize(
    "payload",
    [
        b"not gzip",
        gzip.compress(b"whole", mtime=0)[:-1],
        gzip.compress(b"one", mtime=0) + b"more",
        gzip.compress(b"x" * 50, mtime=0)[:12],
    ],
)
def test_broken_gzip_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError, match="broken gzip"):
        connect.inflate(payload, 1000)


def test_gzip_without_an_announced_encoding_is_refused() -> None:
    with pytest.raises(FrameError, match="without an announced encoding"):
        list(Reader(gzip=False).feed(envelope(b"x", connect.COMPRESSED)))


@pytest.mark.parametrize("more", [b"\0", envelope(b"x"), envelope(b"{}", connect.END)])
def test_nothing_may_follow_the_end(more: bytes) -> None:
    end = envelope(b"{}", connect.END)
    with pytest.raises(FrameError, match="after the end"):
        list(Reader().feed(end + more))
    reader = Reader()
    assert list(reader.feed(end)) == []
    with pytest.raises(FrameError, match="after the end"):
        list(reader.feed(more))


def test_what_stands_before_a_mistake_is_delivered() -> None:
    stream = Reader().feed(envelope(b"good") + envelope(b"bad", 0x40))
    assert next(stream) == b"good"
    with pytest.raises(FrameError):
        next(stream)


@pytest.mark.parametrize("payload", [b"{}", b"", b"  ", b'{"message":"OK"}', b'{"error":null}', b'{"metadata":{}}'])
def test_good_ends(payload: bytes) -> None:
    assert connect.parse_end(payload) is None


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b'{"error":{"code":"internal","message":"Error"}}', "internal"),
        (b'{"code":"unavailable"}', "unavailable"),
        (b'{"error":"text"}', "unknown"),
        (b'{"error":{}}', None),
    ],
)
def test_ends_with_an_error(payload: bytes, code: str | None) -> None:
    error = connect.parse_end(payload)
    assert error is not None
    assert error.get("code") == code


@pytest.mark.parametrize("payload", [b"nonsense", b"[]", b'"x"', b"{"])
def test_an_end_that_is_no_json_object_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError):
        connect.parse_end(payload)
    with pytest.raises(FrameError):
        list(Reader().feed(envelope(payload, connect.END)))


def test_encode_end_is_read_back() -> None:
    reader = Reader()
    assert list(reader.feed(connect.encode_end({"code": "internal"}))) == []
    assert reader.error == {"code": "internal"}
    assert connect.encode_end() == bytes.fromhex("02000000027b7d")


def test_a_large_envelope_in_small_pieces_is_joined_once() -> None:
    payload = b"x" * 1_000_000
    reader = Reader()
    data = envelope(payload)
    assert read(reader, [data[at : at + 1000] for at in range(0, len(data), 1000)]) == [payload]
