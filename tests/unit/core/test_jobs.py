from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import redis
from django.conf import LazySettings

from core import jobs
from core.jobs import Counts, Report, State

NAME = "accounts.tasks.apply_effects"


@pytest.fixture
def client(redis_url: str, settings: LazySettings) -> Iterator[redis.Redis]:
    settings.POOLGATE_TIMETABLE = {NAME: 10.0, "ops.tasks.reap_lost": 10.0}
    with redis.Redis.from_url(redis_url) as client:
        yield client


def report(client: redis.Redis) -> Report:
    return jobs.reports(client)[0]


def nothing() -> Counts | None:
    return None


def test_a_job_that_never_ran_is_known_and_not_overdue(client: redis.Redis) -> None:
    found = jobs.reports(client)
    assert [(each.name, each.state) for each in found] == [(NAME, State.NEVER), ("ops.tasks.reap_lost", State.NEVER)]
    assert not found[0].is_overdue(time.time() + 10_000)


def test_a_run_leaves_its_counts_and_its_times(client: redis.Redis) -> None:
    before = time.time()
    assert jobs.perform(client, NAME, lambda: {"effects": 3})
    found = report(client)
    assert (found.state, found.counts, found.error, found.failures) == (State.DONE, {"effects": 3}, "", 0)
    assert before <= found.started <= found.finished == found.succeeded
    assert found.next_due == found.started + 10


def test_a_failure_is_noted_by_its_class_alone_and_counted_until_a_run_succeeds(client: redis.Redis) -> None:
    def fail() -> Counts:
        raise ValueError("a secret prompt")

    for _ in range(2):
        with pytest.raises(ValueError, match="secret"):
            jobs.perform(client, NAME, fail)
    found = report(client)
    assert (found.state, found.error, found.failures, found.succeeded) == (State.FAILED, "ValueError", 2, 0)
    assert "secret" not in repr(client.hgetall(f"poolgate:job:{NAME}"))
    jobs.perform(client, NAME, nothing)
    assert (report(client).state, report(client).failures) == (State.DONE, 0)


def test_two_runs_of_a_job_never_overlap(client: redis.Redis) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow() -> Counts:
        inside.set()
        leave.wait(10)
        return {"slow": 1}

    first = threading.Thread(target=jobs.perform, args=(client, NAME, slow))
    first.start()
    try:
        assert inside.wait(10)
        assert not jobs.perform(client, NAME, lambda: pytest.fail("two at once"))
        assert report(client).state is State.RUNNING
    finally:
        leave.set()
        first.join()
    assert report(client).counts == {"slow": 1}


def test_a_run_whose_lock_was_taken_over_writes_nothing_any_more(client: redis.Redis) -> None:
    def overtaken() -> Counts:
        time.sleep(0.05)
        assert jobs.perform(client, NAME, lambda: {"second": 1})
        return {"first": 1}

    assert jobs.perform(client, NAME, overtaken, limit=0.02)
    assert report(client).counts == {"second": 1}


def test_a_run_that_died_is_lost_once_its_lock_expires(client: redis.Redis) -> None:
    client.hset(f"poolgate:job:{NAME}", "started", str(time.time()))
    assert report(client).state is State.LOST
    assert jobs.perform(client, NAME, nothing)


def test_a_job_that_misses_two_turns_and_some_is_overdue(client: redis.Redis) -> None:
    jobs.perform(client, NAME, nothing)
    found = report(client)
    assert not found.is_overdue(found.started + 49)
    assert found.is_overdue(found.started + 51)
