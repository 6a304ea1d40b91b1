"""The background jobs: a Celery application that follows ``config.timetable``.

Tasks are thin and idempotent; each app keeps its own in ``tasks.py``. A job that could not run before its next turn
is dropped (``expires``), so a stopped worker leaves no backlog.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import beat_init, worker_ready
from django.conf import settings

from config.timetable import TIMETABLE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("poolgate", broker=settings.REDIS_URL or None)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"global_keyprefix": "poolgate:celery:"},
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    timezone="UTC",
    worker_hijack_root_logger=False,
    beat_schedule={
        name: {"task": name, "schedule": seconds, "options": {"expires": max(seconds, 5)}}
        for name, seconds in TIMETABLE.items()
    },
)
app.autodiscover_tasks()


def _announce(name: str) -> None:
    """Tells ``manage.py up`` that this process does its work now."""
    directory = os.environ.get("POOLGATE_READY_DIR")
    if directory:
        (Path(directory) / name).touch()


@worker_ready.connect  # type: ignore[untyped-decorator]
def _worker_is_ready(**_: Any) -> None:
    _announce("worker")


@beat_init.connect  # type: ignore[untyped-decorator]
def _beat_is_ready(**_: Any) -> None:
    _announce("beat")
