"""Conversations on a pool of ten behind two server processes: they stay, make way, come home, and move for good."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.plugins.house import eventually
from tests.plugins.ten import NAMES, Ten, pool_of_ten

MODEL = "sim-lorem-4"
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
SECRET = "the heron is purple"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ten]:
    with pool_of_ten(tmp_path_factory.mktemp("ten"), slots=3, workers=2) as ten:
        yield ten


@pytest.fixture
def ten(pool: Ten) -> Iterator[Ten]:
    pool.reset()
    yield pool
    if pool.database.execute("UPDATE accounts_account SET draining = false WHERE draining").rowcount:
        pool.reset()


def post(
    ten: Ten, path: str, body: dict[str, Any], headers: Mapping[str, str] | None = None, model: str = MODEL
) -> httpx2.Response:
    """On a connection of its own, so that either process may get it."""
    sent = {"authorization": f"Bearer {ten.key}", **(headers or {})}
    answer = httpx2.post(ten.url + path, json={"model": model, **body}, headers=sent, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer


def _begin(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


class Talk:
    """A conversation that sends its history with every turn."""

    def __init__(self, ten: Ten, first: str, headers: Mapping[str, str] | None = None, model: str = MODEL) -> None:
        self.ten, self.headers, self.model = ten, headers, model
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": first}]

    def turn(self) -> str:
        """The account that served it."""
        before = len(self.ten.simulator.runs())
        said = post(self.ten, CHAT, {"messages": self.messages}, self.headers, self.model).json()
        self.messages += [said["choices"][0]["message"], {"role": "user", "content": "go on"}]
        runs = self.ten.simulator.runs()
        assert len(runs) > before
        account: str = runs[0]["account"]
        return account


def bindings(ten: Ten) -> dict[str, str]:
    return {str(key): str(ten.redis.get(key)) for key in ten.redis.keys("poolgate:sticky:*")}


def home_of(ten: Ten) -> str:
    """The account that the one conversation there is is bound to."""
    names = {str(number): name for name, number in ten.accounts.items()}
    [value] = eventually(lambda: list(bindings(ten).values()))
    return names[value.split("|")[0]]


def test_a_conversation_stays_on_one_account_whichever_process_serves_it(ten: Ten) -> None:
    talk = Talk(ten, "first words of a long talk")
    served = [talk.turn() for _ in range(12)]
    assert len(set(served)) == 1
    assert home_of(ten) == served[0]
    assert ten.redis.scard("poolgate:processes") >= 2


def test_a_session_that_the_client_names_stays_whatever_it_says(ten: Ten) -> None:
    header = {"x-session-id": "s-1"}
    served = {Talk(ten, f"beginning number {number}", header).turn() for number in range(8)}
    assert len(served) == 1


def test_different_conversations_spread_over_the_pool(ten: Ten) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: post(ten, CHAT, _begin(f"talk {number}")), range(60)))
    served = ten.served()
    assert sum(served.values()) == 60
    assert set(served) == set(NAMES)
    assert max(served.values()) <= 14
    assert len(eventually(lambda: bindings(ten) if len(bindings(ten)) == 60 else None)) == 60


def test_it_makes_way_for_a_short_rest_and_comes_home(ten: Ten) -> None:
    talk = Talk(ten, "a short rest")
    home = talk.turn()
    ten.simulator.fault(home, "rate_limited_hint", models=[MODEL], times=1)
    away = [talk.turn() for _ in range(3)]
    assert home not in away
    assert home_of(ten) == home
    time.sleep(8.5)  # the hint says seven seconds
    assert [talk.turn(), talk.turn()] == [home, home]


def test_it_moves_for_good_where_the_rest_is_long(ten: Ten) -> None:
    talk = Talk(ten, "a long rest")
    home = talk.turn()
    ten.simulator.fault(home, "model_limit", models=[MODEL], times=1)
    other = talk.turn()
    assert other != home
    assert home_of(ten) == other
    ten.redis.delete(f"poolgate:cool:{ten.accounts[home]}")
    assert {talk.turn() for _ in range(4)} == {other}


def test_another_process_that_hears_of_a_long_rest_moves_it_too(ten: Ten) -> None:
    talk = Talk(ten, "a rest that others found")
    home = talk.turn()
    ten.redis.hset(f"poolgate:cool:{ten.accounts[home]}", MODEL, str(int((time.time() + 600) * 1000)))
    other = talk.turn()
    assert other != home
    assert home_of(ten) == other


def test_it_makes_way_while_its_account_is_full_and_comes_home(ten: Ten) -> None:
    header = {"x-session-id": "crowded"}
    home = Talk(ten, "begin", header, "sim-slow-20").turn()
    key = f"poolgate:slots:{ten.accounts[home]}"
    ten.redis.zadd(key, {f"other-{number}": (time.time() + 60) * 1000 for number in range(3)})
    away = Talk(ten, "go on", header, "sim-slow-20").turn()
    ten.redis.delete(key)
    assert away != home
    assert home_of(ten) == home
    eventually(lambda: Talk(ten, "go on", header, "sim-slow-20").turn() == home, 15)  # a process believes for a while


def test_a_draining_account_keeps_its_conversations_and_gets_no_new_ones(ten: Ten) -> None:
    talk = Talk(ten, "before it is drained")
    home = talk.turn()
    ten.database.execute("UPDATE accounts_account SET draining = true WHERE name = %s", [home])
    ten.redis.publish("poolgate:snapshot", str(ten.redis.incr("poolgate:snapshot:version")))
    time.sleep(0.5)
    assert {talk.turn() for _ in range(3)} == {home}
    assert home not in {Talk(ten, f"new one {number}").turn() for number in range(20)}


def test_a_stored_answer_is_gone_on_from_where_it_was_made(ten: Ten) -> None:
    previous, served = None, []
    for number in range(4):
        body = {"input": f"turn {number}", "instructions": f"say it in {number} words"}
        answer = post(ten, RESPONSES, body | ({"previous_response_id": previous} if previous else {}))
        previous = answer.json()["id"]
        served.append(ten.simulator.runs()[0]["account"])
    assert len(set(served)) == 1


def test_claude_code_s_session_is_known_by_its_metadata(ten: Ten) -> None:
    user_id = '{"device_id":"d","account_uuid":"","session_id":"00000000-0000-4000-8000-000000000001"}'
    for number in range(5):
        body = _begin(f"sub-agent {number}") | {"max_tokens": 100, "metadata": {"user_id": user_id}}
        post(ten, MESSAGES, body)
    assert len(Counter(ten.served())) == 1


def test_redis_holds_digests_and_nothing_of_what_was_said(ten: Ten) -> None:
    system = {"role": "system", "content": SECRET}
    post(ten, CHAT, {"messages": [system, {"role": "user", "content": SECRET}]})
    post(ten, CHAT, _begin("x") | {"prompt_cache_key": SECRET})
    post(ten, CHAT, _begin("y"), {"x-session-id": f"{SECRET} too"})
    kept = eventually(lambda: bindings(ten) if len(bindings(ten)) == 3 else None)
    for key, value in kept.items():
        assert re.fullmatch(r"poolgate:sticky:\d+-[0-9a-f]{32}", key)
        assert re.fullmatch(r"\d+\|\d{10}\|\d{10}", value)
        assert 3500 < ten.redis.ttl(key) <= 3600
