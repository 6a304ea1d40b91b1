"""Gemini native, we are the server: see ``gateway.contracts.ServerRole``.

What a request asks for is half in its URL, so the role is bound to one: ``admit`` makes it, or refuses.
"""

from __future__ import annotations

from gateway.contracts import ResponseMeta
from gateway.protocols.gemini import decode, encode, errors, paths
from gateway.protocols.gemini.encode import GeminiStream
from gateway.protocols.gemini.errors import encode_error
from gateway.protocols.gemini.paths import is_gemini
from ir.errors import ApiError, Kind
from ir.request import Request

NAME = "gemini"

__all__ = ["NAME", "Role", "admit", "encode_error", "is_gemini"]


class Role:
    """The server role for one URL. ``endpoint`` is its path without the caller's own words."""

    NAME = NAME
    OUTPUT_LIMIT = "generationConfig.maxOutputTokens"
    REASONING_BY_KEY = False

    encode_response = staticmethod(encode.encode_response)
    encode_error = staticmethod(errors.encode_error)

    def __init__(self, call: paths.Call, key: str = "") -> None:
        self.endpoint = call.endpoint
        self.key = key
        self._call = call

    def decode_request(self, body: object) -> Request:
        return decode.decode_request(body, self._call)

    def stream(self, request: Request, meta: ResponseMeta) -> GeminiStream:
        return GeminiStream(meta)


def admit(method: str, path: str, query: bytes, enabled: bool) -> Role:
    """Raises a 404 while the gate is shut, and as ``paths.parse`` does; ``query`` may hold the key (``?key=``)."""
    if not enabled:
        raise ApiError(Kind.NOT_FOUND, "gemini_native_disabled", "The Gemini API is not enabled on this gateway.")
    return Role(paths.parse(method, path, query), paths.read_parameter(query, "key"))
