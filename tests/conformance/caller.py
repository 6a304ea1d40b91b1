"""A caller without an SDK: plain HTTP with the demo team's key, answers read strictly."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.conformance import wire

PROTOCOLS = ("chat", "messages")
STOPPED = {"chat": "stop", "messages": "end_turn"}
CALLED = {"chat": "tool_calls", "messages": "tool_use"}
CUT = {"chat": "length", "messages": "max_tokens"}


class Caller:
    """``chat`` and ``messages`` give the answer as it came; ``messages`` may be the text of one user message."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=30, trust_env=False)

    def chat(self, model: str, messages: Any = "Hi", **fields: Any) -> httpx2.Response:
        return self.http.post("/v1/chat/completions", json={"model": model, "messages": _said(messages), **fields})

    def messages(self, model: str, messages: Any = "Hi", **fields: Any) -> httpx2.Response:
        body = {"model": model, "max_tokens": 4096, "messages": _said(messages), **fields}
        return self.http.post("/v1/messages", json=body)

    def post(self, protocol: str, model: str, messages: Any = "Hi", **fields: Any) -> httpx2.Response:
        send = self.chat if protocol == "chat" else self.messages
        return send(model, messages, **fields)

    def ask(self, protocol: str, model: str, messages: Any = "Hi", **fields: Any) -> wire.Turn:
        """The turn that a protocol gave, read strictly."""
        answer = self.post(protocol, model, messages, **fields)
        if protocol == "messages":
            return wire.read_message(answer)
        return wire.read_chat(answer, include_usage=fields.get("stream_options", {}).get("include_usage", False))


def tools(protocol: str, *names: str, schema: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The tools of these names as the protocol declares them; by default each takes a city."""
    schema = schema or {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    if protocol == "chat":
        return [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]
    return [{"name": name, "input_schema": schema} for name in names]


def image(protocol: str, media_type: str, encoded: str) -> dict[str, Any]:
    """An inline image as the protocol carries it."""
    if protocol == "chat":
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{encoded}"}}
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": encoded}}


def _said(messages: Any) -> Any:
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
