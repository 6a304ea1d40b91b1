"""What may pass as an image: inline Base64 of four formats, told apart by their first bytes.

Order matters: the type is checked here at decode time without touching the data; counts and sizes are budgets
(``ops.budgets``) worked out from the encoded length; only then ``verify`` decodes. Errors hold no data.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir.errors import ApiError, invalid
from ir.request import Image

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def parse_data_url(url: str, param: str) -> Image:
    """``data:<type>;base64,<data>`` and nothing else: no further parameters, and no address is ever fetched."""
    if url[:5].lower() != "data:":
        raise invalid("unsupported_image_source", f"{param}: only inline Base64 images are accepted", param)
    head, comma, encoded = url[5:].partition(",")
    media_type, semicolon, coding = head.partition(";")
    if not comma or not semicolon or coding.lower() != "base64":
        raise _broken(param, param)
    return inline(media_type, encoded, param)


def inline(media_type: str, encoded: str, param: str) -> Image:
    """An image from its parts; the data itself is looked at by ``verify``."""
    if media_type.lower() not in MEDIA_TYPES:
        raise invalid("invalid_image", f"{param}: the image type must be PNG, JPEG, GIF or WebP", param)
    if not encoded or len(encoded) % 4:
        raise _broken(param, param)
    return Image(media_type.lower(), encoded)


def verify(images: Sequence[Image]) -> None:
    """Decodes each image and compares its first bytes with its type. Raises a 400 that names the image's position."""
    for position, image in enumerate(images):
        where = f"image {position + 1}"
        try:
            data = image.data
        except ValueError:
            raise _broken(where) from None
        if sniff(data) != image.media_type:
            raise invalid("invalid_image", f"{where}: the data is not {image.media_type}")


def sniff(data: bytes) -> str:
    """The media type that the first bytes show, or ""."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def _broken(where: str, param: str | None = None) -> ApiError:
    return invalid("invalid_image", f"{where}: the image must be padded Base64 without white space", param)
