from __future__ import annotations

import pytest
import redis
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_postgresql_and_migrated() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select current_setting('server_version_num')::int, count(*) from django_migrations")
        version, migrations = cursor.fetchone()
    assert version >= 160000
    assert migrations > 10


def test_every_test_gets_an_empty_redis(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_what_a_test_left_in_redis_is_gone_in_the_next(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.get("left") is None
