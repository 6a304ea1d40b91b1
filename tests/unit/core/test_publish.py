from __future__ import annotations

import logging

import pytest
from django.db import transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from core import publish


@pytest.mark.django_db
def test_an_edit_stands_when_redis_is_down(
    settings: Settings,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:1/0"
    with caplog.at_level(logging.ERROR), django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        publish.bump()
    assert "_announce" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.django_db
def test_an_edit_that_is_rolled_back_is_not_announced(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    def fail() -> None:
        with transaction.atomic():
            publish.bump()
            raise RuntimeError

    with django_capture_on_commit_callbacks() as waiting, pytest.raises(RuntimeError):
        fail()
    assert waiting == []
