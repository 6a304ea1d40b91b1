from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from accounts.compile import AccountKind, AccountView, Transport
from accounts.knowledge import served_since
from accounts.leases import Caller, Lease, Refused, Shortage, cooldowns_key, held_key, slots_key
from core.redis_pipe import Argument, Pipe, read_url
from gateway import ledger as ledger_module
from gateway.ledger import Entry, Ledger
from ir.errors import ApiError, Kind
from ops.record import Outcome, Record, decode
from ops.recorder import RECORDS, alive_key, open_key


def account(number: int, slots: int = 1) -> AccountView:
    return AccountView(
        number, f"a{number}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset({1}), number,
        slots=slots,
    )  # fmt: skip


def record(request_id: str) -> Record:
    return Record(request_id=request_id, started_at=1_700_000_000.25, protocol="chat", endpoint="/v1/chat/completions")


class Cable:
    """A wire to Redis that can be pulled out and put back."""

    def __init__(self, url: str, path: Path) -> None:
        self._target = read_url(url)
        self._path = path
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self.url = f"unix://:{self._target.password}@{path}?db={self._target.database}"

    async def plug(self) -> None:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def pull(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        if self._pumps:
            await asyncio.wait(self._pumps)
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._target.host, self._target.port)
        self._writers += [writer, far_writer]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        except ConnectionError:
            pass
        sink.close()


@pytest.fixture
async def ledger(pipe: Pipe) -> AsyncIterator[Ledger]:
    ledger = Ledger(pipe, "one", draws=lambda: 0.0)
    await ledger.start()
    yield ledger
    await ledger.stop()


@pytest.fixture
async def cable(redis_url: str, tmp_path: Path) -> AsyncIterator[Cable]:
    cable = Cable(redis_url, tmp_path / "redis.sock")
    await cable.plug()
    yield cable
    await cable.pull()


async def taken(entry: Entry, *accounts: AccountView) -> Lease:
    lease = await entry.take(accounts, "m")
    assert isinstance(lease, Lease)
    return lease


async def records(pipe: Pipe) -> list[Record]:
    return [decode(fields[1]) for _, fields in await pipe.call("XRANGE", RECORDS, "-", "+")]


async def leftovers(pipe: Pipe, process: str = "one") -> list[int]:
    return [await pipe.call("EXISTS", key) for key in (open_key(process), held_key(process), slots_key(1))]


def shortage(answer: Lease | Refused) -> Shortage | None:
    return answer.shortage if isinstance(answer, Refused) else None


async def test_a_request_is_open_while_it_runs_and_filed_once_when_it_ends(ledger: Ledger, pipe: Pipe) -> None:
    entry = ledger.admit(record("r1"))
    await taken(entry, account(1))
    kept = await pipe.call("HGET", open_key("one"), "r1")
    assert decode(kept).process == "one"
    entry.record.outcome, entry.record.status = Outcome.OK, 200
    await entry.close()
    await entry.close()
    assert ledger.slots.loads() == {1: 0}
    assert [(item.request_id, item.outcome, item.status) for item in await records(pipe)] == [("r1", "ok", 200)]
    assert await leftovers(pipe) == [0, 0, 0]


async def test_a_request_costs_one_round_trip_before_and_one_after(
    ledger: Ledger, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Argument] = []
    send = Pipe.send

    def counted(self: Pipe, *args: Argument) -> asyncio.Future[Any]:
        sent.append(args[0])
        return send(self, *args)

    monkeypatch.setattr(Pipe, "send", counted)
    entry = ledger.admit(record("r1"))
    await taken(entry, account(1))
    assert sent == ["HSET", "EVALSHA"]  # in one write: see the pipe's tests
    entry.bindings = [("SET", "poolgate:sticky:7-ab", "1|5|5")]
    await entry.close()
    assert sent[2:] == ["EVALSHA", "SET"]  # in one write, too
    assert await pipe.call("GET", "poolgate:sticky:7-ab") == b"1|5|5"


async def test_a_request_that_never_got_a_slot_is_filed_too(ledger: Ledger, pipe: Pipe) -> None:
    entry = ledger.admit(record("r1"))
    await entry.close()
    assert len(await records(pipe)) == 1
    assert await leftovers(pipe) == [0, 0, 0]


async def test_switching_gives_the_first_account_back(ledger: Ledger, pipe: Pipe) -> None:
    entry = ledger.admit(record("r1"))
    first = await taken(entry, account(1), account(2))
    second = await entry.take([account(1), account(2)], "m", exclude={first.account.id})
    assert isinstance(second, Lease)
    assert {first.account.id, second.account.id} == {1, 2}
    assert await pipe.call("ZCARD", slots_key(first.account.id)) == 0
    assert await pipe.call("ZCARD", slots_key(second.account.id)) == 1
    await entry.close()


async def test_an_account_given_back_is_free_before_the_request_ends(ledger: Ledger) -> None:
    entry, other = ledger.admit(record("r1")), ledger.admit(record("r2"))
    await taken(entry, account(1))
    entry.give_back()
    entry.give_back()
    await taken(other, account(1))
    await entry.close()
    assert shortage(await ledger.admit(record("r3")).take([account(1)], "m")) is Shortage.FULL
    await other.close()


async def test_waiting_gets_the_slot_that_another_request_gives_back(ledger: Ledger) -> None:
    entry, other = ledger.admit(record("r1")), ledger.admit(record("r2"))
    await taken(entry, account(1))
    waiting = asyncio.create_task(other.take([account(1)], "m", wait=5))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await entry.close()
    assert isinstance(await waiting, Lease)
    await other.close()


async def test_waiting_ends_in_time_when_no_slot_comes_free(ledger: Ledger) -> None:
    entry, other = ledger.admit(record("r1")), ledger.admit(record("r2"))
    await taken(entry, account(1))
    started = asyncio.get_running_loop().time()
    assert shortage(await other.take([account(1)], "m", wait=0.1)) is Shortage.FULL
    assert 0.09 < asyncio.get_running_loop().time() - started < 1
    await entry.close()
    await other.close()


async def test_nobody_waits_for_a_rest_that_is_too_long_or_for_the_callers_own_limit(
    ledger: Ledger, pipe: Pipe
) -> None:
    clock = await pipe.call("TIME")
    await pipe.call("HSET", cooldowns_key(1), "*", (int(clock[0]) + 60) * 1000)
    entry, other = ledger.admit(record("r1")), ledger.admit(record("r2"))
    async with asyncio.timeout(1):
        for _ in range(2):  # the second time the cooldown is known to this process, and still measured
            answer = await entry.take([account(1)], "m", wait=30)
            assert isinstance(answer, Refused)
            assert answer.shortage is Shortage.COOLED
            assert answer.soonest is not None
            assert answer.soonest > 50
        await entry.take([account(2)], "m", caller=Caller(1, 1))
        busy = await other.take([account(3)], "m", caller=Caller(1, 1), wait=30)
    assert busy == Refused(Shortage.KEY_BUSY)
    await entry.close()
    await other.close()


@pytest.mark.parametrize("steps", range(14))
async def test_a_cancelled_request_leaves_one_record_and_no_slot(ledger: Ledger, pipe: Pipe, steps: int) -> None:
    async def serve() -> None:
        entry = ledger.admit(record("r1"))
        try:
            await taken(entry, account(1), account(2))
            await entry.take([account(1), account(2)], "m", exclude={1})
            await asyncio.sleep(30)
        finally:
            await entry.close()

    task = asyncio.create_task(serve())
    await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0.0004)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # and once more while it closes
    await asyncio.wait([task])
    assert task.cancelled()
    assert await ledger.drained()
    assert [item.request_id for item in await records(pipe)] == ["r1"]
    assert await leftovers(pipe) == [0, 0, 0]
    assert await pipe.call("EXISTS", slots_key(2)) == 0


async def test_without_redis_new_requests_are_refused_and_running_ones_are_filed_later(
    cable: Cable, pipe: Pipe
) -> None:
    behind = await Pipe.connect(cable.url)
    ledger = Ledger(behind, "two")
    await ledger.start()
    running = ledger.admit(record("running"))
    await taken(running, account(1))
    await cable.pull()
    refused = ledger.admit(record("refused"))
    with pytest.raises(ApiError) as refusal:
        await refused.take([account(2)], "m")
    assert (refusal.value.kind, refusal.value.code) == (Kind.NO_CAPACITY, "state_unavailable")
    async with asyncio.timeout(1):  # closing does not wait for Redis to come back
        await refused.close()
        await running.close()
    assert not await ledger.drained(wait=0.05)
    await cable.plug()
    assert await ledger.drained()
    assert sorted(item.request_id for item in await records(pipe)) == ["refused", "running"]
    assert await leftovers(pipe, "two") == [0, 0, 0]
    await ledger.stop()
    await behind.close()


async def test_a_record_is_filed_although_the_server_forgot_the_script(ledger: Ledger, pipe: Pipe) -> None:
    entry = ledger.admit(record("r1"))
    await taken(entry, account(1))
    await pipe.call("SCRIPT", "FLUSH")
    await entry.close()
    assert await ledger.drained()
    assert len(await records(pipe)) == 1
    assert await leftovers(pipe) == [0, 0, 0]


async def test_the_beat_shows_life_and_renews_what_runs(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "BEAT_EVERY", 0.02)
    ledger = Ledger(pipe, "one")
    await ledger.start()
    entry = ledger.admit(record("r1"))
    await entry.take([account(1)], "m", life=0.2)
    await pipe.call("PEXPIRE", alive_key("one"), 100)
    await asyncio.sleep(0.4)
    assert await pipe.call("EXISTS", alive_key("one")) == 1
    assert shortage(await ledger.admit(record("r2")).take([account(1)], "m", life=0.2)) is Shortage.FULL
    await entry.close()
    await ledger.stop()
    assert await pipe.call("EXISTS", alive_key("one")) == 0


async def test_the_beat_tells_which_accounts_have_answered_well(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "BEAT_EVERY", 0.02)
    ledger = Ledger(pipe, "one")
    await ledger.start()
    for number, outcome in ((1, Outcome.OK), (2, Outcome.UPSTREAM_ERROR)):
        entry = ledger.admit(record(f"r{number}"))
        await entry.take([account(number)], "m")
        entry.record.outcome = outcome
        await entry.close()
    await asyncio.sleep(0.2)
    assert await served_since(pipe, time.time() - 10) == {1}
    await ledger.stop()


async def test_a_request_that_was_dropped_without_closing_is_not_renewed_for_ever(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "BEAT_EVERY", 0.02)
    ledger = Ledger(pipe, "one")
    await ledger.start()
    await ledger.admit(record("r1")).take([account(1)], "m", life=0.1)
    await asyncio.sleep(0.15)
    await taken(ledger.admit(record("r2")), account(1))
    await ledger.stop()
