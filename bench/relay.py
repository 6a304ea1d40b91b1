"""The yardstick: the least that a Python process can do and still answer a Chat request over the Agent RPC.

uvicorn (uvloop, httptools), a raw ASGI function and a minimal HTTP client. A turn costs the same three upstream calls
as the gateway's: RunSSE, the run request, the answer to the context question. The key is looked up in a dict, the body
parsed, the frames decoded by the same protobuf classes and written as Chat chunks, joined per read. Nothing else: no
limits, no leases, no records, no failover, no checks, no other protocol. ``python -m bench.relay --upstream
http://127.0.0.1:PORT`` listens on a free port and prints it.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import socket
import struct
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import orjson
import uvicorn

from protobufs import agent_v1_pb2 as pb

KEY = "bench-relay-key"

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_KEYS = {hashlib.sha256(KEY.encode()).digest(): "upstream-token"}
_ENVELOPE = struct.Struct(">BI")


class Call(asyncio.Protocol):
    """One connection to the upstream, used for one call after the other."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._head = self._complete = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._wake()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        self._wake()

    def on_headers_complete(self) -> None:
        self._head = True

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self._complete = True

    async def post(self, head: bytes, body: bytes) -> None:
        """Sends a request and waits for the answer's head."""
        self._begin()
        if self._transport is None:
            raise ConnectionError("closed")
        self._transport.write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
        while not self._head:
            await self._wait()

    async def read(self) -> bytes:
        """What has come of the body; empty at its end."""
        while not self._pieces:
            if self._complete:
                return b""
            await self._wait()
        data, self._pieces = b"".join(self._pieces), []
        return data

    @property
    def usable(self) -> bool:
        return self._transport is not None and self._complete and not self._pieces

    async def _wait(self) -> None:
        if self._transport is None:
            raise ConnectionError("closed")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Upstream:
    """The connections to one address, and the two calls that a turn is made of."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._idle: list[Call] = []

    async def run(self, run_id: str, token: str) -> Call:
        """Opens the stream of a run."""
        payload = pb.BidiRequestId(request_id=run_id).SerializeToString()
        return await self._post(
            "/agent.v1.AgentService/RunSSE", "application/connect+proto", token,
            _ENVELOPE.pack(0, len(payload)) + payload,
        )  # fmt: skip

    async def append(self, run_id: str, number: int, message: pb.AgentClientMessage, token: str) -> None:
        request = pb.BidiAppendRequest(
            data=message.SerializeToString().hex(), request_id=pb.BidiRequestId(request_id=run_id), append_seqno=number
        )
        call = await self._post(
            "/aiserver.v1.BidiService/BidiAppend", "application/proto", token, request.SerializeToString()
        )
        while await call.read():
            pass
        self.keep(call)

    def keep(self, call: Call) -> None:
        if call.usable:
            self._idle.append(call)

    async def _post(self, path: str, kind: str, token: str, body: bytes) -> Call:
        call = self._idle.pop() if self._idle else await self._connect()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\nauthorization: Bearer {token}\r\n"
            f"content-type: {kind}\r\nconnect-protocol-version: 1\r\n"
        )
        await call.post(head.encode(), body)
        return call

    async def _connect(self) -> Call:
        _, call = await asyncio.get_running_loop().create_connection(Call, self._host, self._port)
        return call


def run_request(body: Message, run_id: str) -> pb.AgentClientMessage:
    """The Chat messages as the text of one user message."""
    message = pb.AgentClientMessage()
    run = message.run_request
    run.conversation_state.mode = pb.AGENT_MODE_ASK
    user = run.action.user_message_action
    user.request_context.SetInParent()
    user.user_message.text = "\n\n".join(item["content"] for item in body["messages"])
    user.user_message.message_id = run_id
    run.conversation_id = run_id
    run.requested_model.model_id = body["model"]
    return message


def context_answer(question: pb.ExecServerMessage) -> pb.AgentClientMessage:
    message = pb.AgentClientMessage()
    answer = message.exec_client_message
    answer.id, answer.exec_id = question.id, question.exec_id
    answer.request_context_result.success.request_context.env.os_version = "linux"
    return message


class Frames:
    """Bytes in, server messages out."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Iterator[pb.AgentServerMessage]:
        data = self._held + data if self._held else data
        start = 0
        while len(data) - start >= 5:
            flags, length = _ENVELOPE.unpack_from(data, start)
            stop = start + 5 + length
            if stop > len(data):
                break
            if not flags & 2:
                yield pb.AgentServerMessage.FromString(data[start + 5 : stop])
            start = stop
        self._held = data[start:]


class Relay:
    """The ASGI application."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        key = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        token = _KEYS.get(hashlib.sha256(key).digest())
        body = orjson.loads(await _read(receive))
        if token is None or scope["path"] != "/v1/chat/completions":
            await _respond(send, 401, {"error": {"message": "no"}})
        elif body.get("stream"):
            await self._stream(body, token, send)
        else:
            await self._whole(body, token, send)

    async def _stream(self, body: Message, token: str, send: Send) -> None:
        run_id = str(uuid.uuid4())
        base = {"id": f"chatcmpl-{run_id}", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
        before = b"data: " + orjson.dumps(base)[:-1] + b',"choices":[{"index":0,"delta":'
        after = b',"finish_reason":null}]}\n\n'
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        first = before + b'{"role":"assistant","content":""}' + after
        async for texts, usage in self._turn(body, run_id, token):
            pieces = [first] if first else []
            first = b""
            pieces += [before + b'{"content":' + orjson.dumps(text) + b"}" + after for text in texts]
            if usage is not None:
                pieces.append(before + b'{},"finish_reason":"stop"}]}\n\n')
                base |= {"choices": [], "usage": _usage(usage)}
                pieces += [b"data: " + orjson.dumps(base) + b"\n\n", b"data: [DONE]\n\n"]
            await send({"type": "http.response.body", "body": b"".join(pieces), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, body: Message, token: str, send: Send) -> None:
        run_id = str(uuid.uuid4())
        pieces: list[str] = []
        counted = pb.TurnEndedUpdate()
        async for texts, usage in self._turn(body, run_id, token):
            pieces += texts
            counted = usage or counted
        message = {"role": "assistant", "content": "".join(pieces)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {"id": f"chatcmpl-{run_id}", "object": "chat.completion", "created": 0, "model": body["model"]}
        await _respond(send, 200, {**answer, "choices": [choice], "usage": _usage(counted)})

    async def _turn(self, body: Message, run_id: str, token: str) -> Any:
        """The texts of each read, and the usage with the last."""
        upstream, frames = self._upstream, Frames()
        call = await upstream.run(run_id, token)
        await upstream.append(run_id, 0, run_request(body, run_id), token)
        while data := await call.read():
            texts: list[str] = []
            usage = None
            for message in frames.feed(data):
                update = message.interaction_update
                if text := update.text_delta.text:
                    texts.append(text)
                elif message.HasField("exec_server_message"):
                    await upstream.append(run_id, 1, context_answer(message.exec_server_message), token)
                elif update.HasField("turn_ended"):
                    usage = update.turn_ended
            if texts or usage is not None:
                yield texts, usage
        upstream.keep(call)


def _usage(usage: pb.TurnEndedUpdate) -> Message:
    total = usage.input_tokens + usage.output_tokens
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total}


async def _read(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _respond(send: Send, status: int, answer: Message) -> None:
    body = orjson.dumps(answer)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True, help="address of the mock, e.g. http://127.0.0.1:9100")
    upstream = Upstream(parser.parse_args().upstream)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(
            Relay(upstream), loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="warning"
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
