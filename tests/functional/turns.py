"""One turn in any of three protocols, asked and read alike, so that tests can compare what comes back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
PATHS = (CHAT, RESPONSES, MESSAGES)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c63f8cfc0f01f00050001ff56c72f0d0000000049454e44ae426082"
    )
).decode()
TIMEOUT = 30


@dataclass
class Turn:
    """What is asked. ``calls`` and ``results`` make a history that ends with the results of those calls; ``images``:
    how many of them."""

    text: str
    system: str = ""
    tools: tuple[str, ...] = ()
    images: int = 0
    thinking: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    results: tuple[str, ...] = ()
    stream: bool = False
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Answer:
    """What came back, without ids. ``finish`` is in the words of the protocol; ``error`` the code or type."""

    status: int
    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str = ""
    usage: tuple[int, int] = (0, 0)
    error: str = ""


def body_of(path: str, model: str, turn: Turn) -> dict[str, Any]:
    body = {CHAT: _chat, RESPONSES: _responses, MESSAGES: _messages}[path](turn)
    return {"model": model, "stream": turn.stream, **body, **turn.more}


def ask(url: str, key: str, path: str, model: str, turn: Turn) -> tuple[Answer, httpx2.Response]:
    """A whole answer."""
    headers = {"authorization": f"Bearer {key}"}
    reply = httpx2.post(url + path, json=body_of(path, model, turn), headers=headers, timeout=TIMEOUT)
    return read(path, reply.status_code, reply.json()), reply


@contextmanager
def streamed(url: str, key: str, path: str, model: str, turn: Turn) -> Iterator[tuple[httpx2.Response, Iterator[Any]]]:
    """The frames of a streamed answer, parsed; leaving early closes the connection."""
    turn.stream = True
    headers = {"authorization": f"Bearer {key}"}
    body = body_of(path, model, turn)
    with httpx2.stream("POST", url + path, json=body, headers=headers, timeout=TIMEOUT) as reply:
        lines = (line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: "))
        yield reply, (line if line == "[DONE]" else json.loads(line) for line in lines)


def piece(path: str, frame: Any) -> str:
    """The text in one frame."""
    if not isinstance(frame, dict):
        return ""
    if path == CHAT:
        return (frame.get("choices") or [{}])[0].get("delta", {}).get("content") or ""
    if path == RESPONSES:
        return frame["delta"] if frame["type"] == "response.output_text.delta" else ""
    return str(frame.get("delta", {}).get("text", ""))


def failed(path: str, frame: Any) -> bool:
    """Whether a frame is the error that ends an answer."""
    if not isinstance(frame, dict):
        return False
    return "error" in frame if path == CHAT else frame["type"] in ("error", "response.failed")


def read(path: str, status: int, body: dict[str, Any]) -> Answer:
    if status != 200:
        error = body["error"]
        return Answer(status, error=error.get("code") or error["type"])
    return {CHAT: _read_chat, RESPONSES: _read_responses, MESSAGES: _read_messages}[path](body)


def _chat(turn: Turn) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": turn.system}] if turn.system else []
    content: Any = turn.text
    if turn.images:
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        content = [{"type": "text", "text": turn.text}, *[picture] * turn.images]
    messages.append({"role": "user", "content": content})
    if turn.calls:
        calls = [
            {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(turn.calls)
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    messages += [{"role": "tool", "tool_call_id": f"c{n}", "content": text} for n, text in enumerate(turn.results)]
    body: dict[str, Any] = {"messages": messages}
    if turn.tools:
        body["tools"] = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in turn.tools]
    if turn.thinking:
        body["reasoning_effort"] = "high"
    return body


def _responses(turn: Turn) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "input_text", "text": turn.text}]
    content += [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}] * turn.images
    items: list[dict[str, Any]] = [{"role": "user", "content": content}]
    for number, (name, arguments) in enumerate(turn.calls):
        items.append({"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": arguments})
    items += [
        {"type": "function_call_output", "call_id": f"c{n}", "output": text} for n, text in enumerate(turn.results)
    ]
    body: dict[str, Any] = {"input": items, "instructions": turn.system or None}
    if turn.tools:
        body["tools"] = [{"type": "function", "name": name, "parameters": SCHEMA} for name in turn.tools]
    if turn.thinking:
        body["reasoning"] = {"effort": "high", "summary": "auto"}
    return body


def _messages(turn: Turn) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    content += [picture] * turn.images
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if turn.calls:
        calls = [
            {"type": "tool_use", "id": f"c{number}", "name": name, "input": json.loads(arguments)}
            for number, (name, arguments) in enumerate(turn.calls)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"c{n}", "content": text} for n, text in enumerate(turn.results)
        ]
        messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    body: dict[str, Any] = {"messages": messages, "max_tokens": 8000}
    if turn.system:
        body["system"] = turn.system
    if turn.tools:
        body["tools"] = [{"name": name, "input_schema": SCHEMA} for name in turn.tools]
    if turn.thinking:
        body["thinking"] = {"type": "adaptive"}
    return body


def _read_chat(body: dict[str, Any]) -> Answer:
    choice, usage = body["choices"][0], body["usage"]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return Answer(
        200, message["content"] or "", message.get("reasoning_content") or "",
        [(call["name"], json.loads(call["arguments"])) for call in calls], choice["finish_reason"],
        (usage["prompt_tokens"], usage["completion_tokens"]),
    )  # fmt: skip


def _read_responses(body: dict[str, Any]) -> Answer:
    answer = Answer(200, finish=body["status"])
    for item in body["output"]:
        match item["type"]:
            case "message":
                answer.text += "".join(part["text"] for part in item["content"])
            case "reasoning":
                answer.thinking += "".join(part["text"] for part in item["summary"])
            case "function_call":
                answer.calls.append((item["name"], json.loads(item["arguments"])))
    answer.usage = (body["usage"]["input_tokens"], body["usage"]["output_tokens"])
    return answer


def _read_messages(body: dict[str, Any]) -> Answer:
    answer = Answer(200, finish=body["stop_reason"])
    for block in body["content"]:
        match block["type"]:
            case "text":
                answer.text += block["text"]
            case "thinking":
                answer.thinking += block["thinking"]
            case "tool_use":
                answer.calls.append((block["name"], block["input"]))
    answer.usage = (body["usage"]["input_tokens"], body["usage"]["output_tokens"])
    return answer
