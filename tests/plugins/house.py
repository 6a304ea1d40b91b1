"""The whole product with its demo, started once a session: what conformance and functional tests talk to.

``house`` is ready for each test: the simulator's log is empty, no fault is ordered, no account rests, settings are at
their defaults. What a test changes it changes through the product's own doors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
import pytest
import redis

from config import environment
from tests.plugins.instance import Instance, clean_environment
from tests.plugins.simulator import Simulator

T = TypeVar("T")


class House:
    """``url`` has no ``/v1``; ``key`` is the demo team's."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.url: str = instance.ready["base_url"]
        self.key: str = instance.ready["api_key"]
        engines = environment.read_json(instance.data_dir / environment.ENGINES_FILE)
        self.redis: redis.Redis = redis.Redis.from_url(engines["REDIS_URL"])
        self.database = psycopg.connect(engines["DATABASE_URL"], autocommit=True)
        names = ("alpha", "beta", "gamma")
        self.simulator = Simulator(instance.ready["simulator_url"], {name: f"crsr_sim_{name}" for name in names})
        self._turned: set[str] = set()

    def manage(self, *words: str) -> str:
        """What a management command of this installation printed."""
        command = [sys.executable, "manage.py", *words]
        env = clean_environment(POOLGATE_DATA_DIR=str(self.instance.data_dir))
        return subprocess.run(
            command, cwd=environment.ROOT, env=env, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def set(self, **values: object) -> None:
        """Turns knobs as an admin does, and returns once they are in force."""
        for name, value in values.items():
            self.manage("settings", "set", name, json.dumps(value) if not isinstance(value, str) else value)
        self._turned |= set(values)
        time.sleep(0.5)

    def record(self, request_id: str) -> dict[str, Any]:
        """The row of a request, once it is drained."""
        return eventually(lambda: next(iter(self.records("request_id = %s", request_id)), None), 15)

    def records(self, where: str = "true", *values: object) -> list[dict[str, Any]]:
        with self.database.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            cursor.execute(f"SELECT * FROM ops_requestrecord WHERE {where}", values)
            return cursor.fetchall()

    def slots_in_use(self) -> int:
        """Requests that hold a slot of some account."""
        return sum(int(self.redis.zcard(key)) for key in self.redis.keys("poolgate:slots:*"))

    def forget_rests(self) -> None:
        """Nobody rests any more, no refusal is remembered, and no conversation has a home."""
        self.redis.xtrim("poolgate:effects", maxlen=0)  # else what the last test did to accounts is written down late
        if self.redis.delete("poolgate:trouble"):
            time.sleep(1.1)  # for so long a process believes what it heard
        for pattern in ("poolgate:cool:*", "poolgate:strikes:*", "poolgate:refused:*", "poolgate:sticky:*"):
            for key in self.redis.keys(pattern):
                self.redis.delete(key)
        self.database.execute("DELETE FROM accounts_cooldown")

    def reset(self) -> None:
        """Nothing ordered, nobody resting, what ``set`` turned at its default; in force when it returns."""
        self.simulator.reset()
        self.forget_rests()
        changed = self.database.execute(
            "UPDATE accounts_account SET state = 'ready', state_reason = '', enabled = true"
            " WHERE state <> 'ready' OR NOT enabled"
        ).rowcount
        if self._turned:
            delete = "DELETE FROM core_setting WHERE name = ANY(%s)"
            changed += self.database.execute(delete, [list(self._turned)]).rowcount
            self._turned.clear()
        if changed:
            self.publish()

    def publish(self) -> None:
        """Brings rows that a test has written itself into force."""
        version = self.redis.incr("poolgate:snapshot:version")
        self.redis.publish("poolgate:snapshot", str(version))
        time.sleep(0.2)  # the web process takes the new version over

    def close(self) -> None:
        self.redis.close()
        self.database.close()


def eventually(look: Callable[[], T | None], seconds: float = 10.0) -> T:
    """The first thing that ``look`` finds; fails when there is nothing in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing within {seconds} s")
        time.sleep(0.05)


@pytest.fixture(scope="session")
def house_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    workers = os.environ.get("POOLGATE_TEST_WEB_WORKERS", "1")
    with Instance(tmp_path_factory.mktemp("house") / "data", "--demo", "--workers", workers) as instance:
        house = House(instance)
        # Tests let more go wrong in ten seconds than any outage, and wait for no provider that will not come back.
        house.set(retry_floor=10_000, circuit_failures=1_000_000, provider_retries=0, wait_for_slot=5)
        house._turned.clear()
        try:
            yield house
        finally:
            house.close()


@pytest.fixture
def house(house_process: House) -> House:
    house_process.reset()
    return house_process
