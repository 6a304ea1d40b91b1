"""Rows of this app → frozen values for the snapshot. The hot path reads these, never rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct, field


def usual_thinking() -> dict[str, str]:
    """The parameters that turn thinking on, unless the catalogue names others."""
    return {"thinking": "true"}


class AccountKind(StrEnum):
    CURSOR = "cursor"
    PROVIDER = "provider"


class Transport(StrEnum):
    AGENT_RPC = "agent_rpc"


class AccountState(StrEnum):
    """``READY`` may serve; the others say why an account rests. Cooldowns are not a state: they pass by themselves."""

    READY = "ready"
    NEEDS_SIGN_IN = "needs_sign_in"
    BLOCKED = "blocked"
    DISABLED = "disabled"


class AccountView(Struct, frozen=True):
    """An account as selection sees it: never a credential, only the id of one."""

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

    def serves(self, upstream_id: str) -> bool:
        """Whether the account may be asked for this model; no list means every model."""
        return not self.models or any(fnmatchcase(upstream_id, pattern) for pattern in self.models)


class ModelView(Struct, frozen=True):
    """A model that callers can name. ``name`` may hold ``*`` (then ``upstream_id`` "" means: the name as asked).

    ``thinking_parameters`` is what turns thinking on upstream; sizes are in tokens.
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

    @property
    def is_pattern(self) -> bool:
        return "*" in self.name
