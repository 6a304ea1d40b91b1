"""A plain caller of the Gemini endpoints that reads answers strictly, and the whole product with their gate open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import orjson
import pytest

from tests.gemini import HI
from tests.plugins.house import House


class Google:
    """A caller of the Gemini endpoints without an SDK."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.http = httpx2.Client(base_url=house.url, timeout=30, trust_env=False)
        self.key = {"x-goog-api-key": house.key}

    def post(self, path: str, body: object = None, headers: dict[str, str] | None = None) -> httpx2.Response:
        sent = {"contents": HI} if body is None else body
        return self.http.post(path, json=sent, headers=self.key if headers is None else headers)

    def ask(self, model: str, text: str = "one two three", **fields: Any) -> httpx2.Response:
        return self.post(f"/v1beta/models/{model}:generateContent", asked(text, **fields))

    def stream(self, model: str, text: str = "one two three", **fields: Any) -> httpx2.Response:
        return self.post(f"/v1beta/models/{model}:streamGenerateContent?alt=sse", asked(text, **fields))


def asked(text: str, **fields: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}], **fields}


def chunks(answer: httpx2.Response) -> list[Any]:
    """The chunks of a stream that is data lines alone."""
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    *frames, rest = answer.content.split(b"\n\n")
    assert rest == b""
    assert all(frame.startswith(b"data: {") and b"\n" not in frame for frame in frames)
    return [orjson.loads(frame.removeprefix(b"data: ")) for frame in frames]


def text_of(streamed: list[Any], thought: bool | None = None) -> str:
    parts = [part for chunk in streamed for part in chunk["candidates"][0].get("content", {}).get("parts", ())]
    return "".join(part["text"] for part in parts if part.get("thought") is thought)


def error_of(answer: httpx2.Response, code: int, status: str) -> dict[str, Any]:
    assert answer.status_code == code
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, Any] = answer.json()["error"]
    assert (error["code"], error["status"]) == (code, status)
    return error


def detail(error: dict[str, Any], kind: str) -> Any:
    return next(entry for entry in error["details"] if entry["@type"] == f"type.googleapis.com/google.rpc.{kind}")


@pytest.fixture(scope="module")
def shared_google(house_process: House) -> Iterator[Google]:
    """For a module's tests, which take ``google``."""
    google = Google(house_process)
    with google.http:
        yield google
    house_process.reset()


@pytest.fixture
def google(shared_google: Google) -> Google:
    """A caller before an open gate, and an upstream that has not been asked anything.

    A test that orders faults or switches accounts off takes ``house`` before this.
    """
    house = shared_google.house
    if shared_google.ask("sim-echo").status_code == httpx2.codes.NOT_FOUND:
        house.set(gemini_native_enabled=True)
    house.simulator.reset()
    return shared_google
