"""What every test may use. The engines (``redis_url``, pytest-django's ``db``) come from ``tests.plugins.engines``,
the fake upstream from ``tests.plugins.simulator``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import hypothesis
import pytest
from django.conf import settings

from core.redis_pipe import Pipe

# How fast examples are made or run says more about the machine than about the code. In CI the examples are the same on
# every run, so that a red run is about the change; on a developer's machine they are new each time.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("house")

pytest_plugins = ["tests.plugins.simulator", "tests.plugins.house", "tests.plugins.gemini"]


def pytest_configure() -> None:
    # The real hash takes a third of a second a password, by design.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session")
def django_db_modify_db_settings(engines: None, django_db_modify_db_settings_parallel_suffix: None) -> None:
    """pytest-django's hook before it makes the test database."""


@pytest.fixture
async def pipe(redis_url: str) -> AsyncIterator[Pipe]:
    """The hot path's connection to an empty Redis database."""
    pipe = await Pipe.connect(redis_url)
    yield pipe
    await pipe.close()
