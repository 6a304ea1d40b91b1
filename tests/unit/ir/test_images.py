from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.errors import ApiError
from ir.images import inline, parse_data_url, sniff, verify
from ir.request import Image

PNG = b"\x89PNG\r\n\x1a\n" + b"rest"
HEADS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0rest",
    "image/gif": b"GIF89a rest",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPrest",
}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@given(st.binary(min_size=1, max_size=100))
def test_the_size_is_known_without_decoding(data: bytes) -> None:
    assert Image("image/png", encoded(data)).size == len(data)


@pytest.mark.parametrize(("media_type", "data"), HEADS.items())
def test_the_four_formats_pass(media_type: str, data: bytes) -> None:
    image = parse_data_url(f"DATA:{media_type.upper()};base64,{encoded(data)}", "p")
    assert (image.media_type, image.data) == (media_type, data)
    verify([image])


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://example.org/a.png", "unsupported_image_source"),
        ("file-123", "unsupported_image_source"),
        ("data:image/png;base64", "invalid_image"),
        ("data:image/png," + encoded(PNG), "invalid_image"),
        ("data:image/png;name=x;base64," + encoded(PNG), "invalid_image"),
        ("data:image/png;base64,", "invalid_image"),
        ("data:image/png;base64,abc", "invalid_image"),
        ("data:image/tiff;base64,AAAA", "invalid_image"),
        ("data:text/html;base64,AAAA", "invalid_image"),
    ],
)
def test_anything_else_is_refused_and_named(url: str, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_data_url(url, "messages[0].content[1]")
    assert (caught.value.code, caught.value.param) == (code, "messages[0].content[1]")


@pytest.mark.parametrize(
    "image",
    [
        inline("image/png", "A!AA", "p"),
        inline("image/png", "AA A", "p"),
        inline("image/jpeg", encoded(PNG), "p"),
        inline("image/png", encoded(b"<html>"), "p"),
    ],
)
def test_broken_data_and_disguised_types_are_refused_without_showing_them(image: Image) -> None:
    with pytest.raises(ApiError) as caught:
        verify([Image("image/png", encoded(PNG)), image])
    assert caught.value.code == "invalid_image"
    assert "image 2" in caught.value.message
    assert image.encoded not in caught.value.message


@given(st.binary(max_size=20))
def test_sniffing_never_fails(data: bytes) -> None:
    assert sniff(data) in {*HEADS, ""}
