"""A provider channel: how an account at an OpenAI- or Anthropic-compatible vendor is reached, and what it offers. Pure.

The base URL is what an operator copies from a vendor's page, so it may end in a version (``…/v4``), which then stands
in for the wire's own, or be a whole endpoint, which then decides the wire. ``custom`` adds no version at all, for
servers that have none.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import orjson
from msgspec import Struct

from accounts.kinds import PROVIDERS, Transport
from core.invalid import InvalidValue

if TYPE_CHECKING:
    from accounts.models import Channel

EFFORTS = ("low", "medium", "high", "xhigh", "max")
DIALECTS = ("openai", "reasoner", "qwen", "typed", "openrouter", "adaptive", "adaptive_46", "budget", "silent")
"""Names of the rows in ``gateway.upstreams.dialects``; none means: told by host and model."""

CUSTOM = "custom"
DEFAULT_IDLE = 240
SHORTEST_IDLE = 30
OWN_PARAMS = frozenset({"model", "messages", "input", "stream", "tools"})
"""What a request itself says; extra parameters must leave it alone."""

_PATHS = {
    Transport.OPENAI_CHAT: "/chat/completions",
    Transport.OPENAI_RESPONSES: "/responses",
    Transport.ANTHROPIC_MESSAGES: "/messages",
}
_VERSION = re.compile(r"/v\d+$")
_NUMBER = re.compile(r"(\d+|0x[0-9a-f]*)$")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_SECRET = re.compile(r"auth|key|token|secret|cookie|credential")
_FRAMING = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"})


class ChannelView(Struct, frozen=True):
    """``url`` is the whole endpoint; ``models`` maps public names to the provider's ids; ``idle_timeout`` in seconds.

    ``channel_id`` tells channels apart for people and against doubles; nothing is looked up by it.
    """

    channel_id: str
    url: str
    models: Mapping[str, str]
    effort: str = ""
    dialect: str = ""
    extra_params: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    context_tokens: int = 200_000
    max_output_tokens: int = 65_536
    thinking_budget: int = 4096
    idle_timeout: float = DEFAULT_IDLE


def compile_channel(row: Channel, transport: str, base_url: str) -> ChannelView:
    """One view; an unsaved row will do. Raises ``InvalidValue``."""
    if row.effort not in ("", *EFFORTS):
        raise InvalidValue("effort", f"must be empty or one of {', '.join(EFFORTS)}.")
    if row.dialect not in ("", *DIALECTS):
        raise InvalidValue("dialect", f"must be empty or one of {', '.join(DIALECTS)}.")
    if row.endpoint not in ("", CUSTOM):
        raise InvalidValue("endpoint", f"must be empty or {CUSTOM}.")
    if row.context_tokens < 1024:
        raise InvalidValue("context_tokens", "must be at least 1024.")
    if not 1 <= row.max_output_tokens <= row.context_tokens:
        raise InvalidValue("max_output_tokens", "must be at least 1 and at most the context.")
    if not 1024 <= row.thinking_budget < row.max_output_tokens:
        raise InvalidValue("thinking_budget", "must be at least 1024 and below the output limit.")
    return ChannelView(
        channel_id=row.channel_id,
        url=endpoint(transport, base_url, custom=row.endpoint == CUSTOM)[1],
        models=check_models(row.names),
        effort=row.effort,
        dialect=row.dialect,
        extra_params=_extra_params(row.extra_params),
        headers=_headers(row.headers),
        context_tokens=row.context_tokens,
        max_output_tokens=row.max_output_tokens,
        thinking_budget=row.thinking_budget,
        idle_timeout=idle_seconds(row.idle_timeout),
    )


def endpoint(transport: str, base_url: str, *, custom: bool = False) -> tuple[Transport, str]:
    """The wire and the address to call. Raises ``InvalidValue``."""
    base = normalise(base_url)
    wire = _wire(transport)
    for other, path in _PATHS.items():
        if base.endswith(path):
            if (other is Transport.ANTHROPIC_MESSAGES) != (wire is Transport.ANTHROPIC_MESSAGES):
                raise InvalidValue("base_url", f"ends in {path}, which is not what this kind of provider speaks.")
            return other, base
    version = "" if custom or _VERSION.search(base) else "/v1"
    return wire, f"{base}{version}{_PATHS[wire]}"


def normalise(base_url: str) -> str:
    """Scheme and host in lower case, no slash at the end. Raises ``InvalidValue`` for what is no base URL."""
    text = base_url.strip()
    parts = _split(text)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise InvalidValue("base_url", "must be an http or https address.")
    if parts.username is not None or parts.password is not None:
        raise InvalidValue("base_url", "must hold no user name or password: this column is not encrypted.")
    if "?" in text or "#" in text:
        raise InvalidValue("base_url", "must have no query and no fragment.")
    if not text.isascii() or not text.isprintable() or re.search(r"[\s\\]", text):
        raise InvalidValue("base_url", "must be printable characters without spaces.")
    _check_host(parts.hostname)
    path = parts.path.rstrip("/")
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{path}"


def channel_id(base_url: str, models: Sequence[str], api_key: str, name: str, path: str = "") -> str:
    """16 hex digits over what makes a channel the same channel; ``path`` only counts when it is set."""
    parts = [base_url.strip(), ",".join(models), api_key.strip(), name.strip(), *([path] if path else [])]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def idle_seconds(given: int) -> int:
    """The idle timeout in force: none means the default, and nothing is shorter than the shortest."""
    return max(SHORTEST_IDLE, given) if given > 0 else DEFAULT_IDLE


def check_models(value: object) -> Mapping[str, str]:
    """Public name → provider's id, at least one. Raises ``InvalidValue``."""
    if not isinstance(value, dict) or not value:
        raise InvalidValue("names", "must name at least one model.")
    for name, upstream in value.items():
        if not all(isinstance(item, str) and _MODEL.fullmatch(item) for item in (name, upstream)):
            raise InvalidValue("names", "use 1 to 128 letters, digits and . _ : / @ - in names.")
    return dict(value)


def _wire(transport: str) -> Transport:
    if transport not in PROVIDERS:
        raise InvalidValue("transport", f"must be one of {', '.join(PROVIDERS)}.")
    return Transport(transport)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for one that is no number
    except ValueError:
        raise InvalidValue("base_url", "is not an address.") from None
    return parts


def _check_host(host: str) -> None:
    """Numbers that a resolver would read as an address (``2130706433``, ``0x7f.1``) are none here."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            raise InvalidValue("base_url", "holds a host that is neither a name nor an address.") from None


def _extra_params(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue("extra_params", "must be a JSON object.")
    if taken := sorted(OWN_PARAMS & set(value)):
        raise InvalidValue("extra_params", f"must not hold {', '.join(taken)}.")
    try:
        orjson.dumps(value)
    except (TypeError, ValueError):
        raise InvalidValue("extra_params", "cannot be written as JSON.") from None
    return dict(value)


def _headers(value: object) -> Mapping[str, str]:
    """Lower-case names. Credentials belong into the key, which is encrypted; these columns are not."""
    if not isinstance(value, dict):
        raise InvalidValue("headers", "must be a JSON object.")
    headers: dict[str, str] = {}
    for given, text in value.items():
        name = str(given).lower()
        if not isinstance(given, str) or not _HEADER.fullmatch(given) or name in _FRAMING:
            raise InvalidValue("headers", "holds a name that cannot be sent.")
        if _SECRET.search(name):
            raise InvalidValue("headers", f"{name} looks like a credential: this column is not encrypted.")
        if not isinstance(text, str) or not text.isascii() or not text.isprintable() or len(text) > 1024:
            raise InvalidValue("headers", "must map names to printable texts.")
        headers[name] = text
    return headers
