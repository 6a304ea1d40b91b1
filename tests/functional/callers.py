"""Callers as these tests need them: both protocols' bodies side by side, and a bare socket where a client library is
too polite."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from tests.plugins.house import House

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
PATHS = (CHAT, MESSAGES)
TIMEOUT = 45
"""Seconds; longer than a request may wait for a slot."""


def body_of(path: str, model: str = "sim-echo", text: str = "one two three", **fields: Any) -> dict[str, Any]:
    """A request that would be served, with ``fields`` on top."""
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}]}
    if path == MESSAGES:
        body["max_tokens"] = 2000
    return body | fields


def post(
    house: House, path: str, body: object, *, key: str | None = None, headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    """``body`` as JSON, or as it is when it is bytes. ``key`` "" sends none."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **(headers or {})}
    key = house.key if key is None else key
    if key:
        sent["authorization"] = f"Bearer {key}"
    return httpx2.post(house.url + path, content=content, headers=sent, timeout=TIMEOUT)


def ask(house: House, path: str, model: str, text: str = "one two three", **fields: Any) -> httpx2.Response:
    return post(house, path, body_of(path, model, text, **fields))


@contextmanager
def streaming(house: House, path: str, model: str, text: str = "one two three", **fields: Any) -> Iterator[Stream]:
    """A streamed answer; leaving early closes the connection."""
    headers = {"authorization": f"Bearer {house.key}"}
    body = body_of(path, model, text, stream=True, **fields)
    with httpx2.stream("POST", house.url + path, json=body, headers=headers, timeout=TIMEOUT) as answer:
        yield Stream(path, answer)


class Stream:
    """Frames of a streamed answer as they come: ``(event, data)``; a comment's event is ``:``."""

    def __init__(self, path: str, answer: httpx2.Response) -> None:
        self.path = path
        self.answer = answer
        self.request_id = answer.headers["x-request-id"]
        self._frames = self._read()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._frames

    def __next__(self) -> tuple[str, Any]:
        return next(self._frames)

    def _read(self) -> Iterator[tuple[str, Any]]:
        event = "message"
        for line in self.answer.iter_lines():
            if line.startswith(":"):
                yield ":", line[1:].strip()
            elif line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = line.removeprefix("data: ")
                yield event, data if data == "[DONE]" else json.loads(data)
                event = "message"

    def words(self) -> Iterator[str]:
        """The pieces of text in the answer."""
        for _, data in self:
            text = piece_of(self.path, data)
            if text:
                yield text


def piece_of(path: str, data: Any) -> str:
    """The text in one frame's data."""
    if not isinstance(data, dict):
        return ""
    if path == CHAT:
        choices = data.get("choices") or [{}]
        return choices[0].get("delta", {}).get("content") or ""
    return str(data.get("delta", {}).get("text", ""))


def text_of(path: str, answer: httpx2.Response) -> str:
    """The text of a whole answer."""
    assert answer.status_code == 200, answer.text
    body = answer.json()
    if path == CHAT:
        return str(body["choices"][0]["message"]["content"])
    return "".join(block.get("text", "") for block in body["content"])


def error_of(path: str, answer: httpx2.Response) -> dict[str, Any]:
    """The error inside the envelope that the protocol prescribes."""
    assert answer.headers["content-type"] == "application/json"
    return unwrap(path, answer.json(), answer.headers["x-request-id"])


def unwrap(path: str, body: dict[str, Any], request_id: str = "") -> dict[str, Any]:
    error: dict[str, Any] = body["error"]
    if path == CHAT:
        assert set(body) == {"error"}
        assert set(error) == {"message", "type", "param", "code"}
    else:
        assert body["type"] == "error"
        assert {"type", "message"} <= set(error)
        assert not request_id or body["request_id"] == request_id
    return error


class Wire:
    """A TCP connection to the house on which a test writes HTTP by hand."""

    def __init__(self, house: House, timeout: float = 10) -> None:
        address = urlsplit(house.url)
        self.socket = socket.create_connection((address.hostname or "", address.port or 0), timeout)
        self._house = house
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(
        self,
        path: str,
        body: bytes = b"",
        *,
        method: str = "POST",
        length: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A request; with the demo key unless ``headers`` hold one; ``length`` stands in for the body's true one."""
        lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
        headers = headers or {"authorization": f"Bearer {self._house.key}"}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"content-length: {len(body) if length is None else length}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return self

    def answer(self, method: str = "POST") -> tuple[int, dict[str, str], bytes]:
        """Status, headers (lower-case names) and body of the next answer."""
        reply = http.client.HTTPResponse(self.socket, method=method)
        reply.begin()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()

    def ended(self, seconds: float) -> bool:
        """Whether the other side closes the connection within ``seconds``."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True
