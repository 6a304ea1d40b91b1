"""Rows of this app → frozen values for the snapshot. The hot path reads these, never rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from core.invalid import InvalidValue

if TYPE_CHECKING:
    from tenants.models import ApiKey


class KeyView(Struct, frozen=True):
    """What the data plane knows of an API key. ``digest`` is the HMAC of the whole key; ``expires_at`` Unix seconds.

    ``models`` empty means every model; ``groups`` are the account groups that the key's team may use.
    """

    row_id: int
    public_id: str
    digest: bytes
    name: str
    team_id: int
    team: str
    groups: frozenset[int]
    models: tuple[str, ...] = ()
    expires_at: float | None = None
    expose_thinking: bool = False
    drop_hosted_tools: bool = True
    max_concurrency: int = 0
    store_responses: bool = True

    def __repr__(self) -> str:
        return f"KeyView(row_id={self.row_id}, public_id={self.public_id!r})"


def compile_keys(rows: Iterable[ApiKey], groups_of: Mapping[int, frozenset[int]]) -> dict[str, KeyView]:
    """Public id → view of every key that is not revoked. ``groups_of``: team id → ids of the groups it may use.

    Expired keys stay in: the caller of one deserves to hear that it expired. Raises ``InvalidValue``.
    """
    return {row.public_id: compile_key(row, groups_of) for row in rows if row.revoked_at is None}


def compile_key(row: ApiKey, groups_of: Mapping[int, frozenset[int]]) -> KeyView:
    """One view. Raises ``InvalidValue``."""
    if not row.name.strip():
        raise InvalidValue("name", "a key needs a name.")
    if not isinstance(row.allowed_models, list) or not all(isinstance(name, str) for name in row.allowed_models):
        raise InvalidValue("allowed_models", "a list of model names is needed.")
    return KeyView(
        row_id=row.pk,
        public_id=row.public_id,
        digest=bytes(row.digest),
        name=row.name,
        team_id=row.team_id,
        team=row.team.slug,
        groups=groups_of.get(row.team_id, frozenset()),
        models=tuple(row.allowed_models),
        expires_at=row.expires_at.timestamp() if row.expires_at else None,
        expose_thinking=row.expose_thinking,
        drop_hosted_tools=row.drop_hosted_tools,
        max_concurrency=row.max_concurrency,
        store_responses=row.team.store_responses,
    )
