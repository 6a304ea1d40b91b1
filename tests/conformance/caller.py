"""A caller without an SDK: plain HTTP with the demo team's key, answers read strictly."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.conformance import wire
from tests.conformance.wire_responses import read_response

PROTOCOLS = ("chat", "messages")
EVERY = (*PROTOCOLS, "responses")
STOPPED = {"chat": "stop", "messages": "end_turn", "responses": "completed"}
CALLED = {"chat": "tool_calls", "messages": "tool_use", "responses": "completed"}
CUT = {"chat": "length", "messages": "max_tokens", "responses": "max_output_tokens"}


class Caller:
    """A method for each protocol gives the answer as it came; ``messages`` may be the text of one user message, and
    in Responses they are items."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=30, trust_env=False)

    def chat(self, model: str, messages: Any = "Hi", **fields: Any) -> httpx2.Response:
        return self.http.post("/v1/chat/completions", json={"model": model, "messages": _said(messages), **fields})

    def messages(self, model: str, messages: Any = "Hi", **fields: Any) -> httpx2.Response:
        body = {"model": model, "max_tokens": 4096, "messages": _said(messages), **fields}
        return self.http.post("/v1/messages", json=body)

    def responses(self, model: str, messages: Any = "Hi", **fields: Any) -> httpx2.Response:
        return self.http.post("/v1/responses", json={"model": model, "input": _said(messages), **fields})

    def post(self, protocol: str, model: str, messages: Any = "Hi", **fields: Any) -> httpx2.Response:
        send = {"chat": self.chat, "messages": self.messages, "responses": self.responses}[protocol]
        return send(model, messages, **fields)

    def ask(self, protocol: str, model: str, messages: Any = "Hi", **fields: Any) -> wire.Turn:
        """The turn that a protocol gave, read strictly."""
        answer = self.post(protocol, model, messages, **fields)
        if protocol == "messages":
            return wire.read_message(answer)
        if protocol == "responses":
            return read_response(answer)
        return wire.read_chat(answer, include_usage=fields.get("stream_options", {}).get("include_usage", False))


def tools(protocol: str, *names: str, schema: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The tools of these names as the protocol declares them; by default each takes a city."""
    schema = schema or {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    if protocol == "chat":
        return [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]
    if protocol == "responses":
        return [{"type": "function", "name": name, "parameters": schema} for name in names]
    return [{"name": name, "input_schema": schema} for name in names]


def image(protocol: str, media_type: str, encoded: str) -> dict[str, Any]:
    """An inline image as the protocol carries it."""
    if protocol == "chat":
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{encoded}"}}
    if protocol == "responses":
        return {"type": "input_image", "image_url": f"data:{media_type};base64,{encoded}"}
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": encoded}}


def text(protocol: str, words: str) -> dict[str, Any]:
    """A part of text as the protocol carries it."""
    return {"type": "input_text" if protocol == "responses" else "text", "text": words}


def limit(protocol: str, tokens: int) -> dict[str, Any]:
    """The limit of an answer as the protocol says it."""
    return {"max_output_tokens" if protocol == "responses" else "max_tokens": tokens}


def _said(messages: Any) -> Any:
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
