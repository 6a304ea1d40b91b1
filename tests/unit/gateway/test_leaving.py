"""A turn that is ended at every point at which it can be: whatever the moment, no slot is held, no run is open, and one
record tells what happened.

``serve`` is driven step by step. At its n-th suspension either the caller leaves or the process cancels the task; n
runs until the turn is through undisturbed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from accounts.leases import running_key, slots_key
from core.redis_pipe import Pipe
from gateway.ledger import Ledger
from ops.record import Record, decode
from ops.recorder import RECORDS, open_key
from tests.unit.gateway.call import Call


@pytest.fixture
async def ledger(pipe: Pipe) -> AsyncIterator[Ledger]:
    ledger = Ledger(pipe, "one", draws=lambda: 0.0)
    await ledger.start()
    yield ledger
    await ledger.stop()


async def records(pipe: Pipe) -> list[Record]:
    return [decode(fields[1]) for _, fields in await pipe.call("XRANGE", RECORDS, "-", "+")]


async def expect_nothing_held(pipe: Pipe, call: Call) -> None:
    assert call.upstream.open_runs == 0
    assert [await pipe.call("ZCARD", key) for key in (slots_key(1), slots_key(2), running_key("key", 7))] == [0, 0, 0]
    assert await pipe.call("HLEN", open_key("one")) == 0


async def steps_of_a_whole_turn(pipe: Pipe, ledger: Ledger, stream: bool) -> int:
    for _ in range(2):  # the first one of all has a step more: Redis is sent its scripts
        await pipe.call("FLUSHDB")
        call = Call(ledger, stream=stream)
        await call.run(0, Call.leave)
        assert call.upstream.asked == 2
    return call.steps


@pytest.mark.parametrize("stream", [True, False])
async def test_a_caller_that_leaves_at_any_step_leaves_nothing_behind(pipe: Pipe, ledger: Ledger, stream: bool) -> None:
    steps = await steps_of_a_whole_turn(pipe, ledger, stream)
    assert steps > 10
    outcomes = set()
    for at in range(1, steps + 1):
        await pipe.call("FLUSHDB")
        call = Call(ledger, stream=stream)
        await call.run(at, Call.leave)
        await ledger.drained()
        await expect_nothing_held(pipe, call)
        [record] = await records(pipe)
        outcomes.add(record.outcome)
        if record.outcome == "client_gone":
            assert (record.status, record.culprit) == (499, "caller")
    assert outcomes == {"client_gone", "ok"}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_cancellation_from_outside_at_any_step_is_told_and_passed_on(
    pipe: Pipe, ledger: Ledger, stream: bool
) -> None:
    steps = await steps_of_a_whole_turn(pipe, ledger, stream)
    for at in range(1, steps + 1):
        await pipe.call("FLUSHDB")
        call = Call(ledger, stream=stream)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(call.run(at, Call.cancel))
        await ledger.drained()
        await expect_nothing_held(pipe, call)
        [record] = await records(pipe)
        if record.outcome != "ok":  # else the answer was out already
            assert record.code == "shutting_down"
            if (
                stream or not call.sent or call.sent[-1]["type"] == "http.response.body"
            ):  # with the head of a whole answer out, all that is left is to hang up
                assert b"The gateway is shutting down." in call.sent[-1]["body"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_caller_that_does_not_take_the_end_of_its_answer_has_gone(
    pipe: Pipe, ledger: Ledger, stream: bool
) -> None:
    call = Call(ledger, stream=stream, idle_timeout=0.1)
    call.stuck_at = "end"
    await asyncio.wait_for(call.run(), 5)
    await ledger.drained()
    await expect_nothing_held(pipe, call)
    [record] = await records(pipe)
    assert (record.outcome, record.status) == ("client_gone", 499)


async def test_a_caller_that_takes_nothing_in_the_middle_has_gone(pipe: Pipe, ledger: Ledger) -> None:
    call = Call(ledger, stream=True, idle_timeout=0.1, keepalive_interval=0.05)
    call.stuck_at = "two"
    await asyncio.wait_for(call.run(), 5)
    await ledger.drained()
    await expect_nothing_held(pipe, call)
    [record] = await records(pipe)
    assert (record.outcome, record.committed) == ("client_gone", True)
