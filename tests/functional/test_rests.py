"""Rests over sockets: they outlive Redis, and an admin ends them at once."""

from __future__ import annotations

import time

import pytest

from tests.functional.callers import CHAT, ask, error_of
from tests.plugins.house import House, eventually

MODEL = "sim-lorem-6"


@pytest.fixture
def resting(house: House) -> House:
    """Every account rests for the model, and has a row that says so."""
    for account in house.simulator.keys:
        house.simulator.fault(account, "model_not_in_plan")
    assert ask(house, CHAT, MODEL).status_code == 503
    for account in house.simulator.keys:
        house.simulator.fault(account, None)
    eventually(lambda: rows(house) == len(house.simulator.keys))
    return house


def rows(house: House) -> int:
    found = house.database.execute("SELECT count(*) FROM accounts_cooldown").fetchone()
    return int(found[0]) if found else 0


def names(house: House) -> list[str]:
    found = house.database.execute("SELECT name FROM accounts_account WHERE transport = 'agent_rpc'").fetchall()
    return [name for (name,) in found]


def test_an_account_that_an_admin_wakes_serves_within_a_second(resting: House) -> None:
    refused = ask(resting, CHAT, MODEL)
    assert (refused.status_code, error_of(CHAT, refused)["code"]) == (503, "no_capacity")

    resting.manage("accounts", "wake", *names(resting))
    time.sleep(0.9)

    assert ask(resting, CHAT, MODEL).status_code == 200
    assert rows(resting) == 0


def test_rests_outlive_a_redis_that_forgot_them(resting: House) -> None:
    for key in resting.redis.keys("poolgate:cool:*"):
        resting.redis.delete(key)
    resting.redis.delete("poolgate:cooldowns:restored")
    resting.manage("jobs", "run", "accounts.tasks.restore_cooldowns")

    before = len(resting.simulator.runs())
    assert ask(resting, CHAT, MODEL).status_code == 503
    assert len(resting.simulator.runs()) == before, "nobody was asked"
