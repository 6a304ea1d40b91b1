from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protobufs import agent_v1_pb2 as pb
from simulator.causes import Failure
from simulator.journal import Journal
from simulator.runs import ABANDONED_SECONDS, ENDED_KEPT, Run, Runs

HEARTBEAT = pb.AgentClientMessage(client_heartbeat=pb.ClientHeartbeat())


def _run(name: str = "r", time: float = 0.0) -> Run:
    return Run(name, "alpha", Journal().open(time, "run_sse", "alpha", {}))


def _numbered(number: int) -> pb.AgentClientMessage:
    return pb.AgentClientMessage(kv_client_message=pb.KvClientMessage(id=number))


def _append(run: Run, *seqnos: int) -> list[int]:
    acted: list[int] = []
    for seqno in seqnos:
        acted += [one.kv_client_message.id for one in run.append(seqno, _numbered(seqno))]
    return acted


@given(st.sampled_from([0, 1]), st.lists(st.integers(0, 12), max_size=40))
async def test_appends_act_once_and_in_order_however_they_arrive(base: int, noise: list[int]) -> None:
    run = _run()
    arriving = [base, *(base + one for one in noise)]
    acted = _append(run, *arriving)
    assert acted == list(range(base, base + len(acted)))
    missing = next(number for number in range(base, base + 50) if number not in arriving)
    assert len(acted) == missing - base
    assert run.entry.duplicates == len(arriving) - len(set(arriving))


async def test_the_first_number_seen_is_the_base_and_lower_ones_are_stale() -> None:
    run = _run()
    assert _append(run, 1, 0, 2) == [1, 2]
    assert run.entry.duplicates == 1


async def test_a_number_that_comes_early_waits_for_those_before_it() -> None:
    run = _run()
    assert _append(run, 3, 2) == []
    assert _append(run, 0) == [0]
    assert _append(run, 1) == [1, 2, 3]


async def test_a_first_message_that_is_no_run_request_is_refused() -> None:
    run = _run()
    run.deliver(HEARTBEAT)
    with pytest.raises(Failure, match="not a run_request"):
        await run.request


async def test_a_second_run_request_ends_the_run() -> None:
    run = _run()
    request = pb.AgentClientMessage(run_request=pb.AgentRunRequest(conversation_id="c"))
    run.deliver(request)
    run.deliver(request)
    with pytest.raises(Failure, match="second run_request"):
        run.check_cancelled()


async def test_a_cancel_action_reaches_whoever_waits_now_or_later() -> None:
    run = _run()
    run.deliver(pb.AgentClientMessage(run_request=pb.AgentRunRequest()))
    waiting = run.expect("kv", 1)
    cancel = pb.ConversationAction(cancel_action=pb.CancelAction())
    run.deliver(pb.AgentClientMessage(conversation_action=cancel))
    with pytest.raises(Failure, match="aborted"):
        await waiting
    with pytest.raises(Failure, match="aborted"):
        await run.expect("kv", 2)


async def test_an_answer_nobody_waits_for_changes_nothing() -> None:
    run = _run()
    run.deliver(pb.AgentClientMessage(run_request=pb.AgentRunRequest()))
    future = run.expect("kv", 1)
    run.deliver(_numbered(2))
    assert not future.done()


async def test_only_runs_that_are_over_or_abandoned_are_forgotten() -> None:
    runs = Runs()
    live, abandoned = _run("live"), _run("abandoned")
    live.attached = True
    runs.add(live, 0.0)
    runs.add(abandoned, 0.0)
    for number in range(ENDED_KEPT + 1):
        ended = _run(str(number))
        ended.ended = True
        runs.add(ended, ABANDONED_SECONDS + 1)
    assert runs.get("live") is live
    assert runs.get("abandoned") is None
    assert runs.get(str(ENDED_KEPT)) is not None
