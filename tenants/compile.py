"""Rows of this app → frozen values for the snapshot. The hot path reads these, never rows. Pure."""

from __future__ import annotations

from msgspec import Struct


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
