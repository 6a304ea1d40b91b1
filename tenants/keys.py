"""The format of an API key. Pure: randomness and pepper are arguments.

``pg_<env>_<8-char id>_<43-char secret>_<6-char checksum>``, all base62. The id finds the row, the secret carries 256
bits, and the checksum (CRC-32 of everything before it) lets a typo or junk be refused without a look at any table,
and lets secret scanners be sure of what they found. A row keeps the HMAC of the whole key, nothing that rebuilds it.
"""

from __future__ import annotations

import hmac
import re
import zlib

from msgspec import Struct

ENVS = ("live", "demo")
RANDOM_BYTES = 56
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH, _SECRET_LENGTH, _CHECKSUM_LENGTH = 8, 43, 6
_ID_BYTES = 16  # far more than 8 characters need, so that no character is likelier than another
_PATTERN = re.compile(r"pg_(live|demo)_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})")


class ParsedKey(Struct, frozen=True):
    """A well-formed key, not yet a valid one. The secret is in ``text`` only, which no repr shows."""

    env: str
    public_id: str
    text: str

    def __repr__(self) -> str:
        return f"ParsedKey(env={self.env!r}, public_id={self.public_id!r})"

    @property
    def last_four(self) -> str:
        return self.text[-4:]


def make(env: str, randomness: bytes) -> ParsedKey:
    """A new key from ``RANDOM_BYTES`` random bytes. Raises ``ValueError`` for an unknown env or another length."""
    if env not in ENVS:
        raise ValueError(f"env must be one of {', '.join(ENVS)}.")
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a key needs {RANDOM_BYTES} random bytes")
    public_id = _base62(int.from_bytes(randomness[:_ID_BYTES], "big"), _ID_LENGTH)
    secret = _base62(int.from_bytes(randomness[_ID_BYTES:], "big"), _SECRET_LENGTH)
    body = f"pg_{env}_{public_id}_{secret}"
    return ParsedKey(env, public_id, f"{body}_{_checksum(body)}")


def parse(text: str) -> ParsedKey | None:
    """The parts of a well-formed key with a right checksum, else ``None``."""
    match = _PATTERN.fullmatch(text)
    if match is None or _checksum(text[: -_CHECKSUM_LENGTH - 1]) != match[4]:
        return None
    return ParsedKey(match[1], match[2], text)


def digest(text: str, pepper: str) -> bytes:
    """What is kept of a key: HMAC-SHA256 of the whole text. Raises ``ValueError`` for an empty pepper."""
    if not pepper:
        raise ValueError("POOLGATE_KEY_PEPPER is empty.")
    return hmac.digest(pepper.encode(), text.encode(), "sha256")


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
