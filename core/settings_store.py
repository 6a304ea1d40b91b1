"""Stored settings: rows in, ``Settings`` out, and the one way to turn a knob."""

from __future__ import annotations

from django.db import transaction

from core import audit, publish
from core.audit import Actor
from core.models import Setting
from core.settings import KNOBS, Settings, check_value, compile_settings


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
    row = Setting.objects.select_for_update().filter(name=name).first()
    before = audit.state(row) if row else None
    row = row or Setting(name=name)
    row.value, row.updated_by = checked, actor.name
    row.save()
    audit.record(actor, "setting.set", row, before=before, after=audit.state(row))
    publish.bump()


@transaction.atomic
def reset_setting(name: str, actor: Actor) -> None:
    """Back to the default. Raises ``ValueError`` for an unknown name; a knob at its default is left alone."""
    if name not in KNOBS:
        raise ValueError(f"There is no setting named {name}.")
    row = Setting.objects.select_for_update().filter(name=name).first()
    if row is None:
        return
    audit.record(actor, "setting.reset", row, before=audit.state(row))
    row.delete()
    publish.bump()
