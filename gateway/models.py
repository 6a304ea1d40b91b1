"""Stored conversations: the only content that Poolgate keeps, encrypted, for a bounded time, for the tenant alone.

Nothing here is ever joined with records, which hold no content. See ``gateway.conversations``.
"""

from __future__ import annotations

from django.db import models

from core.encryption import SealedField
from tenants.models import Team


class StoredTurn(models.Model):
    """One answered turn. Turns form a tree: two answers may build on the same one.

    ``envelope`` is the response object as it was sent, sealed JSON. A turn whose caller deleted it is ``hidden`` while
    later turns still build on it.
    """

    id = models.CharField(max_length=64, primary_key=True)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    conversation = models.UUIDField(db_index=True)
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children")
    turn_seq = models.PositiveIntegerField()
    envelope = SealedField()
    hidden = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.id


class StoredFact(models.Model):
    """One thing that happened, never changed. ``payload`` is the wire item, sealed JSON."""

    turn = models.ForeignKey(StoredTurn, on_delete=models.CASCADE, related_name="facts")
    seq = models.PositiveIntegerField()
    key = models.CharField(max_length=96)
    kind = models.CharField(max_length=24)
    tool_call_id = models.CharField(max_length=128, blank=True)
    item_id = models.CharField(max_length=128, blank=True, db_index=True)
    payload = SealedField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["seq"]
        constraints = [
            models.UniqueConstraint(fields=["turn", "seq"], name="one_fact_per_place"),
            models.UniqueConstraint(fields=["turn", "key"], name="one_fact_per_key"),
        ]

    def __str__(self) -> str:
        return f"{self.turn_id}/{self.seq} {self.kind}"
