from __future__ import annotations

from typing import Any

import pytest

from config import metrics
from config.asgi import application, for_gateway


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"), ("POST", "/v1/no/such/path"), ("GET", "/v1"),
        ("POST", "/v1beta/models/x:generateContent"),
        ("GET", "/livez"), ("GET", "/readyz"), ("HEAD", "/"), ("HEAD", "/api/hello"), ("POST", "/responses"),
        ("POST", "/chat/completions"), ("POST", "/messages"),
        ("POST", "/agent.v1.AgentService/RunSSE"), ("POST", "/aiserver.v1.BidiService/BidiAppend"),
    ],
)  # fmt: skip
def test_the_data_plane_gets_its_paths(method: str, path: str) -> None:
    assert for_gateway(method, path)


@pytest.mark.parametrize("path", ["/", "/sign-in", "/requests", "/static/x.css", "/v1x", "/v12/chat", "/api/docs", "*"])
def test_the_panel_gets_all_others(path: str) -> None:
    assert not for_gateway("GET", path)


async def call(scope: dict[str, Any], *received: dict[str, Any]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    waiting = list(received)

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return sent


async def test_a_websocket_is_closed_as_a_policy_violation() -> None:
    sent = await call({"type": "websocket", "path": "/live"}, {"type": "websocket.connect"})
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        (b"Bearer the-token", True), (b"bearer the-token", True), (b"Bearer the-toke", False),
        (b"Basic the-token", False),
        (b"the-token", False), (b"", False),
    ],
)  # fmt: skip
def test_metrics_need_the_bearer_token(header: bytes, allowed: bool, settings: Any) -> None:
    settings.POOLGATE_METRICS_TOKEN = "the-token"
    assert metrics.allowed([(b"authorization", header)]) is allowed


def test_without_a_configured_token_nobody_reads_metrics(settings: Any) -> None:
    settings.POOLGATE_METRICS_TOKEN = ""
    assert not metrics.allowed([(b"authorization", b"Bearer ")])


async def test_metrics_answer_get_alone() -> None:
    scope = {"type": "http", "method": "POST", "path": "/metrics", "headers": []}
    sent = await call(scope)
    assert sent[0]["status"] == 405
    assert (b"allow", b"GET, HEAD") in sent[0]["headers"]
