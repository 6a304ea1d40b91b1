"""Turns in and out of Postgres. Blocking; the pipeline calls it through ``asyncio.to_thread``.

Every query names the team: a turn of another tenant is not found, exactly like one that never was or has expired.
A turn is written in one transaction before its last event goes out, so whoever was told an id can use it at once, on
any process. Building on a turn keeps its ancestors as long as it lives itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from msgspec import Struct

from core.encryption import open_sealed, seal
from gateway.conversations.facts import Ending, Fact, Item, Kind, brought_items, project, record_turn
from gateway.models import StoredFact, StoredTurn


class NewTurn(Struct, frozen=True):
    """A turn to keep. ``parent_id`` "" starts a conversation; ``ttl`` in seconds."""

    id: str
    team_id: int
    parent_id: str
    brought: Sequence[Item]
    made: Sequence[Item]
    envelope: Mapping[str, Any]
    ending: Ending
    ttl: float


def save(turn: NewTurn) -> None:
    """Keeps a turn. Doing it twice is doing it once. Raises ``LookupError`` when the parent is gone meanwhile."""
    with _connection(), transaction.atomic():
        if StoredTurn.objects.filter(pk=turn.id).exists():
            return
        expires_at = timezone.now() + timedelta(seconds=turn.ttl)
        line = _line_of(turn.team_id, turn.parent_id) if turn.parent_id else []
        if turn.parent_id and not line:
            raise LookupError(turn.parent_id)
        row = StoredTurn.objects.create(
            id=turn.id,
            team_id=turn.team_id,
            conversation=line[-1].conversation if line else uuid.uuid4(),
            parent=line[-1] if line else None,
            turn_seq=len(line),
            envelope=seal(orjson.dumps(turn.envelope)),
            expires_at=expires_at,
        )
        StoredTurn.objects.filter(pk__in=[ancestor.pk for ancestor in line], expires_at__lt=expires_at).update(
            expires_at=expires_at
        )
        facts = record_turn(turn.id, turn.brought, turn.made, turn.ending)
        StoredFact.objects.bulk_create([_row(row, fact) for fact in facts], ignore_conflicts=True)


def history(team_id: int, turn_id: str) -> list[Item] | None:
    """The items that a turn after ``turn_id`` builds on; None when there is no such turn for this team."""
    with _connection():
        if not _visible(team_id, turn_id).exists():
            return None
        line = _line_of(team_id, turn_id)
        by_turn: dict[str, list[Fact]] = {turn.pk: [] for turn in line}
        for row in StoredFact.objects.filter(turn__in=line).order_by("seq"):
            by_turn[row.turn_id].append(_fact(row))
        return project(fact for turn in line for fact in by_turn[turn.pk])


def items(team_id: int, item_ids: Collection[str]) -> dict[str, Item]:
    """Stored items by their own id; ids that this team does not have are absent."""
    with _connection():
        # Most facts have no id of their own, so "" is not one.
        wanted = [item_id for item_id in item_ids if item_id and "\0" not in item_id]
        rows = StoredFact.objects.filter(item_id__in=wanted, turn__in=_visible(team_id))
        return {row.item_id: _fact(row).payload for row in rows}


def envelope(team_id: int, turn_id: str) -> dict[str, Any] | None:
    """The response object as it was sent."""
    with _connection():
        row = _visible(team_id, turn_id).first()
        return None if row is None else orjson.loads(open_sealed(row.envelope))


def input_items(team_id: int, turn_id: str) -> list[Item] | None:
    """What the caller brought to this turn, oldest first."""
    with _connection():
        row = _visible(team_id, turn_id).first()
        return None if row is None else brought_items([_fact(fact) for fact in row.facts.order_by("seq")])


def delete(team_id: int, turn_id: str) -> bool:
    """Whether there was such a turn. Its content goes at once, or with the last turn that builds on it."""
    with _connection(), transaction.atomic():
        found = _visible(team_id, turn_id).update(hidden=True)
        _sweep(StoredTurn.objects.filter(hidden=True, team_id=team_id))
        return bool(found)


def sweep(now: datetime) -> int:
    """Deletes what has expired or is hidden and no longer built upon. Returns how many turns went."""
    with transaction.atomic():
        return _sweep(StoredTurn.objects.filter(expires_at__lte=now)) + _sweep(StoredTurn.objects.filter(hidden=True))


def _sweep(rows: QuerySet[StoredTurn]) -> int:
    gone = 0
    while True:  # a tree goes from its leaves
        leaves = list(rows.filter(children=None).values_list("pk", flat=True)[:1000])
        if not leaves:
            return gone
        StoredTurn.objects.filter(pk__in=leaves).delete()
        gone += len(leaves)


def _visible(team_id: int, turn_id: str | None = None) -> QuerySet[StoredTurn]:
    """What this team can refer to: all of it, or the one turn. No id has a NUL in it, which Postgres would refuse."""
    turns = StoredTurn.objects.filter(team_id=team_id, hidden=False, expires_at__gt=timezone.now())
    if turn_id is None:
        return turns
    return turns.none() if "\0" in turn_id else turns.filter(pk=turn_id)


def _line_of(team_id: int, turn_id: str) -> list[StoredTurn]:
    """The turn and its ancestors, oldest first; empty when it is not there."""
    found = StoredTurn.objects.filter(team_id=team_id, pk=turn_id).defer("envelope").first()
    if found is None:
        return []
    known = {turn.pk: turn for turn in StoredTurn.objects.filter(conversation=found.conversation).defer("envelope")}
    line = [found]
    while line[-1].parent_id is not None:
        line.append(known[line[-1].parent_id])
    return line[::-1]


def _row(turn: StoredTurn, fact: Fact) -> StoredFact:
    return StoredFact(
        turn=turn,
        seq=fact.seq,
        key=fact.key,
        kind=fact.kind.value,
        tool_call_id=fact.tool_call_id,
        item_id=fact.item_id,
        payload=seal(orjson.dumps(fact.payload)),
    )


def _fact(row: StoredFact) -> Fact:
    payload = orjson.loads(open_sealed(row.payload))
    return Fact(row.seq, row.key, Kind(row.kind), payload, row.tool_call_id, row.item_id)


@contextmanager
def _connection() -> Iterator[None]:
    """A borrowed thread gives its database connection back, which Django would let it keep."""
    try:
        yield
    finally:
        if not connection.in_atomic_block:
            connection.close()
