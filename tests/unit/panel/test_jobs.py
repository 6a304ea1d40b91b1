from __future__ import annotations

import time

import pytest
import redis
from django.contrib.auth.models import User

from core import jobs
from core.redis import connection
from tests.unit.panel.conftest import signed_in


def test_the_page_tells_what_ran_what_failed_and_what_is_overdue(owner: User) -> None:
    client = connection()
    jobs.perform(client, "ops.tasks.reap_lost", lambda: {"lost": 4})
    with pytest.raises(KeyError):
        jobs.perform(client, "accounts.tasks.apply_effects", _break)
    client.hset("poolgate:job:ops.tasks.drain_records", "started", str(time.time() - 3600))

    page = signed_in(owner).get("/jobs").text

    for text in ("reap lost", "lost 4", "KeyError", "failed", "overdue", "never"):
        assert text in page
    assert "reap lost" in signed_in(owner).get("/jobs/live").text


def _break() -> jobs.Counts:
    raise KeyError("secret")


def test_without_redis_the_page_says_that_nothing_is_known(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(client: redis.Redis) -> list[jobs.Report]:
        raise redis.ConnectionError

    monkeypatch.setattr(jobs, "reports", fail)
    page = signed_in(owner).get("/jobs")
    assert page.status_code == 200
    assert "Redis does not answer" in page.text
