"""Processes that are killed in the middle of streams, in an installation of its own with two server processes: after
each death it serves again, and in the end every admitted request has exactly one record."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.functional.callers import CHAT, PATHS, ask, body_of, error_of, post
from tests.functional.flows import Flow, flowing
from tests.plugins.house import House, eventually
from tests.plugins.instance import Instance

pytestmark = pytest.mark.timeout(180)

SLOW = "sim-slow-60"  # twenty words in 1.2 s
ANSWER = 20


class Ordeal:
    """The installation, and the ids of all requests that it admitted."""

    def __init__(self, directory: Path) -> None:
        self.instance = Instance(directory, "--demo", "--workers", "2")
        self.instance.start()
        self.house = House(self.instance)
        self.house.database.execute("UPDATE accounts_account SET slots = 20")
        self.house.publish()
        self.admitted: set[str] = set()

    def kill(self, word: str) -> None:
        """Kills one child without warning."""
        self.instance.children(word)[0].kill()

    def restart(self) -> None:
        """Starts again on the same data, after everything was killed."""
        self.house.close()
        self.instance.ready_file.unlink(missing_ok=True)
        self.instance.start()
        self.house = House(self.instance)

    def serves(self) -> bool:
        try:
            answer = ask(self.house, CHAT, "sim-echo")
        except httpx2.HTTPError:
            return False
        self.note(answer.headers.get("x-request-id", ""))
        return answer.status_code == 200

    def settle(self) -> None:
        """Waits until both server processes serve: whichever gets a connection, it answers."""
        eventually(lambda: all(self.serves() for _ in range(12)), 20)

    def note(self, request_id: str) -> None:
        if request_id:
            self.admitted.add(request_id)

    def run(self, act: Callable[[], object], count: int = 8, model: str = SLOW) -> list[Flow]:
        """Streams that are under way while ``act`` happens; they have ended when it returns. They need nearly every
        slot, and what a process that died held is given back only when it has been missing for a while."""
        eventually(lambda: self.house.slots_in_use() == 0, 40)
        with flowing(self.house, model, count) as flows:
            act()
        for flow in flows:
            self.note(flow.request_id)
        return flows


@pytest.fixture(scope="module")
def ordeal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordeal]:
    ordeal = Ordeal(tmp_path_factory.mktemp("deaths") / "data")
    try:
        yield ordeal
    finally:
        ordeal.house.close()
        ordeal.instance.stop()


def words(flow: Flow) -> int:
    return len(flow.text.split())


def test_a_changed_budget_is_in_force_in_every_process_within_a_second(ordeal: Ordeal) -> None:
    house = ordeal.house
    function = {"type": "function", "function": {"name": "t"}}
    body = body_of(CHAT, tools=[function, {"type": "function", "function": {"name": "u"}}])

    def refused() -> list[bool]:
        answers = [post(house, CHAT, body) for _ in range(12)]  # a new connection each: both processes get some
        for answer in answers:
            ordeal.note(answer.headers["x-request-id"])
        return [answer.status_code == 413 for answer in answers]

    assert not any(refused())
    house.manage("settings", "set", "max_tool_definitions", "1")
    time.sleep(1)
    assert all(refused())
    house.manage("settings", "set", "max_tool_definitions", "128")
    time.sleep(1)
    assert not any(refused())


def test_fifty_streams_over_two_processes_arrive_whole(ordeal: Ordeal) -> None:
    flows = [Flow(ordeal.house, PATHS[number % 2], "sim-lorem-200") for number in range(50)]
    for flow in flows:
        flow.join(60)
        ordeal.note(flow.request_id)
    assert [(flow.whole, words(flow)) for flow in flows] == [(True, 200)] * 50


def test_a_killed_server_process_breaks_its_own_streams_alone(ordeal: Ordeal) -> None:
    before = {child.pid for child in ordeal.instance.children("config.web")}
    flows = ordeal.run(lambda: ordeal.kill("config.web"), 12)
    assert any(flow.broken for flow in flows)
    assert {(flow.whole, words(flow)) for flow in flows if not flow.broken} <= {(True, ANSWER)}
    ordeal.settle()
    eventually(lambda: len({child.pid for child in ordeal.instance.children("config.web")} - before) == 1, 20)


def test_streams_outlive_redis_and_new_requests_are_told_to_wait(ordeal: Ordeal) -> None:
    refusals: list[httpx2.Response] = []

    def interrupt() -> None:
        ordeal.kill("valkey")
        ends = time.monotonic() + 0.6
        while time.monotonic() < ends:
            answer = ask(ordeal.house, PATHS[len(refusals) % 2], "sim-echo")
            if answer.status_code != 200:
                refusals.append(answer)
            ordeal.note(answer.headers["x-request-id"])

    flows = ordeal.run(interrupt)
    assert [(flow.whole, words(flow)) for flow in flows] == [(True, ANSWER)] * len(flows)
    assert refusals
    for answer in refusals:
        path = CHAT if answer.status_code == 503 else PATHS[1]
        assert "state store is unavailable" in error_of(path, answer)["message"]
        assert int(answer.headers["retry-after"]) > 0
    ordeal.settle()


def test_requests_go_on_without_postgres(ordeal: Ordeal) -> None:
    parent = next(child for child in ordeal.instance.children("postgres"))
    parent.send_signal(signal.SIGSTOP)  # it hangs rather than dies, which is the worse of the two
    try:
        assert all(ordeal.serves() for _ in range(5))
    finally:
        parent.send_signal(signal.SIGCONT)
    flows = ordeal.run(lambda: ordeal.kill("postgres"))
    assert [(flow.whole, words(flow)) for flow in flows] == [(True, ANSWER)] * len(flows)
    assert all(ordeal.serves() for _ in range(5))


def test_everything_killed_at_once_starts_again(ordeal: Ordeal) -> None:
    def kill_all() -> None:
        ordeal.instance.process.kill()
        for process in ordeal.instance.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        ordeal.instance.process.wait(10)

    flows = ordeal.run(kill_all)
    assert all(flow.broken for flow in flows)
    ordeal.restart()
    ordeal.settle()


def test_after_all_of_it_every_admitted_request_has_one_record(ordeal: Ordeal) -> None:
    admitted = ordeal.admitted
    assert len(admitted) > 120

    def rows() -> dict[str, str] | None:
        found = ordeal.house.records("request_id = ANY(%s)", list(admitted))
        return {row["request_id"]: row["outcome"] for row in found} if len(found) == len(admitted) else None

    outcomes = eventually(rows, 45)
    assert set(outcomes.values()) <= {"ok", "lost", "rejected", "client_error"}
    assert "lost" in outcomes.values()
    assert ordeal.house.records("outcome = ''") == []
    assert ordeal.house.redis.xlen("poolgate:records:dead") == 0
    assert eventually(lambda: ordeal.house.slots_in_use() == 0, 30)


def test_streams_have_time_to_end_when_it_is_told_to_stop(ordeal: Ordeal) -> None:
    flows = ordeal.run(lambda: ordeal.instance.process.send_signal(signal.SIGTERM), 4)
    assert [(flow.whole, words(flow)) for flow in flows] == [(True, ANSWER)] * len(flows)
    assert ordeal.instance.process.wait(30) == 0
    ordeal.restart()
    assert {ordeal.house.record(flow.request_id)["outcome"] for flow in flows} == {"ok"}


@pytest.mark.full
def test_a_stream_that_outlasts_the_time_to_end_is_told_in_band(ordeal: Ordeal) -> None:
    flows = ordeal.run(lambda: ordeal.instance.process.send_signal(signal.SIGTERM), 4, model="sim-slow-3000")
    for flow in flows:
        assert not flow.broken
        assert "shutting down" in str(flow.frames[-1])
        assert flow.ends == ([] if flow.path == CHAT else ["error"])
    assert ordeal.instance.process.wait(30) == 0
    ordeal.restart()
    records = [ordeal.house.record(flow.request_id) for flow in flows]
    assert {(record["outcome"], record["code"]) for record in records} == {("interrupted", "shutting_down")}
