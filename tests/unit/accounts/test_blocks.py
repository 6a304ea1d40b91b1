from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.conf import LazySettings
from django.utils import timezone

from accounts import blocks, proxies, verbs
from accounts.compile import AccountState
from accounts.models import Account, Proxy
from accounts.tasks import restore_cooldowns
from accounts.troubles import TROUBLE, read_trouble

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def proxy() -> Proxy:
    return proxies.create_proxy("p", "http://127.0.0.1:3128")


@pytest.fixture
def three(settings: LazySettings, proxy: Proxy) -> list[Account]:
    """Two on one proxy, one without."""
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    return [
        verbs.create_cursor_account(name, f"crsr_sim_{name}", "http://127.0.0.1:1", proxy=proxy)
        for name, proxy in (("alpha", proxy), ("beta", proxy), ("gamma", None))
    ]


def block(account: Account, *, reason: str = "blocked", hours_ago: float = 0) -> None:
    at = timezone.now() - timedelta(hours=hours_ago)
    verbs.set_state(account, AccountState.BLOCKED, reason, at=at)


def paused(client: redis.Redis) -> frozenset[str]:
    return read_trouble(client.hgetall(TROUBLE)).paused  # type: ignore[arg-type]


def test_one_block_stops_one_account(client: redis.Redis, three: list[Account]) -> None:
    block(three[0])
    block(three[2])
    assert blocks.enforce(client) == set()
    assert not client.exists(TROUBLE)


def test_a_second_block_within_a_day_pauses_the_way_out_of_both(
    client: redis.Redis, three: list[Account], caplog: pytest.LogCaptureFixture
) -> None:
    block(three[0], hours_ago=23)
    block(three[1])
    for _ in range(2):
        assert blocks.enforce(client) == {str(three[0].proxy_id)}
    assert paused(client) == {str(three[0].proxy_id)}
    assert client.ttl(TROUBLE) > 0
    alarms = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert alarms == [
        f"ALARM way out {three[0].proxy_id} is paused: two accounts that use it were blocked within a day"
    ]


@pytest.mark.parametrize(("reason", "hours_ago"), [("blocked", 25), ("forbidden", 1), ("by hand", 1)])
def test_blocks_far_apart_and_other_reasons_pause_nothing(
    client: redis.Redis, three: list[Account], reason: str, hours_ago: float
) -> None:
    block(three[0], reason=reason, hours_ago=hours_ago)
    block(three[1])
    assert blocks.enforce(client) == set()


def test_waking_one_of_them_ends_the_pause_and_leaves_other_troubles(
    client: redis.Redis, three: list[Account], django_capture_on_commit_callbacks: Any
) -> None:
    client.hset(TROUBLE, "egress|direct", 1)
    with django_capture_on_commit_callbacks(execute=True):
        block(three[0])
        block(three[1])
    assert paused(client) == {str(three[0].proxy_id)}
    with django_capture_on_commit_callbacks(execute=True):
        verbs.set_state(three[1], AccountState.READY)
    assert client.hkeys(TROUBLE) == [b"egress|direct"]


def test_a_pause_comes_back_after_redis_lost_it(client: redis.Redis, three: list[Account]) -> None:
    block(three[0])
    block(three[1])
    restore_cooldowns()
    assert paused(client) == {str(three[0].proxy_id)}
