from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter

import pytest
from django.conf import LazySettings

from accounts.compile import AccountKind, AccountView, Transport
from core.encryption import seal
from core.redis_pipe import Pipe
from gateway.upstreams.leftovers import LIST, WEEK, Leftovers, sweep
from tests.unit.gateway.upstreams.loopback import read_request, serving

NOW = 1_800_000_000.0


class Api:
    """Answers each deletion with ``status``, and keeps what was asked."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[str] = []
        self.bearers: set[str] = set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        head, _ = await read_request(reader)
        lines = head.decode().split("\r\n")
        self.asked.append(lines[0].removesuffix(" HTTP/1.1"))
        self.bearers |= {line.partition(": ")[2] for line in lines if line.lower().startswith("authorization")}
        writer.write(f"HTTP/1.1 {self.status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}".encode())
        await writer.drain()


async def swept(pipe: Pipe, settings: LazySettings, api: Api, now: float = NOW) -> int:
    async with serving(api.serve) as (_, port):
        settings.POOLGATE_UPSTREAM_HOSTS = [f"127.0.0.1:{port}"]
        account = AccountView(
            1, "a1", AccountKind.CURSOR, Transport.CLOUD_AGENTS, f"http://127.0.0.1:{port}", frozenset(), 7
        )
        return await sweep(pipe, [account], {7: seal("crsr_key")}, now)


async def kept(pipe: Pipe) -> list[str]:
    return sorted(name.decode() for name in (await pipe.call("HGETALL", LIST))[::2])


@pytest.fixture
async def listed(pipe: Pipe) -> Leftovers:
    await pipe.call("DEL", LIST)
    return Leftovers(pipe, now=lambda: NOW)


async def test_an_agent_is_the_sweeps_only_when_nobody_looks_after_it(
    pipe: Pipe, listed: Leftovers, settings: LazySettings
) -> None:
    listed.note("bc-running", 1, 900)
    listed.note("bc-gone", 1, 900)
    listed.forget("bc-gone")
    listed.note("bc-left", 1, 900)
    listed.give_up("bc-left", 1)
    api = Api()
    assert await swept(pipe, settings, api) == 1
    assert api.asked == ["DELETE /v1/agents/bc-left"]
    assert api.bearers == {"Bearer crsr_key"}
    assert await kept(pipe) == ["bc-running"]
    assert await swept(pipe, settings, api, NOW + 901) == 1
    assert await kept(pipe) == []


@pytest.mark.parametrize(("status", "gone"), [(200, 1), (204, 1), (404, 1), (401, 0), (500, 0), (302, 0)])
async def test_an_agent_leaves_the_list_when_it_is_not_there_any_more(
    pipe: Pipe, listed: Leftovers, settings: LazySettings, status: int, gone: int
) -> None:
    listed.give_up("bc-left", 1)
    assert await swept(pipe, settings, Api(status)) == gone
    assert len(await kept(pipe)) == 1 - gone


async def test_after_a_week_an_agent_is_given_up(pipe: Pipe, listed: Leftovers, settings: LazySettings) -> None:
    listed.give_up("bc-left", 1)
    assert await swept(pipe, settings, Api(500), NOW + WEEK + 1) == 1
    assert await kept(pipe) == []


async def test_an_agent_of_an_account_that_is_gone_is_nobodys(
    pipe: Pipe, listed: Leftovers, settings: LazySettings
) -> None:
    listed.give_up("bc-left", 99)
    api = Api()
    assert await swept(pipe, settings, api) == 1
    assert (api.asked, await kept(pipe)) == ([], [])


async def test_a_list_that_cannot_be_written_fails_nobody(pipe: Pipe) -> None:
    await pipe.close()
    Leftovers(pipe).note("bc-1", 1, 900)
    await asyncio.sleep(0)
