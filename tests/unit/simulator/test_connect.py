from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import connect


@given(st.binary(max_size=300))
def test_one_envelope_gives_its_payload_back(payload: bytes) -> None:
    assert connect.unframe(connect.frame(payload)) == payload
    assert connect.unframe(connect.squeeze(payload), gzip_allowed=True) == payload


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x00\x00",
        connect.frame(b"x") + b"y",
        connect.frame(b"xy")[:-1],
        connect.frame(b"x", connect.END),
        connect.frame(b"x", 0x80),
        connect.squeeze(b"x"),
    ],
)
def test_anything_but_one_plain_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        connect.unframe(body)


def test_a_compressed_envelope_that_is_no_gzip_is_refused() -> None:
    with pytest.raises(ValueError, match="gzip"):
        connect.unframe(connect.frame(b"x", connect.COMPRESSED), gzip_allowed=True)


def test_squeezing_keeps_the_other_flags() -> None:
    envelope = connect.squeeze(b"{}", connect.END)
    assert envelope[0] == connect.END | connect.COMPRESSED
    assert gzip.decompress(envelope[5:]) == b"{}"
