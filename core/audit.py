"""The audit trail: every verb leaves one row, in the transaction of the change itself.

What a row may show of an object is an allow-list that its model declares (``AUDITED``), so a new secret column stays
out of the trail until somebody decides otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Model
from msgspec import Struct

from core.models import AuditEntry

State = Mapping[str, Any]


class Actor(Struct, frozen=True):
    """Who acts: a user name, or ``system`` / ``command line``. ``reason`` is what the actor gave as one."""

    name: str
    ip: str | None = None
    reason: str = ""


SYSTEM = Actor("system")
COMMAND_LINE = Actor("command line")


def state(obj: Model) -> dict[str, Any]:
    """What the trail may show of ``obj`` now. Raises ``TypeError`` for a model without ``AUDITED``."""
    names: tuple[str, ...] | None = getattr(obj, "AUDITED", None)
    if names is None:
        raise TypeError(f"{type(obj).__name__} does not say which fields the audit trail may show")
    return {name: _plain(getattr(obj, name)) for name in names}


def record(actor: Actor, verb: str, obj: Model, *, before: State | None = None, after: State | None = None) -> None:
    """Writes one row. ``before`` None: the object is new; ``after`` None: it is gone."""
    AuditEntry.objects.create(
        actor=actor.name,
        verb=verb,
        object_type=obj._meta.label_lower,
        object_id=str(obj.pk),
        before=before,
        after=after,
        ip=actor.ip,
        reason=actor.reason,
    )


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        raise TypeError("bytes do not belong into the audit trail")
    return value
