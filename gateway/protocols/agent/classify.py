"""What an Agent RPC error means: the wire's words in, one ``Fault`` out.

Three places can carry a meaning and they are asked in this order: the number in the error details (``BY_ENUM``), the
Connect code (``BY_CODE``), the title. A title decides only where number or code have more than one meaning, since
texts change without notice. What nobody knows is TRANSIENT: it must never cost an account its health. Upstream text
is looked at here and goes no further.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import orjson
from google.protobuf.message import DecodeError
from msgspec import Struct

from ir.errors import CULPRITS, Culprit, Fault, Reason, Stage
from protobufs.agent_v1_pb2 import ErrorCode, ErrorDetails

BY_ENUM: Mapping[int, Reason] = {
    1: Reason.AUTH_REVOKED,
    2: Reason.AUTH_EXPIRED,
    3: Reason.AUTH_EXPIRED,
    4: Reason.MODEL_GATED,
    5: Reason.MODEL_UNKNOWN,
    6: Reason.AUTH_REVOKED,
    7: Reason.RATE_LIMIT,
    8: Reason.RATE_LIMIT,
    9: Reason.QUOTA,
    10: Reason.QUOTA,
    11: Reason.AUTH_EXPIRED,
    12: Reason.AUTH_EXPIRED,
    13: Reason.TRANSIENT,
    14: Reason.RATE_LIMIT,
    15: Reason.QUOTA,
    16: Reason.PROTOCOL,
    17: Reason.FORBIDDEN,
    18: Reason.AUTH_EXPIRED,
    19: Reason.PROTOCOL,
    20: Reason.CONTEXT_TOO_LONG,
    21: Reason.TRANSIENT,
    22: Reason.RATE_LIMIT,
    23: Reason.MODEL_GATED,
    24: Reason.FORBIDDEN,
    25: Reason.TIMEOUT,
    26: Reason.TOO_LARGE,
    27: Reason.IMAGE_UNSUPPORTED,
    28: Reason.RATE_LIMIT,
    30: Reason.CLIENT_OUTDATED,
    31: Reason.TOO_LARGE,
    32: Reason.BAD_REQUEST,
    33: Reason.BAD_REQUEST,
    34: Reason.RATE_LIMIT,
    35: Reason.RATE_LIMIT,
    36: Reason.BAD_REQUEST,
    37: Reason.BAD_REQUEST,
    38: Reason.AUTH_EXPIRED,
    39: Reason.MODEL_UNKNOWN,
    40: Reason.CLIENT_OUTDATED,
    41: Reason.QUOTA,
    42: Reason.AUTH_REVOKED,
    43: Reason.CONTEXT_TOO_LONG,
    44: Reason.QUOTA,
    45: Reason.QUOTA,
    50: Reason.RATE_LIMIT,
    51: Reason.MODEL_LIMIT,
    53: Reason.POLICY,
    54: Reason.BLOCKED,
    55: Reason.TIMEOUT,
    56: Reason.TRANSIENT,
    57: Reason.TRANSIENT,
    58: Reason.MODEL_UNKNOWN,
    59: Reason.TRANSIENT,
    60: Reason.MODEL_GATED,
    61: Reason.MODEL_UNKNOWN,
    63: Reason.TRANSIENT,
    64: Reason.MODEL_GATED,
    65: Reason.ACCOUNT_CLOSED,
}

# "Unspecified", two kinds of custom message, and a pricing notice that is no error: title or code decide.
MEANINGLESS = frozenset({0, 29, 52, 62})

MANY_MEANINGS = frozenset({20, 28, 36, 38, 50})  # numbers whose title is asked first

GRAVE = frozenset({Reason.BLOCKED, Reason.PAYMENT, Reason.DEVICE_LIMIT})
"""What a title may make of any number that blames the account anyway: overlooking it would send more of what did it."""

# A caller that leaves is noticed at the caller's own connection. An upstream that says so means something of its own.
BY_CODE: Mapping[str, Reason] = {
    "canceled": Reason.TRANSIENT,
    "unknown": Reason.TRANSIENT,
    "invalid_argument": Reason.BAD_REQUEST,
    "deadline_exceeded": Reason.TIMEOUT,
    "not_found": Reason.MODEL_UNKNOWN,
    "already_exists": Reason.PROTOCOL,
    "permission_denied": Reason.MODEL_GATED,
    "resource_exhausted": Reason.EXHAUSTED,
    "failed_precondition": Reason.BAD_REQUEST,
    "aborted": Reason.TRANSIENT,
    "out_of_range": Reason.BAD_REQUEST,
    "unimplemented": Reason.PROTOCOL,
    "internal": Reason.TRANSIENT,
    "unavailable": Reason.CAPACITY,
    "data_loss": Reason.TRANSIENT,
    "unauthenticated": Reason.AUTH_EXPIRED,
}

TITLED_CODES = frozenset(
    {"resource_exhausted", "invalid_argument", "failed_precondition", "unauthenticated", "permission_denied"}
)

# First match wins: words about money and plans stand before words about size, as they always win over them.
BY_TITLE: tuple[tuple[str, Reason], ...] = (
    ("unpaid invoice", Reason.PAYMENT),
    ("too many computers", Reason.DEVICE_LIMIT),
    ("suspicious", Reason.BLOCKED),
    ("slow pool excessively", Reason.BLOCKED),
    ("free plans can only use", Reason.MODEL_LIMIT),
    ("usage limit", Reason.QUOTA),
    ("quota", Reason.QUOTA),
    ("rate limit", Reason.RATE_LIMIT),
    ("update required", Reason.CLIENT_OUTDATED),
    ("client version", Reason.CLIENT_OUTDATED),
    ("tool schema", Reason.TOOLS_TOO_LARGE),
    ("tool definition", Reason.TOOLS_TOO_LARGE),
    ("tools are too large", Reason.TOOLS_TOO_LARGE),
    ("context length", Reason.CONTEXT_TOO_LONG),
    ("context window", Reason.CONTEXT_TOO_LONG),
    ("too long", Reason.CONTEXT_TOO_LONG),
    ("too many tokens", Reason.CONTEXT_TOO_LONG),
    ("image", Reason.IMAGE_UNSUPPORTED),
    ("parameter", Reason.UNSUPPORTED_PARAM),
)

BY_STATUS: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH_EXPIRED,
    402: Reason.PAYMENT,
    403: Reason.FORBIDDEN,
    404: Reason.PROTOCOL,
    407: Reason.EGRESS,
    408: Reason.TIMEOUT,
    413: Reason.TOO_LARGE,
    415: Reason.PROTOCOL,
    429: Reason.RATE_LIMIT,
    464: Reason.PROTOCOL,
    503: Reason.CAPACITY,
    504: Reason.TIMEOUT,
}


_NAMES: Mapping[int, str] = {number: name for name, number in ErrorCode.items() if number}


class Size(Struct, frozen=True):
    """How much was asked of how much, in tokens: the only sign that tells a bare overflow from a rate limit."""

    request: int = 0
    window: int = 0

    @property
    def is_large(self) -> bool:
        return self.window > 0 and self.request * 2 >= self.window


NO_SIZE = Size()


class _Meaning(Struct, frozen=True):
    number: int = 0
    title: str = ""


def classify_error(
    error: Mapping[str, Any], stage: Stage, *, size: Size = NO_SIZE, retry_after: float | None = None
) -> Fault:
    """A Connect error object (``code``, ``message``, ``details``), of an end-of-stream envelope or a unary answer."""
    code = error.get("code")
    code = code if isinstance(code, str) else ""
    meaning = _meaning(error)
    reason, name = _decide(code, meaning, size)
    hint = {"request_tokens": size.request, "context_tokens": size.window} if size.window else None
    return Fault(reason, stage, retry_after=retry_after, upstream_code=name, hint=hint)


def classify_http(
    status: int, headers: Mapping[str, str], body: bytes, stage: Stage = Stage.HEADERS, *, size: Size = NO_SIZE
) -> Fault:
    """An answer that is no stream. ``headers`` has lower-case names; ``body`` may be cut off.

    A page of HTML comes from whatever stands in front of the upstream, so it blames the way out, never an account.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    retry_after = parse_retry_after(headers.get("retry-after", ""))
    name = f"http_{status}"
    if media_type == "text/html" or body.lstrip()[:1] == b"<":
        return Fault(Reason.EGRESS, stage, retry_after=retry_after, upstream_code=f"{name}_html")
    if status in (415, 464):
        return Fault(Reason.PROTOCOL, stage, upstream_code=name)
    error = _json_error(body)
    if error is not None:
        return classify_error(error, stage, size=size, retry_after=retry_after)
    fallback = Reason.TRANSIENT if status >= 500 else Reason.PROTOCOL
    return Fault(BY_STATUS.get(status, fallback), stage, retry_after=retry_after, upstream_code=name)


def parse_retry_after(value: str) -> float | None:
    """Seconds, when the header holds a number; dates are not used because no clock is at hand here."""
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 32 * 86_400 else None


def _decide(code: str, meaning: _Meaning, size: Size) -> tuple[Reason, str]:
    number = meaning.number
    titled = _by_title(meaning.title)
    name = _NAMES.get(number) or (code if code in BY_CODE else "unknown_code")
    if number in BY_ENUM:
        return _refine(number, BY_ENUM[number], titled), name
    if titled is not None and (number or code not in BY_CODE or code in TITLED_CODES):
        return titled, name
    if code == "resource_exhausted" and not meaning.title and size.is_large:
        return Reason.CONTEXT_TOO_LONG, name
    return BY_CODE.get(code, Reason.TRANSIENT), name


def _refine(number: int, reason: Reason, titled: Reason | None) -> Reason:
    if titled is None:
        return reason
    blames_account = CULPRITS[reason] in (Culprit.ACCOUNT, Culprit.ACCOUNT_MODEL)
    return titled if number in MANY_MEANINGS or (titled in GRAVE and blames_account) else reason


def _by_title(title: str) -> Reason | None:
    if title:
        for words, reason in BY_TITLE:
            if words in title:
                return reason
    return None


def _meaning(error: Mapping[str, Any]) -> _Meaning:
    """Number and lower-case title of the details; the readable debug form first, then the encoded one."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        found = _debug_meaning(detail.get("debug")) or _encoded_meaning(detail.get("value"))
        if found is not None:
            return found
    message = error.get("message")
    return _Meaning(0, message.lower() if isinstance(message, str) and message != "Error" else "")


def _debug_meaning(debug: object) -> _Meaning | None:
    if not isinstance(debug, dict) or not isinstance(debug.get("error"), str):
        return None
    number = ErrorCode.DESCRIPTOR.values_by_name.get(debug["error"])
    texts = debug.get("details")
    texts = texts if isinstance(texts, dict) else {}
    title = f"{texts.get('title', '')} {texts.get('detail', '')}".strip().lower()
    return _Meaning(0 if number is None else number.number, title)


def _encoded_meaning(value: object) -> _Meaning | None:
    if not isinstance(value, str):
        return None
    try:
        details = ErrorDetails.FromString(base64.b64decode(value + "=" * (-len(value) % 4)))
    except (binascii.Error, DecodeError, ValueError):
        return None
    return _Meaning(details.error, f"{details.details.title} {details.details.detail}".strip().lower())


def _json_error(body: bytes) -> Mapping[str, Any] | None:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    error = value.get("error", value)
    return error if isinstance(error, dict) and isinstance(error.get("code"), str) else None
