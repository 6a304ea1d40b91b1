"""The URLs of the Gemini API: which two actions are served, and the words for everything else below its paths.

``POST /v1beta/models/{model}:generateContent`` and ``…:streamGenerateContent?alt=sse``, also under ``/v1`` and
``/v1alpha``: the SDKs differ. Source: Google's Gemini API reference and recorded requests of its clients.
"""

from __future__ import annotations

import re
from collections.abc import Container
from urllib.parse import parse_qs

from msgspec import Struct

from ir.errors import ApiError, Kind

ACTIONS = {"generateContent": False, "streamGenerateContent": True}
"""Each served action, and whether it streams."""
CLIENT_HEADERS = (b"x-goog-api-key", b"x-goog-api-client")
"""What only a Gemini client sends."""
SHARED_RESOURCES = frozenset({"models", "files", "batches", "cachedContents", "tunedModels", "corpora", "operations"})
"""What may follow ``/v1/`` in Google's API; some of it in OpenAI's and Anthropic's, too."""

_ACTION = re.compile(r"/(v1|v1beta|v1alpha)/models/(?P<model>.*):(?P<action>[^:/]*)", re.DOTALL)
_RESOURCE = re.compile(r"(?:/upload)?/(?:v1|v1beta|v1alpha)/([A-Za-z]{1,32})(?:/|$)")
_METHOD_NAME = re.compile(r"[A-Za-z]{1,48}")
_MODEL_NAME = re.compile(r"[A-Za-z0-9._:@/-]{1,128}")
_PREFIXES = ("/v1beta/", "/v1alpha/", "/upload/")


class Call(Struct, frozen=True):
    """What a URL asks for. ``model`` is "" when the URL names none; ``sse`` tells whether it says ``alt=sse``."""

    model: str
    action: str
    stream: bool
    sse: bool = False
    version: str = "v1beta"

    @property
    def endpoint(self) -> str:
        """The path as a record may show it: without the caller's own words."""
        return f"/{self.version}/models/{{model}}:{self.action}"


def is_gemini(method: str, path: str, headers: Container[bytes]) -> bool:
    """Whether a request is for this API. A path that other vendors have too is told by the client's headers."""
    if f"{path}/".startswith(_PREFIXES):
        return True
    action = _ACTION.fullmatch(path)
    if action is not None and (method == "POST" or action["action"] in ACTIONS):
        return True
    resource = _RESOURCE.match(path)
    if resource is None or resource[1] not in SHARED_RESOURCES or b"anthropic-version" in headers:
        return False
    return any(name in headers for name in CLIENT_HEADERS)


def parse(method: str, path: str, query: bytes) -> Call:
    """``path`` is decoded, ``query`` is not. Raises a 404 for what is not served, a 405 for a wrong HTTP method."""
    found = _ACTION.fullmatch(path)
    if found is None:
        raise _no_resource(path)
    model, action = found["model"].removeprefix("models/"), found["action"]
    if action not in ACTIONS:
        raise _no_action(model, action)
    if method != "POST":
        raise ApiError(Kind.METHOD_NOT_ALLOWED, "method_not_allowed", f"{action} takes POST requests only.")
    sse = read_parameter(query, "alt") == "sse"
    return Call(model, action, ACTIONS[action], sse, found[1])


def read_parameter(query: bytes, name: str) -> str:
    """The last value of a query parameter, "" when it is missing."""
    return parse_qs(query.decode("latin-1")).get(name, [""])[-1]


def _no_action(model: str, action: str) -> ApiError:
    method = action if _METHOD_NAME.fullmatch(action) else "?"
    shown = model if _MODEL_NAME.fullmatch(model) else "?"
    message = f"Method {method} is not supported for models/{shown}."
    return ApiError(Kind.NOT_FOUND, "unsupported_method", message, details={"method": method})


def _no_resource(path: str) -> ApiError:
    found = _RESOURCE.match(path)
    if found is None:
        return ApiError(Kind.NOT_FOUND, "not_found", "There is nothing at this path.")
    resource = found[1]
    message = f"{resource} is not supported here, only text generation is."
    if resource == "models":
        message = "The catalogue of models is not supported here; name a model with ':generateContent'."
    return ApiError(Kind.NOT_FOUND, "unsupported_resource", message, details={"resource": resource})
