"""The pipe against a real server, and against a scripted one where the server has to misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import hiredis
import pytest
import redis

from core.redis_pipe import Pipe, PipeDown, PipeError, Script, read_url


class ScriptedServer:
    """Answers as told, and remembers what it read: ``reads`` has one list of commands per read."""

    def __init__(self, answer: Callable[[list[bytes]], bytes]) -> None:
        self.answer = answer
        self.reads: list[list[list[bytes]]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = hiredis.Reader()
        while data := await reader.read(1 << 20):
            parser.feed(data)
            commands = []
            while (command := parser.gets()) is not False:
                commands.append(command)
            self.reads.append(commands)
            writer.write(b"".join(map(self.answer, commands)))
        writer.close()


def pong(command: list[bytes]) -> bytes:
    return b"+PONG\r\n" if command[0] == b"PING" else b"+OK\r\n"


@asynccontextmanager
async def unix_server(path: Path, answer: Callable[[list[bytes]], bytes]) -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer(answer)
    server = await asyncio.start_unix_server(scripted.serve, path)
    async with server:
        yield scripted


async def test_replies_meet_their_commands_when_many_are_sent_at_once(pipe: Pipe) -> None:
    replies = [pipe.send("ECHO", str(number)) for number in range(1000)]
    assert await asyncio.gather(*replies) == [str(number).encode() for number in range(1000)]


async def test_what_is_sent_in_one_turn_of_the_loop_leaves_in_one_write(tmp_path: Path) -> None:
    async with unix_server(tmp_path / "s", pong) as server:
        pipe = await Pipe.connect(f"unix://{tmp_path}/s")
        server.reads.clear()
        await asyncio.gather(*[pipe.send("PING") for _ in range(50)])
        await pipe.close()
    assert [len(commands) for commands in server.reads] == [50]


async def test_the_link_signs_in_and_chooses_its_database_before_anything_else(tmp_path: Path) -> None:
    async with unix_server(tmp_path / "s", pong) as server:
        pipe = await Pipe.connect(f"unix://me:s%40fe@{tmp_path}/s?db=7")
        await pipe.call("GET", "x")
        await pipe.close()
    sent = [command for commands in server.reads for command in commands]
    assert sent == [[b"AUTH", b"me", b"s@fe"], [b"SELECT", b"7"], [b"PING"], [b"GET", b"x"]]


async def test_a_refused_command_fails_alone(pipe: Pipe) -> None:
    await pipe.call("SET", "text", "words")
    before, wrong, after = pipe.send("GET", "text"), pipe.send("INCR", "text"), pipe.send("GET", "text")
    assert (await before, await after) == (b"words", b"words")
    with pytest.raises(PipeError, match="not an integer"):
        await wrong


async def test_a_caller_that_leaves_does_not_shift_the_replies(pipe: Pipe) -> None:
    replies = [pipe.send("ECHO", str(number)) for number in range(10)]
    replies[4].cancel()
    assert [await reply for reply in replies if reply is not replies[4]] == [b"%d" % n for n in range(10) if n != 4]


async def test_a_broken_link_fails_what_is_in_flight_and_heals(pipe: Pipe, redis_url: str) -> None:
    me = await pipe.call("CLIENT", "ID")
    held_up = pipe.send("BLPOP", "never", 30)
    await asyncio.sleep(0)  # it leaves
    with redis.Redis.from_url(redis_url) as client:
        client.client_kill_filter(_id=me)
    with pytest.raises(PipeDown):
        await held_up
    await _until(lambda: pipe.up)
    assert await pipe.call("PING") == b"PONG"


async def test_a_server_that_stops_answering_counts_as_a_broken_link(tmp_path: Path) -> None:
    async with unix_server(tmp_path / "s", lambda command: pong(command) if command[0] == b"PING" else b""):
        pipe = await Pipe.connect(f"unix://{tmp_path}/s", patience=0.05)
        started = asyncio.get_running_loop().time()
        with pytest.raises(PipeDown):
            await pipe.call("GET", "x")
        assert asyncio.get_running_loop().time() - started < 1
        await pipe.close()


async def test_a_slow_but_answering_server_keeps_its_link(tmp_path: Path) -> None:
    async with unix_server(tmp_path / "s", pong):
        pipe = await Pipe.connect(f"unix://{tmp_path}/s", patience=0.05)
        for _ in range(30):
            await pipe.call("PING")
            await asyncio.sleep(0.01)
        assert pipe.up
        await pipe.close()


async def test_a_full_line_refuses_at_once(redis_url: str) -> None:
    pipe = await Pipe.connect(redis_url, limit=3)
    taken = [pipe.send("PING") for _ in range(3)]
    with pytest.raises(PipeDown, match="in flight"):
        await pipe.send("PING")
    assert await asyncio.gather(*taken) == [b"PONG"] * 3
    await pipe.close()


async def test_sending_into_a_closed_pipe_fails(redis_url: str) -> None:
    pipe = await Pipe.connect(redis_url)
    waiting = pipe.send("PING")
    await pipe.close()
    with pytest.raises(PipeDown):
        await waiting
    with pytest.raises(PipeDown):
        await pipe.call("PING")


async def test_a_wrong_password_is_refused_without_being_told(redis_url: str) -> None:
    address = read_url(redis_url)
    with pytest.raises(PipeDown) as refusal:
        await Pipe.connect(f"redis://:notthisone@{address.host}:{address.port}/0")
    assert "notthisone" not in str(refusal.value)
    assert "notthisone" not in repr(refusal.value.__cause__)


async def test_an_unreachable_server_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(PipeDown):
        await Pipe.connect(f"unix://{tmp_path}/nobody")


async def test_a_script_the_server_never_saw_runs(pipe: Pipe) -> None:
    await pipe.call("SCRIPT", "FLUSH")
    script = Script("return {KEYS[1], ARGV[1]}")
    assert await pipe.run(script, ["key"], ["word"]) == [b"key", b"word"]
    assert await pipe.start(script, ["key"], ["word"]) == [b"key", b"word"]


async def test_learned_scripts_are_loaded_on_a_new_link(pipe: Pipe, redis_url: str) -> None:
    script = Script("return 'learned'")
    await pipe.learn(script)
    await pipe.call("SCRIPT", "FLUSH")
    with pytest.raises(PipeError, match="NOSCRIPT"):
        await pipe.start(script, [], [])
    me = await pipe.call("CLIENT", "ID")
    with redis.Redis.from_url(redis_url) as client:
        client.client_kill_filter(_id=me)
    while await _client_id(pipe) in (me, None):
        await _until(lambda: pipe.up)
    assert await pipe.start(script, [], []) == b"learned"


@pytest.mark.parametrize("url", ["http://127.0.0.1:6379", "localhost:6379", ""])
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="redis://"):
        read_url(url)


def test_an_address_does_not_show_its_password() -> None:
    address = read_url("rediss://user:secret@redis.example:6380/2")
    assert (address.host, address.port, address.tls, address.database) == ("redis.example", 6380, True, 2)
    assert "secret" not in repr(address)


async def _client_id(pipe: Pipe) -> int | None:
    try:
        number: int = await pipe.call("CLIENT", "ID")
        return number
    except PipeDown:
        return None


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.01)
