"""Stored settings: rows in, ``Settings`` out, and the ways to turn knobs.

Edits run one at a time (an advisory lock of the database, since a row that is not there yet cannot be locked), so that
what a person saw when they decided can be compared with what is stored at the moment of saving.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from msgspec import Struct

from core import audit, publish
from core.audit import Actor
from core.models import AuditEntry, Setting
from core.settings import KNOBS, Settings, check_value, compile_settings, show_value

_EDITS = 0x506F6F6C  # the advisory lock's number: any will do, as long as nothing else takes it
_OBJECT = Setting._meta.label_lower


class Edit(Struct, frozen=True):
    """A knob to turn. ``seen`` is the value that was in force when its editor decided, as ``show_value`` writes it."""

    name: str
    seen: str
    wanted: Any


class Conflict(ValueError):
    """Somebody else turned some of the same knobs meanwhile; nothing was saved."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"Changed meanwhile: {', '.join(names)}.")
        self.names = names


class Change(Struct, frozen=True):
    """One line of the history. ``before`` and ``after`` None: the default of that time."""

    at: datetime
    actor: str
    name: str
    before: Any
    after: Any
    reason: str


def rows() -> dict[str, object]:
    """Name → stored value of every knob that was turned. Rows of knobs that are gone are left out."""
    return {name: value for name, value in Setting.objects.values_list("name", "value") if name in KNOBS}


def current() -> Settings:
    """The settings in force. Raises ``ValueError`` for a stored value that is out of bounds."""
    return compile_settings(rows())


@transaction.atomic
def set_setting(name: str, value: object, actor: Actor) -> None:
    """Stores a value. Raises ``ValueError`` with a sentence for the admin."""
    checked = check_value(name, value)
    _wait_for_other_edits()
    _store(name, checked, actor)
    publish.bump()


@transaction.atomic
def reset_setting(name: str, actor: Actor) -> None:
    """Back to the default. Raises ``ValueError`` for an unknown name; a knob at its default is left alone."""
    if name not in KNOBS:
        raise ValueError(f"There is no setting named {name}.")
    _wait_for_other_edits()
    if _reset(name, actor):
        publish.bump()


@transaction.atomic
def change_settings(edits: Iterable[Edit], actor: Actor) -> None:
    """All of ``edits`` or none. A value equal to the default is a reset.

    Raises ``ValueError`` for a value that is refused, and its kind ``Conflict`` when a knob no longer is what was seen.
    """
    checked = {edit.name: check_value(edit.name, edit.wanted) for edit in edits}
    _wait_for_other_edits()
    stored = rows()
    moved = [edit.name for edit in edits if show_value(stored.get(edit.name, KNOBS[edit.name].default)) != edit.seen]
    if moved:
        raise Conflict(moved)
    for name, value in checked.items():
        if value == KNOBS[name].default:
            _reset(name, actor)
        else:
            _store(name, value, actor)
    publish.bump()


def last_changes(limit: int, name: str = "", before: int | None = None) -> tuple[list[Change], int | None]:
    """Changes of one knob or of all, newest first, older than entry ``before``; and where to go on, if anywhere."""
    entries = AuditEntry.objects.filter(object_type=_OBJECT)
    if name:
        entries = entries.filter(object_id=name)
    if before is not None:
        entries = entries.filter(id__lt=before)
    found = list(entries.order_by("-id")[: limit + 1])
    return [_change(entry) for entry in found[:limit]], found[limit - 1].pk if len(found) > limit else None


def turned() -> Mapping[str, Setting]:
    """The rows themselves, by name: who turned a knob last, and when."""
    return {row.name: row for row in Setting.objects.filter(name__in=KNOBS)}


def _wait_for_other_edits() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_EDITS])


def _store(name: str, value: object, actor: Actor) -> None:
    row = Setting.objects.filter(name=name).first()
    before = audit.state(row) if row else None
    row = row or Setting(name=name)
    row.value, row.updated_by = value, actor.name
    row.save()
    audit.record(actor, "setting.set", row, before=before, after=audit.state(row))


def _reset(name: str, actor: Actor) -> bool:
    row = Setting.objects.filter(name=name).first()
    if row is None:
        return False
    audit.record(actor, "setting.reset", row, before=audit.state(row))
    row.delete()
    return True


def _change(entry: AuditEntry) -> Change:
    before, after = (state and state["value"] for state in (entry.before, entry.after))
    return Change(entry.at, entry.actor, entry.object_id, before, after, entry.reason)
