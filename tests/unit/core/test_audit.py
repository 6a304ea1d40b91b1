from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

import pytest
from django.db import models

from core import audit
from core.audit import Actor
from core.models import AuditEntry, Setting


class Bare(models.Model):
    class Meta:
        app_label = "core"
        managed = False

    def __str__(self) -> str:
        return "bare"


class Careless(Bare):
    AUDITED: ClassVar[tuple[str, ...]] = ("blob",)
    blob = b"secret"

    class Meta:
        app_label = "core"
        managed = False
        proxy = True


@pytest.mark.django_db
def test_an_entry_says_who_did_what_to_which_object() -> None:
    row = Setting(name="max_images", value=3, updated_at=datetime(2026, 1, 1, tzinfo=UTC))
    audit.record(Actor("ada", "10.0.0.1", "fewer images"), "setting.set", row, after=audit.state(row))
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.ip, entry.reason) == ("ada", "10.0.0.1", "fewer images")
    assert (entry.verb, entry.object_type, entry.object_id) == ("setting.set", "core.setting", "max_images")
    assert (entry.before, entry.after) == (None, {"name": "max_images", "value": 3})


@pytest.mark.django_db
def test_the_trail_cannot_be_rewritten() -> None:
    row = Setting(name="max_images", value=3)
    audit.record(audit.SYSTEM, "setting.set", row)
    entry = AuditEntry.objects.get()
    entry.actor = "nobody"
    for rewrite in (entry.save, entry.delete, AuditEntry.objects.all().delete):
        with pytest.raises(TypeError, match="append-only"):
            rewrite()
    with pytest.raises(TypeError, match="append-only"):
        AuditEntry.objects.update(actor="nobody")
    assert AuditEntry.objects.get().actor == "system"


def test_a_model_that_declares_nothing_cannot_be_shown() -> None:
    with pytest.raises(TypeError, match="does not say which fields"):
        audit.state(Bare())


def test_bytes_never_enter_the_trail() -> None:
    with pytest.raises(TypeError, match="bytes"):
        audit.state(Careless())
