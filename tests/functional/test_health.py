"""What jobs find out about accounts, and that the requests of a running house go by it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest
from celery import Celery

from accounts.knowledge import COUNTER, QUOTA, USABLE, Quota, Usable
from config import environment
from tests.functional.callers import CHAT, ask
from tests.plugins.house import House, eventually

HEARD = 6.0
"""Seconds within which every process has heard of what jobs found."""


@pytest.fixture
def ids(house: House) -> Iterator[dict[str, int]]:
    """The demo's accounts; what was told of them is forgotten afterwards."""
    rows = house.database.execute("SELECT name, id FROM accounts_account WHERE kind = 'cursor'").fetchall()
    yield {name.removeprefix("sim-"): number for name, number in rows}
    house.redis.delete(USABLE, QUOTA)
    house.redis.incr(COUNTER)
    time.sleep(HEARD)


def asked(house: House) -> set[str]:
    return {run["account"] for run in house.simulator.runs()}


def tell(house: House, key: str, known: dict[int, Usable] | dict[int, Quota]) -> None:
    for number, found in known.items():
        house.redis.hset(key, str(number), msgspec.json.encode(found))
    house.redis.incr(COUNTER)
    time.sleep(HEARD)


def ask_often(house: House, model: str) -> set[str]:
    """The accounts that were asked; each request is a conversation of its own, bound to nobody."""
    house.simulator.reset()
    for number in range(8):
        assert ask(house, CHAT, model, f"{model} {number}").status_code == 200
    return asked(house)


def test_an_account_is_not_asked_for_a_model_that_its_upstream_does_not_list_for_it(
    house: House, ids: dict[str, int]
) -> None:
    now = time.time()
    lists = {ids[name]: Usable(("composer-2.5",), now) for name in ("beta", "gamma")}
    tell(house, USABLE, {**lists, ids["alpha"]: Usable(("gpt-5.2",), now)})
    assert ask_often(house, "gpt-5.2") == {"alpha"}
    assert ask_often(house, "composer-2.5") <= {"beta", "gamma"}


def test_a_spent_bucket_bars_its_models_alone(house: House, ids: dict[str, int]) -> None:
    now = time.time()
    quotas = {ids[name]: Quota(now, auto=1.0, api=0.1) for name in ("beta", "gamma")}
    tell(house, QUOTA, {**quotas, ids["alpha"]: Quota(now, auto=0.1, api=1.0)})
    assert ask_often(house, "gpt-5.2") <= {"beta", "gamma"}
    assert ask_often(house, "composer-2.5") == {"alpha"}


def states(house: House) -> dict[str, str]:
    lines = (line.split("  ") for line in house.manage("jobs", "list").splitlines())
    return {name: state for name, _, state, *_ in lines}


def test_an_operator_sees_that_the_jobs_run_and_what_they_found(house: House) -> None:
    jobs = [f"accounts.tasks.{name}" for name in ("refresh_catalogue", "check_proxies", "refresh_quotas")]
    app = Celery(broker=environment.read_json(house.instance.data_dir / environment.ENGINES_FILE)["REDIS_URL"])
    app.conf.broker_transport_options = {"global_keyprefix": "poolgate:celery:"}
    with app.connection_for_write() as connection:
        for name in jobs:
            app.send_task(name, connection=connection)
    app.close()
    assert eventually(lambda: all(states(house)[name] == "done" for name in jobs), 40)
    assert set(states(house).values()) <= {"never", "running", "done"}
    assert "gpt-5.2-high  upstream  off  as gpt-5.2  effort=high" in house.manage("catalogue", "list")
    assert house.redis.hlen(USABLE) >= 3
