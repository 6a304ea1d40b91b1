"""Requests of real clients, as they were recorded, sent again over a socket: method, path, query, every header in its
order and case, and the body. Only the key, the host and the length are ours."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

FOLDER = Path(__file__).parents[1] / "fixtures" / "clients"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
KEY_HEADERS = {"authorization": "Bearer {}", "x-api-key": "{}", "x-goog-api-key": "{}"}
FRAME = "WS"  # the method that a recorded frame of a WebSocket has


class Recorded(Struct):
    """``body`` is parsed JSON; None where the client sent none."""

    client: str
    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: dict[str, Any] | None

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def streams(self) -> bool:
        return ":stream" in self.path or bool((self.body or {}).get("stream"))


def load(name: str) -> Recorded:
    data = json.loads((FOLDER / f"{name}.json").read_text())
    headers = [(key, value) for key, value in data["headers"]]
    return Recorded(data["client"], data["method"], data["path"], data["query"], headers, data["body"])


def replay(url: str, key: str, recorded: Recorded, **changes: Any) -> httpx2.Response:
    """The answer; ``changes`` replace fields of the body."""
    address = urlsplit(url)
    content = b""
    if recorded.body is not None:
        content = json.dumps({**recorded.body, **changes}, ensure_ascii=False, separators=(",", ":")).encode()
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        connection.putrequest(recorded.method, recorded.target, skip_host=True, skip_accept_encoding=True)
        for name, value in _headers(recorded, address.netloc, key, len(content)):
            connection.putheader(name, value)
        connection.endheaders(content)
        reply = connection.getresponse()
        request = httpx2.Request(recorded.method, url + recorded.target)
        return httpx2.Response(reply.status, headers=reply.getheaders(), content=reply.read(), request=request)
    finally:
        connection.close()


def _headers(recorded: Recorded, host: str, key: str, length: int) -> list[tuple[str, str]]:
    ours = {"host": host, "content-length": str(length)}
    ours |= {name: form.format(key) for name, form in KEY_HEADERS.items()}
    return [(name, ours.get(name.lower(), value)) for name, value in recorded.headers]
