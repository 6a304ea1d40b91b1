"""Rows of this app → frozen values for the snapshot. The hot path reads these, never rows. Pure.

Forms and verbs check a row by compiling it, so what can be saved is what can be served.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Struct, field

from accounts.channels import ChannelView, compile_channel
from accounts.kinds import BINDINGS, WAYS, AccountKind, Binding, Transport, read_binding
from core.encryption import SealError, open_sealed
from core.hosts import OFFICIAL_HOSTS, is_cursor_host
from core.invalid import InvalidValue

if TYPE_CHECKING:
    from accounts.models import Account, CatalogueModel, Proxy

__all__ = [
    "IMAGES",
    "AccountKind",
    "AccountState",
    "AccountView",
    "ModelView",
    "Transport",
    "check_proxy_address",
    "compile_account",
    "compile_accounts",
    "compile_model",
    "is_model_name",
    "usual_thinking",
    "whole_proxy_url",
]

_MODEL_NAME = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:/*@-]{0,127}")
_HEADER_WORD = re.compile(r"[A-Za-z0-9._+-]{0,32}")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TWIN_SUFFIX = "-thinking"
IMAGES = {Transport.CLOUD_AGENTS: 5, Transport.TEXT_CHAT: 0}
UNLIMITED = 1_000_000
CLOUD_URL = "https://api.cursor.com"
_E = TypeVar("_E", bound=StrEnum)


def usual_thinking() -> dict[str, str]:
    """The parameters that turn thinking on, unless the catalogue names others."""
    return {"thinking": "true"}


class AccountState(StrEnum):
    """``READY`` may serve; the others say why an account rests. Cooldowns are not a state: they pass by themselves."""

    READY = "ready"
    NEEDS_SIGN_IN = "needs_sign_in"
    BLOCKED = "blocked"
    DISABLED = "disabled"


def way_out_of(proxy_id: int | None) -> str:
    """The name of a way out: the id of its proxy, or ``direct``."""
    return str(proxy_id) if proxy_id else "direct"


class AccountView(Struct, frozen=True):
    """An account as selection sees it: never its credential, only the id of it (0: it has none). ``proxy_url`` is
    whole, with what the proxy is told at the sign-in, and therefore no part of any repr.

    ``channel`` is set for provider accounts alone. ``login``: it signs in with a browser login, not with an API key.
    ``draining``: it gets no new conversations.
    """

    id: int
    name: str
    kind: AccountKind
    transport: Transport
    base_url: str
    groups: frozenset[int]
    credential_id: int
    priority: int = 100
    slots: int = 3
    state: AccountState = AccountState.READY
    models: tuple[str, ...] = ()
    client_type: str = ""
    client_version: str = ""
    proxy_url: str = ""
    proxy_id: int = 0
    channel: ChannelView | None = None
    login: bool = False
    draining: bool = False

    def __repr__(self) -> str:
        return f"AccountView(id={self.id}, name={self.name!r})"

    @property
    def egress(self) -> str:
        """The name of its way out."""
        return way_out_of(self.proxy_id)

    @property
    def ways(self) -> tuple[Transport, ...]:
        """The transports of the account, in the order in which a request may take them."""
        return (Transport.AGENT_RPC, Transport.CLOUD_AGENTS) if self.transport is Transport.AUTO else (self.transport,)

    @property
    def most_images(self) -> int:
        """How many images one request may hold, as far as the transport is concerned."""
        return IMAGES.get(self.transport, UNLIMITED)

    def address(self, way: Transport) -> str:
        """Where ``way`` leads. An account that is Cursor's own has another host for each of the two."""
        if way is Transport.CLOUD_AGENTS and urlsplit(self.base_url).hostname in OFFICIAL_HOSTS:
            return CLOUD_URL
        return self.base_url

    def serves(self, upstream_id: str) -> bool:
        """Whether the account may be asked for this model; no list means every model of a Cursor account."""
        if self.channel is not None and upstream_id not in self.channel.models:
            return False
        return not self.models or any(fnmatchcase(upstream_id, pattern) for pattern in self.models)

    def model_id(self, upstream_id: str) -> str:
        """What this account's own upstream calls the model."""
        return self.channel.models.get(upstream_id, upstream_id) if self.channel is not None else upstream_id


class ModelView(Struct, frozen=True):
    """A model that callers can name. ``name`` may hold ``*`` (then ``upstream_id`` "" means: the name as asked).

    ``thinking_parameters`` is what turns thinking on upstream; sizes are in tokens. ``upstream``: only accounts of
    this kind or transport; None: any that serves the id. ``max_mode`` is sent along where it is not None.
    """

    name: str
    upstream_id: str
    owner: str = "poolgate"
    display_name: str = ""
    context_tokens: int = 200_000
    max_output_tokens: int = 64_000
    parameters: Mapping[str, str] = {}
    thinking_parameters: Mapping[str, str] = field(default_factory=usual_thinking)
    created: int = 1_700_000_000
    upstream: Binding | None = None
    max_mode: bool | None = None

    @property
    def is_pattern(self) -> bool:
        return "*" in self.name


def compile_accounts(rows: Iterable[Account]) -> tuple[AccountView, ...]:
    """Views of all accounts, resting ones included (who is refused hears why). Raises ``InvalidValue``."""
    return tuple(compile_account(row) for row in rows)


def compile_account(row: Account) -> AccountView:
    """One view. The row must be saved (its groups are read). Raises ``InvalidValue``."""
    if not row.name.strip():
        raise InvalidValue("name", "an account needs a name.")
    if not 1 <= row.slots <= 1000:
        raise InvalidValue("slots", "must be from 1 to 1000.")
    if not 0 <= row.priority <= 1000:
        raise InvalidValue("priority", "must be from 0 to 1000.")
    credential = getattr(row, "credential", None)
    kind = _member("kind", AccountKind, row.kind)
    state, proxy_url = _state(row, has_credential=credential is not None), ""
    if row.proxy is not None:
        proxy_url = whole_proxy_url(row.proxy) if row.proxy.enabled else ""
        state = state if proxy_url else AccountState.DISABLED  # it never goes another way
    return AccountView(
        id=row.pk,
        name=row.name,
        kind=kind,
        transport=_transport(kind, row.transport),
        base_url=_text_url(row.base_url) if kind is AccountKind.TEXT_CHAT else _base_url(row.base_url),
        groups=frozenset(group.pk for group in row.groups.all()),
        credential_id=credential.pk if credential else 0,
        priority=row.priority,
        slots=row.slots,
        state=state,
        models=_patterns(row.allowed_models),
        client_type=_header_word("client_type", row.client_type),
        client_version=_header_word("client_version", row.client_version),
        proxy_url=proxy_url,
        proxy_id=row.proxy_id or 0,
        channel=_channel(row) if kind is AccountKind.PROVIDER else None,
        login=_login(row, credential.kind if credential else ""),
        draining=row.draining,
    )


def is_model_name(text: str) -> bool:
    """Whether the catalogue may hold such a name, patterns included."""
    return _MODEL_NAME.fullmatch(text) is not None


def compile_model(row: CatalogueModel) -> ModelView:
    """One view; an unsaved row will do. Raises ``InvalidValue``."""
    if not _MODEL_NAME.fullmatch(row.name):
        raise InvalidValue("name", "use 1 to 128 letters, digits and . _ : / @ - (and * in a pattern).")
    if row.name.endswith(_TWIN_SUFFIX):
        raise InvalidValue("name", f"{_TWIN_SUFFIX} twins are made by themselves; name the base model.")
    if row.upstream_id and (not _MODEL_NAME.fullmatch(row.upstream_id) or "*" in row.upstream_id):
        raise InvalidValue("upstream_id", "use at most 128 letters, digits and . _ : / @ -")
    if row.context_tokens < 1024:
        raise InvalidValue("context_tokens", "must be at least 1024.")
    if not 1 <= row.max_output_tokens <= row.context_tokens:
        raise InvalidValue("max_output_tokens", "must be at least 1 and at most the context.")
    return ModelView(
        name=row.name,
        upstream_id=row.upstream_id or ("" if "*" in row.name else row.name),
        owner=row.owner,
        display_name=row.display_name or row.name,
        context_tokens=row.context_tokens,
        max_output_tokens=row.max_output_tokens,
        parameters=_parameters("parameters", row.parameters),
        thinking_parameters=_parameters("thinking_parameters", row.thinking_parameters),
        created=int(row.created_at.timestamp()),
        upstream=_upstream(row.upstream),
        max_mode=row.max_mode,
    )


def _upstream(value: str) -> Binding | None:
    try:
        return read_binding(value) if value else None
    except ValueError:
        raise InvalidValue("upstream", f"must be one of {', '.join(BINDINGS)}.") from None


def _channel(row: Account) -> ChannelView:
    channel = getattr(row, "channel", None)
    if channel is None:
        raise InvalidValue("kind", "a provider account needs a channel.")
    return compile_channel(channel, row.transport, row.base_url)


def _state(row: Account, *, has_credential: bool) -> AccountState:
    state = _member("state", AccountState, row.state)
    if not row.enabled:
        return AccountState.DISABLED
    if state is AccountState.READY and not has_credential:
        return AccountState.NEEDS_SIGN_IN
    return state


def _login(row: Account, credential: str) -> bool:
    if credential != "login_token":
        return False
    if row.transport != Transport.AGENT_RPC:
        raise InvalidValue("transport", "a browser login serves the Agent RPC alone; other ways take an API key.")
    return True


def _member(name: str, enum: type[_E], value: str) -> _E:
    try:
        return enum(value)
    except ValueError:
        raise InvalidValue(name, f"must be one of {', '.join(enum)}.") from None


def _transport(kind: AccountKind, value: str) -> Transport:
    way = _member("transport", Transport, value)
    if way not in WAYS[kind]:
        raise InvalidValue("transport", f"an account of this kind takes {' or '.join(WAYS[kind])}.")
    return way


def _text_url(url: str) -> str:
    """A text model server of the operator's own: never one of Cursor's hosts."""
    if is_cursor_host(_split("base_url", url).hostname or ""):
        raise InvalidValue("base_url", "text chat is for servers of your own, not for Cursor's hosts.")
    return _base_url(url)


def _base_url(url: str) -> str:
    parts = _split("base_url", url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidValue("base_url", "must be an http or https address.")
    if parts.query or parts.fragment:
        raise InvalidValue("base_url", "must have no query and no fragment.")
    return url.rstrip("/")


def check_proxy_address(url: str) -> None:
    """Raises ``InvalidValue``."""
    parts = _split("url", url)
    if parts.scheme not in ("http", "https", "socks5") or not parts.hostname:
        raise InvalidValue("url", "must be an http, https or socks5 address.")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidValue("url", "must be a scheme, a host and a port, and nothing more.")


def whole_proxy_url(row: Proxy) -> str:
    """Its address with what it signs in with; "" when that cannot be opened."""
    if not row.user:
        return row.url
    try:
        password = open_sealed(bytes(row.sealed or b"")).decode()
    except (SealError, UnicodeDecodeError):
        return ""
    scheme, _, rest = row.url.partition("://")
    return f"{scheme}://{quote(row.user, safe='')}:{quote(password, safe='')}@{rest}"


def _split(name: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is no number
    except ValueError:
        raise InvalidValue(name, "is not an address.") from None
    if parts.username is not None or parts.password is not None:
        raise InvalidValue(name, "must hold no user name or password: this column is not encrypted.")
    return parts


def _patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidValue("allowed_models", "must be a list.")
    for pattern in value:
        if not isinstance(pattern, str) or not _MODEL_NAME.fullmatch(pattern):
            raise InvalidValue("allowed_models", "holds something that is no model name.")
    return tuple(value)


def _header_word(name: str, value: str) -> str:
    if not _HEADER_WORD.fullmatch(value):
        raise InvalidValue(name, "use at most 32 letters, digits and . _ + -")
    return value


def _parameters(name: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise InvalidValue(name, "must map names to texts.")
    if not all(_PARAMETER.fullmatch(key) and len(item) <= 128 for key, item in value.items()):
        raise InvalidValue(name, "holds an impossible name or too long a text.")
    return dict(value)
