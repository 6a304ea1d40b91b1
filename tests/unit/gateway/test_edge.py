from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest

from gateway.asgi import app


async def post(path: str) -> tuple[int, dict[str, Any]]:
    """Status and error of an empty POST."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
        "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], orjson.loads(body)["error"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/chat/completions", "The base URL lacks /v1: this is at /v1/chat/completions."),
        ("/messages", "The base URL lacks /v1: this is at /v1/messages."),
        ("/v1/v1/messages", "The base URL has one /v1 too many: this is at /v1/messages."),
        ("/v1/v1/chat/completions/", "The base URL has one /v1 too many: this is at /v1/chat/completions."),
    ],
)
async def test_the_other_vendors_base_url_is_explained(path: str, sentence: str) -> None:
    status, error = await post(path)
    assert status == 404
    assert error["message"] == f"There is nothing at {path}. {sentence}"


async def test_a_path_that_nobody_has_is_not_explained() -> None:
    assert (await post("/v1/embeddings"))[1]["message"] == "There is nothing at /v1/embeddings."


async def test_a_missing_path_of_anthropics_answers_in_their_shape() -> None:
    assert (await post("/messages"))[1]["type"] == "not_found_error"
