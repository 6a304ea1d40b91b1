from __future__ import annotations

import asyncio

from core.redis_pipe import Pipe
from gateway import refusals
from gateway.refusals import ask, fingerprint, hear
from ir.errors import Reason

MEMORY = 30.0


def test_a_request_is_the_same_only_for_its_team_its_path_and_its_body() -> None:
    key = fingerprint(1, "/v1/chat/completions", b"{}")
    assert key == fingerprint(1, "/v1/chat/completions", b"{}")
    others = {fingerprint(2, "/v1/chat/completions", b"{}"), fingerprint(1, "/v1/messages", b"{}"),
              fingerprint(1, "/v1/chat/completions", b"{ }")}  # fmt: skip
    assert len(others | {key}) == 4


def test_a_name_tells_nothing_of_the_body() -> None:
    assert b"secret".hex() not in fingerprint(1, "/", b"secret")
    assert len(fingerprint(1, "/", b"x" * 10_000_000)) == len("poolgate:refused:") + 32


async def test_a_refusal_is_remembered_until_its_time_is_over(pipe: Pipe) -> None:
    key = fingerprint(1, "/", b"{}")
    assert await hear(ask(pipe, key), 100.0, MEMORY) is None
    await refusals.remember(pipe, key, Reason.QUOTA, 100.0, MEMORY)
    found = await hear(ask(pipe, key), 112.5, MEMORY)
    assert found is not None
    assert (found.reason, found.seconds, found.fault.retry_after) == (Reason.QUOTA, 17.5, 17.5)
    assert 0 < await pipe.call("PTTL", key) <= MEMORY * 1000


async def test_clocks_that_disagree_never_make_a_wait_longer_than_the_memory(pipe: Pipe) -> None:
    key = fingerprint(1, "/", b"{}")
    await refusals.remember(pipe, key, Reason.QUOTA, 500.0, MEMORY)
    early, late = [await hear(ask(pipe, key), now, MEMORY) for now in (100.0, 900.0)]
    assert early is not None
    assert late is not None
    assert (early.seconds, late.seconds) == (MEMORY, 1.0)


async def test_a_refusal_is_forgotten_when_its_time_is_over(pipe: Pipe) -> None:
    key = fingerprint(1, "/", b"{}")
    await refusals.remember(pipe, key, Reason.QUOTA, 100.0, 0.05)
    assert await hear(ask(pipe, key), 100.0, 0.05) is not None
    await asyncio.sleep(0.08)
    assert await hear(ask(pipe, key), 100.0, 0.05) is None
