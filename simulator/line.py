"""The line to the client during one turn: what is sent, what has to be answered, and the heartbeats meanwhile.

A question that is never answered, or answered in the wrong shape, is never forgiven: the line stalls, with nothing
but heartbeats, until the client goes away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NoReturn, Protocol, TypeVar

from protobufs import agent_v1_pb2 as pb
from simulator import checks, messages
from simulator.causes import refusal
from simulator.reading import UNRESOLVED
from simulator.runs import Answer, Run

_FOREVER = 3600.0
Result = TypeVar("Result")


class Stream(Protocol):
    """Where a turn writes: the response of a face."""

    async def send(self, payload: bytes) -> None: ...

    def mix_gzip(self) -> None:
        """From now on every other frame is compressed, if the client takes that."""
        ...


class Line:
    """``heartbeat`` gives the present interval in seconds; tests shorten it while a turn runs."""

    def __init__(self, run: Run, stream: Stream, heartbeat: Callable[[], float]) -> None:
        self._run = run
        self._stream = stream
        self._heartbeat = heartbeat
        self._kv = self._exec = self._query = 0
        self._acks: list[asyncio.Future[Answer]] = []
        self._blobs: dict[bytes, bytes] = {}

    async def send(self, payload: bytes) -> None:
        await self._stream.send(payload)

    def mix_gzip(self) -> None:
        self._stream.mix_gzip()

    async def stall(self, *, heartbeats: bool = True) -> NoReturn:
        """Never returns; ends when the client goes away or cancels."""
        while True:
            await asyncio.sleep(self._heartbeat() if heartbeats else _FOREVER)
            self._run.check_cancelled()
            if heartbeats:
                await self._stream.send(messages.HEARTBEAT)

    async def sleep(self, seconds: float) -> None:
        """A pause in which the heart goes on beating."""
        while seconds > (beat := self._heartbeat()):
            await asyncio.sleep(beat)
            await self._stream.send(messages.HEARTBEAT)
            seconds -= beat
        await asyncio.sleep(seconds)
        self._run.check_cancelled()

    async def wait(self, future: asyncio.Future[Result]) -> Result:
        """The future's result; heartbeats until it is there."""
        while not future.done():
            done, _ = await asyncio.wait((future,), timeout=self._heartbeat())
            if not done:
                await self._stream.send(messages.HEARTBEAT)
        return future.result()

    # Blobs

    def know(self, blobs: Iterable[pb.PreFetchedBlob]) -> None:
        """Blobs that were sent ahead need not be asked for."""
        self._blobs.update((blob.id, blob.value) for blob in blobs)

    async def fetch(self, identifiers: Iterable[bytes]) -> dict[bytes, bytes]:
        """Blobs by id; the unknown ones are asked for, all before the first answer. Raises for one that is missing
        or does not hash to its id."""
        wanted = list(dict.fromkeys(identifiers))
        asked: dict[bytes, asyncio.Future[Answer]] = {}
        for identifier in wanted:
            if identifier not in self._blobs:
                self._kv += 1
                asked[identifier] = self._run.expect("kv", self._kv)
                await self._stream.send(messages.get_blob(self._kv, identifier))
        for identifier, future in asked.items():
            answer = await self.wait(future)
            if not isinstance(answer, pb.KvClientMessage) or not answer.HasField("get_blob_result"):
                await self.stall()
            if not answer.get_blob_result.HasField("blob_data"):
                raise refusal(f"{UNRESOLVED}: the client does not have a blob it refers to")
            checks.check_blob(identifier, answer.get_blob_result.blob_data)
            self._blobs[identifier] = answer.get_blob_result.blob_data
        return {identifier: self._blobs[identifier] for identifier in wanted}

    async def store(self, blobs: Iterable[bytes]) -> None:
        """Asks the client to store blobs; ``acknowledged`` waits for its word."""
        for data in blobs:
            self._kv += 1
            self._acks.append(self._run.expect("kv", self._kv))
            await self._stream.send(messages.set_blob(self._kv, data))

    async def acknowledged(self) -> None:
        """Waits until every store is acknowledged without an error."""
        for future in self._acks:
            answer = await self.wait(future)
            if not isinstance(answer, pb.KvClientMessage) or not answer.HasField("set_blob_result"):
                await self.stall()
            if answer.set_blob_result.HasField("error"):
                await self.stall()
        self._acks.clear()

    # Execs and questions

    async def order(self, message: pb.ExecServerMessage) -> asyncio.Future[Answer]:
        """Sends an exec under the next pair of ids; the future is its answer."""
        self._exec += 1
        message.id, message.exec_id = self._exec, f"e{self._exec}"
        future = self._run.expect("exec", self._exec)
        await self._stream.send(messages.execute(message))
        return future

    async def execute(self, message: pb.ExecServerMessage) -> Answer:
        """Sends an exec and waits for its answer, which has to repeat both ids."""
        return await self.take(message, await self.order(message))

    async def take(self, message: pb.ExecServerMessage, future: asyncio.Future[Answer]) -> Answer:
        """The answer to an exec that was ordered before."""
        answer = await self.wait(future)
        if isinstance(answer, pb.ExecClientMessage) and answer.exec_id != message.exec_id:
            await self.stall()
        return answer

    async def closed(self) -> None:
        """Waits for the stream_close that follows the last frame of a streamed result."""
        await self.wait(self._run.expect("close", self._exec))

    async def ask(self, kind: str) -> tuple[str, pb.InteractionResponse]:
        """Asks an approval question; the response has to have the member with the question's number."""
        self._query += 1
        future = self._run.expect("query", self._query)
        payload, number = messages.query(self._query, kind)
        await self._stream.send(payload)
        answer = await self.wait(future)
        member = answer.WhichOneof("result") if isinstance(answer, pb.InteractionResponse) else None
        if not isinstance(answer, pb.InteractionResponse) or member is None:
            await self.stall()
        if answer.DESCRIPTOR.fields_by_name[member].number != number:
            await self.stall()
        return member, answer
