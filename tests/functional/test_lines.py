"""Many requests on few slots, through two processes: who waits, in which order, and who is told at once that waiting
will not help."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.plugins.ten import Answer, Ten, pool_of_ten

SLOW = "sim-slow-50"
"""About a second."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ten]:
    with pool_of_ten(tmp_path_factory.mktemp("lines"), slots=1, workers=2) as ten:
        yield ten


@pytest.fixture(scope="module")
def small_team(pool: Ten) -> str:
    key = pool.add_team("small")
    time.sleep(1.2)  # in force by then
    return key


@pytest.fixture
def ten(pool: Ten) -> Ten:
    pool.reset()
    pool.call(texts("warm", 10), at_once=10)  # tokens are there, and it is known how long a slot is held
    return pool


def texts(what: str, count: int) -> list[tuple[str, str]]:
    return [(SLOW, f"{what} {number}") for number in range(count)]


def test_a_greedy_team_does_not_starve_a_small_one(ten: Ten, small_team: str) -> None:
    with ThreadPoolExecutor() as threads:
        greedy = threads.submit(ten.call, texts("greedy", 50), 50)
        time.sleep(0.5)
        small = ten.call(texts("small", 10), at_once=10, key=small_team)
        answers = greedy.result()

    assert Counter(answer.status for answer in small) == {200: 10}
    served = [answer for answer in answers if answer.status == 200]
    assert len(served) == 30, "ten slots and twice as many places"
    behind = sum(answer.ended_at > max(one.ended_at for one in small) for answer in served)
    assert behind >= 5, "half of the slots were the small team's, as long as it wanted them"


def test_who_would_not_get_a_turn_in_time_is_told_at_once_and_when_to_come_back(ten: Ten) -> None:
    answers = ten.call(texts("crowd", 45), at_once=45)
    refused = [answer for answer in answers if answer.status != 200]

    assert Counter((answer.status, answer.code) for answer in refused) == {(503, "no_capacity"): 15}
    assert max(answer.seconds for answer in refused) < 1.5
    assert all(1 < int(answer.retry_after or 0) <= 8 for answer in refused), "about the time that the line takes"
    last = max(answer.ended_at for answer in answers)
    assert last - min(answer.ended_at for answer in refused) > 1.5, "and it was not said in vain"


def test_nobody_is_overtaken_whichever_process_has_it(ten: Ten) -> None:
    """The slots become free one after another, and the requests come one after another."""
    with ThreadPoolExecutor() as threads:
        busy = threads.submit(ten.call, texts("busy", 10), 10, apart=0.08)
        time.sleep(0.9)
        answers = ten.call(texts("next", 10), at_once=10, apart=0.02)
        busy.result()

    assert Counter(answer.status for answer in answers) == {200: 10}
    records = [record_of(ten, answer) for answer in answers]
    begun = [started + waited / 1000 for started, waited, _ in records]
    assert len({process for _, _, process in records}) == 2
    assert sum(waited > 0 for _, waited, _ in records) >= 5
    assert all(later > earlier - 0.05 for earlier, later in pairwise(begun)), begun


def test_who_leaves_the_line_makes_room_at_once(ten: Ten) -> None:
    gone = threading.Event()
    with ThreadPoolExecutor() as threads:
        busy = threads.submit(ten.call, texts("busy", 10), 10)
        time.sleep(0.3)
        threads.submit(ten.call_and_leave, texts("gone", 5), 0.3).add_done_callback(lambda _: gone.set())
        assert gone.wait(5)
        waiting = [key for key in ten.redis.keys("poolgate:line:*") if ten.redis.zcard(key)]
        busy.result()

    assert waiting == []


def record_of(ten: Ten, answer: Answer) -> tuple[float, int, str]:
    """When the request began (Unix seconds), how long it waited for a slot (ms), and which process had it."""
    for _ in range(100):
        row = ten.database.execute(
            "SELECT extract(epoch FROM started_at), wait_ms, process FROM ops_requestrecord WHERE request_id = %s",
            (answer.request_id,),
        ).fetchone()
        if row is not None:
            return float(row[0]), row[1], row[2]
        time.sleep(0.1)
    raise AssertionError("no record")
