"""Rows that belong to no one app: the settings that differ from their default, and the audit trail."""

from __future__ import annotations

from typing import Any, ClassVar, Never

from django.db import models


class Setting(models.Model):
    """One knob turned away from its default. Written by ``core.settings_store`` alone."""

    AUDITED: ClassVar[tuple[str, ...]] = ("name", "value")

    name = models.CharField(max_length=64, primary_key=True)
    value = models.JSONField()
    updated_by = models.CharField(max_length=150)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class AppendOnlyQuerySet(models.QuerySet["AuditEntry"]):
    """Refuses to rewrite history, also in bulk."""

    def update(self, **kwargs: Any) -> Never:
        raise TypeError("The audit trail is append-only.")

    def delete(self) -> Never:
        raise TypeError("The audit trail is append-only.")


class AuditEntry(models.Model):
    """Who did what to which object. ``before`` and ``after`` hold the fields that the model declares fit to be shown.

    Objects are named by label and id, not by foreign key: the entry outlives what it tells of.
    """

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=150, db_index=True)
    verb = models.CharField(max_length=64, db_index=True)
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    ip = models.GenericIPAddressField(null=True)
    reason = models.CharField(max_length=500, blank=True)

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["object_type", "object_id"])]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.object_type} {self.object_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError("The audit trail is append-only.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Never:
        raise TypeError("The audit trail is append-only.")
