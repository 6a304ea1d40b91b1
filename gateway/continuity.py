"""What a request builds on, and what it leaves for later ones: stored conversations, seen from the path.

A role whose requests may refer to stored items says what to load (``references``) and puts it in (``expand``); this
file loads it for the caller's tenant, and keeps a finished answer before its last event goes out. Only requests
that use stored state pay for it: one or two queries in a thread, nothing for all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from django.db import Error as DatabaseError

from core import encryption
from core.encryption import SealError
from gateway.contracts import JsonObject
from gateway.conversations import store
from gateway.conversations.facts import Ending
from gateway.conversations.store import NewTurn
from ir.errors import ApiError, Culprit, Kind
from ir.request import Request
from tenants.compile import KeyView

log = logging.getLogger(__name__)

COMPACTION = "compaction"

Keep = Callable[[JsonObject], Awaitable[None]]


class Refers(Protocol):
    @property
    def previous_response_id(self) -> str | None: ...
    @property
    def item_ids(self) -> tuple[str, ...]: ...

    def __bool__(self) -> bool: ...


class Referring(Protocol):
    """A role whose bodies may name what is stored. ``expand`` raises a 400 for an item that was not found."""

    def references(self, body: object) -> Refers: ...

    def expand(
        self,
        body: JsonObject,
        items_before: Sequence[JsonObject],
        items_by_id: Mapping[str, JsonObject],
        unseal: Callable[[bytes], bytes],
    ) -> JsonObject: ...

    def previous_not_found(self, previous_id: str) -> ApiError: ...


class Keeping(Protocol):
    """A role whose answers may be kept."""

    def input_items(self, body: JsonObject, response_id: str) -> list[JsonObject]: ...


# One attribute tells: asking Python whether an object follows a protocol costs more than parsing a small request.


def _as_referring(role: object) -> Referring | None:
    return cast("Referring", role) if hasattr(role, "references") else None


def _as_keeping(role: object) -> Keeping | None:
    return cast("Keeping", role) if hasattr(role, "input_items") else None


async def recall(role: object, body: Any, key: KeyView) -> Any:
    """The body with everything in it that it refers to. Raises the role's 400 when something is not there."""
    referring = _as_referring(role)
    if referring is None:
        return body
    wanted = referring.references(body)
    if not wanted:
        return body
    before: list[Any] = []
    if wanted.previous_response_id is not None:
        found = await _ask(store.history, key.team_id, wanted.previous_response_id)
        if found is None:
            raise referring.previous_not_found(wanted.previous_response_id)
        before = found
    by_id = await _ask(store.items, key.team_id, wanted.item_ids) if wanted.item_ids else {}
    return referring.expand(body, before, by_id, lambda data: unseal(key.team_id, data))


def keeper(role: object, body: Any, request: Request, key: KeyView, ttl: float) -> Keep | None:
    """Keeps the finished answer; None when nobody wants it kept. ``ttl`` in seconds."""
    keeping = _as_keeping(role)
    if keeping is None or not (request.store and key.store_responses):
        return None

    async def keep(final: JsonObject) -> None:
        turn = NewTurn(
            id=final["id"],
            team_id=key.team_id,
            parent_id=body.get("previous_response_id") or "",
            brought=keeping.input_items(body, final["id"]),
            made=final["output"],
            envelope=final,
            ending=Ending.COMPLETED if final.get("status") == "completed" else Ending.INCOMPLETE,
            ttl=ttl,
        )
        try:
            await asyncio.to_thread(store.save, turn)
        except (DatabaseError, LookupError) as error:
            # The answer is there and paid for: it goes out, and whoever builds on it is told that it is not stored.
            log.warning("response of team %d not stored: %s", key.team_id, type(error).__name__)

    return keep


def seal(team_id: int, data: bytes) -> bytes:
    """Opaque for everybody, and of use to this tenant alone."""
    return encryption.seal(b"%s:%d:%s" % (COMPACTION.encode(), team_id, data))


def unseal(team_id: int, data: bytes) -> bytes:
    """Raises ``ValueError`` for bytes that ``seal`` did not make for this tenant."""
    try:
        plain = encryption.open_sealed(data)
    except SealError as error:
        raise ValueError("not sealed here") from error
    prefix = b"%s:%d:" % (COMPACTION.encode(), team_id)
    if not plain.startswith(prefix):
        raise ValueError("sealed for another tenant")
    return plain[len(prefix) :]


async def _ask(query: Callable[..., Any], *args: object) -> Any:
    try:
        return await asyncio.to_thread(query, *args)
    except (DatabaseError, SealError) as error:
        raise unavailable(error) from None


def unavailable(error: DatabaseError | SealError) -> ApiError:
    """The 503 for stored state that cannot be had: Postgres is away, or a key to what it keeps is not configured."""
    if isinstance(error, SealError):
        log.error("stored responses cannot be opened: %s; see manage.py preflight", error)
    return ApiError(
        Kind.NO_CAPACITY, "store_unavailable", "Stored responses cannot be read now.", retry_after=5,
        culprit=Culprit.GATEWAY,
    )  # fmt: skip
