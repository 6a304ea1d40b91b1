"""One multiplexed Redis connection per process, for the hot path.

Whatever is sent within one turn of the event loop leaves in one write, and replies are matched by order, so that a
hundred requests at once cost a handful of system calls. Sending never waits: ``send`` puts the command in line and
hands back a future; commands of one process reach the server in the order in which they were sent. There is no
pub/sub, no blocking command and no MULTI here (atomic steps are scripts): any of them would stop the line.

When the link breaks, everything in flight fails with ``PipeDown`` (the server may or may not have acted: callers must
be idempotent), sends fail at once, and the link is made again with back-off. A server that stops answering counts as
a broken link. Everything else in the house that needs Redis uses redis-py.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis
from msgspec import Struct

Argument = str | bytes | int | float

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class PipeDown(ConnectionError):
    """There is no link, it broke before the reply came, or the line is full."""


class PipeError(Exception):
    """The server refused the command. The text is the server's: code first (``NOSCRIPT …``)."""


class Script:
    """A Lua script and its digest, by which the server knows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class Address(Struct, frozen=True):
    """Where the server is: ``path`` for a unix socket, else host and port."""

    host: str = "127.0.0.1"
    port: int = 6379
    path: str = ""
    tls: bool = False
    username: str = ""
    password: str = ""
    database: int = 0

    def __repr__(self) -> str:
        return f"Address({self.path or f'{self.host}:{self.port}'}/{self.database})"


def read_url(url: str) -> Address:
    """``redis://``, ``rediss://`` or ``unix://`` (``?db=``). Raises ``ValueError`` for anything else."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError("a Redis address starts with redis://, rediss:// or unix://")
    database = parse_qs(parts.query).get("db", [parts.path.strip("/") if parts.scheme != "unix" else ""])[0]
    return Address(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 6379,
        path=parts.path if parts.scheme == "unix" else "",
        tls=parts.scheme == "rediss",
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=int(database or 0),
    )


class Pipe:
    """``patience`` (seconds) bounds connecting and, once to twice over, the wait for a reply; ``limit`` is the most
    commands in flight."""

    def __init__(self, address: Address, *, patience: float = 5.0, limit: int = 20_000) -> None:
        self._address = address
        self._patience = patience
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._link: _Link | None = None
        self._healing: asyncio.Task[None] | None = None
        self._closed = False
        self._scripts: list[Script] = []

    @classmethod
    async def connect(cls, url: str, *, patience: float = 5.0, limit: int = 20_000) -> Pipe:
        """Raises ``PipeDown`` when the server cannot be reached or refuses us."""
        pipe = cls(read_url(url), patience=patience, limit=limit)
        await pipe._open()
        return pipe

    @property
    def up(self) -> bool:
        return self._link is not None

    def send(self, *args: Argument) -> asyncio.Future[Any]:
        """The reply to come. A future that nobody awaits may fail unheard: that is the sender's choice."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        link = self._link
        if link is None:
            _fail(reply, PipeDown("no link to Redis"))
        elif len(link.waiting) >= self._limit:
            _fail(reply, PipeDown("too many commands in flight"))
        else:
            link.push(args, reply)
        return reply

    async def call(self, *args: Argument) -> Any:
        """Raises ``PipeDown`` or ``PipeError``."""
        return await self.send(*args)

    async def learn(self, *scripts: Script) -> None:
        """Loads scripts into the server, now and on every new link. Raises ``PipeDown`` or ``PipeError``."""
        self._scripts += [script for script in scripts if script not in self._scripts]
        for script in scripts:
            await self.call("SCRIPT", "LOAD", script.text)

    def start(self, script: Script, keys: Sequence[str], args: Sequence[Argument]) -> asyncio.Future[Any]:
        """Runs a script that the server was taught; a ``PipeError`` saying NOSCRIPT tells that it forgot it since."""
        return self.send("EVALSHA", script.sha, len(keys), *keys, *args)

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Runs a script, loading it where the server has forgotten it. Raises ``PipeDown`` or ``PipeError``."""
        try:
            return await self.start(script, keys, args)
        except PipeError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        return await self.send("EVAL", script.text, len(keys), *keys, *args)

    async def close(self) -> None:
        """Fails what is in flight and stays closed."""
        self._closed = True
        if self._healing is not None:
            self._healing.cancel()
            await asyncio.wait([self._healing])
        if self._link is not None:
            await self._link.close()

    async def _open(self) -> None:
        address = self._address
        link = _Link(self, self._loop, self._patience)
        try:
            async with asyncio.timeout(self._patience):
                if address.path:
                    await self._loop.create_unix_connection(lambda: link, address.path)
                else:
                    await self._loop.create_connection(
                        lambda: link, address.host, address.port, ssl=True if address.tls else None
                    )
                await self._greet(link)
        except (OSError, TimeoutError, PipeError) as error:
            await link.close()
            raise PipeDown(f"Redis at {address!r}: {type(error).__name__}") from error
        except asyncio.CancelledError:
            await link.close()
            raise
        self._link = link

    async def _greet(self, link: _Link) -> None:
        address = self._address
        if address.password:
            user = (address.username,) if address.username else ()
            await link.ask("AUTH", *user, address.password)
        if address.database:
            await link.ask("SELECT", address.database)
        await link.ask("PING")
        for script in self._scripts:
            await link.ask("SCRIPT", "LOAD", script.text)

    def lost(self, link: _Link) -> None:
        """The link tells that it broke; one that never came up is its opener's business."""
        if link is self._link:
            self._link = None
            if not self._closed:
                self._healing = self._loop.create_task(self._heal())

    async def _heal(self) -> None:
        pause = FIRST_PAUSE
        while self._link is None:
            try:
                await self._open()
            except PipeDown:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)


class _Link(asyncio.Protocol):
    """One connection: what is in flight, in order, and what goes out at the end of this turn of the loop."""

    def __init__(self, pipe: Pipe, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self.waiting: deque[asyncio.Future[Any]] = deque()
        self._pipe = pipe
        self._loop = loop
        self._patience = patience
        self._out: list[bytes] = []
        self._nothing = object()
        self._reader = hiredis.Reader(replyError=PipeError, notEnoughData=self._nothing)
        self._transport: asyncio.Transport | None = None
        self._oldest: asyncio.Future[Any] | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] = loop.create_future()

    def push(self, args: tuple[Argument, ...], reply: asyncio.Future[Any]) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(args))  # type: ignore[arg-type]  # its stub knows one-word commands only
        self.waiting.append(reply)

    def ask(self, *args: Argument) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = self._loop.create_future()
        self.push(args, reply)
        return reply

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            await self._gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is none by inheritance
        self._watch = self._loop.call_later(self._patience, self._look)

    def data_received(self, data: bytes) -> None:
        reader, waiting, nothing = self._reader, self.waiting, self._nothing
        reader.feed(data)
        while (answer := reader.gets()) is not nothing:
            reply = waiting.popleft()
            if reply.done():
                continue  # whoever asked was cancelled
            if isinstance(answer, PipeError):
                _fail(reply, answer)
            else:
                reply.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._transport = None
        self._gone.set_result(None)
        self._pipe.lost(self)  # first, so that whoever wakes up below finds the pipe down
        while self.waiting:
            reply = self.waiting.popleft()
            if not reply.done():
                _fail(reply, PipeDown("the link to Redis broke"))

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def _look(self) -> None:
        oldest = self.waiting[0] if self.waiting else None
        if oldest is not None and oldest is self._oldest and self._transport is not None:
            self._transport.abort()
            return
        self._oldest = oldest
        self._watch = self._loop.call_later(self._patience, self._look)


def _fail(reply: asyncio.Future[Any], error: Exception) -> None:
    reply.set_exception(error)
    reply.exception()  # marks it as heard: a fire-and-forget sender is not told twice
