"""Background jobs of stored conversations. Thin: the verbs are in ``gateway.conversations.store``."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from gateway.conversations import store


@shared_task  # type: ignore[untyped-decorator]
def sweep_conversations() -> None:
    store.sweep(timezone.now())
