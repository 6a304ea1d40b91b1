"""What came over the socket, read with the SDKs' own types and nothing else.

The SDKs themselves are lenient: they build their models without validation. Here every body, chunk and event is
validated strictly by the same models, fields they do not know are refused by name, and the order of a stream is checked
against the vendors' references. The few extensions that clients read are listed in ``EXTENSIONS``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anthropic.types as anthropic
import httpx2
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.shared import ErrorObject
from pydantic import BaseModel, TypeAdapter

EXTENSIONS = {"reasoning_content", "details", "x_extra"}  # the last is the simulated vendor's, kept on the way through
UNTYPED = {"store", "status"}  # of a response, of a custom call: OpenAI sends them, its SDK has no field for them

_EVENT: TypeAdapter[Any] = TypeAdapter(anthropic.RawMessageStreamEvent)


@dataclass
class Turn:
    """One answer, in the words that both protocols share. ``calls``: (id, name, arguments as JSON text).

    ``finish`` and ``usage`` are the protocol's own; ``error`` is the error object of a stream that ended with one.
    """

    text: str = ""
    thinking: str = ""
    signature: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish: str | None = None
    stop_sequence: str | None = None
    usage: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> list[Any]:
        """The calls' arguments, parsed."""
        return [json.loads(text) for _, _, text in self.calls]


def read_chat(answer: httpx2.Response, *, include_usage: bool = False) -> Turn:
    """An answer of ``/v1/chat/completions``, streamed or not."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        return _read_chunks(answer.content, include_usage)
    body = ChatCompletion.model_validate_json(answer.content, strict=True)
    assert not strangers(body)
    [choice] = body.choices
    assert choice.index == 0
    calls = [
        (call.id, call.function.name, call.function.arguments)
        for call in choice.message.tool_calls or ()
        if call.type == "function"
    ]
    return Turn(
        choice.message.content or "",
        (choice.message.model_extra or {}).get("reasoning_content", ""),
        calls=calls,
        finish=choice.finish_reason,
        usage=answer.json()["usage"],
    )


def read_message(answer: httpx2.Response) -> Turn:
    """An answer of ``/v1/messages``, streamed or not."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        return _read_events(answer.content)
    body = anthropic.Message.model_validate_json(answer.content, strict=True)
    assert not strangers(body)
    turn = Turn(finish=body.stop_reason, stop_sequence=body.stop_sequence, usage=answer.json()["usage"])
    for block in body.content:
        match block:
            case anthropic.TextBlock():
                turn.text += block.text
            case anthropic.ThinkingBlock():
                turn.thinking, turn.signature = turn.thinking + block.thinking, block.signature
            case anthropic.ToolUseBlock():
                turn.calls.append((block.id, block.name, json.dumps(block.input)))
            case _:
                raise AssertionError(block.type)
    return turn


def read_error(answer: httpx2.Response) -> tuple[int, str, str | None, str | None]:
    """Status, type, code and param of an error answer in the protocol of its path; Messages has neither of the last."""
    assert answer.headers["content-type"] == "application/json"
    if not answer.url.path.startswith("/v1/messages"):
        fault = _chat_error(answer.json())
        return answer.status_code, fault.type, fault.code, fault.param
    body = answer.json()
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    return answer.status_code, _message_error(body), None, None


def strangers(model: BaseModel) -> set[str]:
    """Names of fields that the SDK's types do not know, at every depth."""
    found = set(model.model_extra or ()) - EXTENSIONS - UNTYPED
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, BaseModel):
                found |= {f"{name}.{inner}" for inner in strangers(item)}
    return found


def _chat_error(body: Mapping[str, Any]) -> ErrorObject:
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return ErrorObject.model_validate(body["error"], strict=True)


def _message_error(body: Mapping[str, Any]) -> str:
    """The type of an error envelope."""
    kind: str = body["error"]["type"]
    if kind == "request_too_large":  # documented, and the SDK raises a class of its own for it, but has no type
        body = {**body, "error": {**body["error"], "type": "invalid_request_error"}}
    assert not strangers(anthropic.ErrorResponse.model_validate(body, strict=True))
    return kind


def frames(raw: bytes) -> Iterator[tuple[str, str]]:
    """(event, data) of each frame of a stream; comments are keepalives and may stand anywhere."""
    assert raw.endswith(b"\n\n")
    for frame in raw.decode().split("\n\n")[:-1]:
        if frame.startswith(":"):
            continue
        *named, data = frame.split("\n")
        assert data.startswith("data: ")
        assert len(named) < 2
        yield (named[0].removeprefix("event: ") if named else ""), data.removeprefix("data: ")


def _read_chunks(raw: bytes, include_usage: bool) -> Turn:
    turn = Turn()
    seen: set[tuple[str, int, str]] = set()
    role = done = False
    for event, data in frames(raw):
        assert not event
        assert not done
        assert turn.error is None
        if data == "[DONE]":
            done = True
            continue
        body = json.loads(data)
        if "error" in body:
            _chat_error(body)
            turn.error = body["error"]
            continue
        chunk = ChatCompletionChunk.model_validate_json(data, strict=True)
        assert not strangers(chunk)
        seen.add((chunk.id, chunk.created, chunk.model))
        assert ("usage" in body) is include_usage
        if not chunk.choices:
            assert include_usage
            assert turn.finish is not None
            assert turn.usage is None
            turn.usage = body["usage"]
            continue
        assert turn.finish is None
        assert body.get("usage") is None
        role = _add_chunk(turn, chunk, role)
    assert len(seen) <= 1
    if turn.error is None:
        assert done
        assert turn.finish is not None
        assert (turn.usage is not None) is include_usage
    else:
        assert not done
        assert turn.finish is None
    return turn


def _add_chunk(turn: Turn, chunk: ChatCompletionChunk, role: bool) -> bool:
    [choice] = chunk.choices
    delta = choice.delta
    assert choice.index == 0
    assert (delta.role == "assistant") is not role, "one role chunk, and it comes first"
    if not role:
        assert (delta.content, delta.tool_calls, choice.finish_reason) == ("", None, None)
        return True
    thought = (delta.model_extra or {}).get("reasoning_content")
    filled = [delta.content, thought, delta.tool_calls, choice.finish_reason]
    assert sum(item is not None for item in filled) == 1
    assert delta.content != ""
    if delta.content is not None:
        turn.text += delta.content
        turn.pieces.append(delta.content)
    turn.thinking += thought or ""
    for call in delta.tool_calls or ():
        assert call.function is not None
        assert call.function.arguments is not None
        if call.index == len(turn.calls):
            assert call.type == "function"
            assert call.function.arguments == ""
            turn.calls.append((call.id or "", call.function.name or "", ""))
        else:
            assert (call.index, call.id, call.type, call.function.name) == (len(turn.calls) - 1, None, None, None)
            identifier, name, text = turn.calls[-1]
            turn.calls[-1] = (identifier, name, text + call.function.arguments)
    turn.finish = choice.finish_reason
    return True


_ORDER = {
    "": {"message_start"},
    "message_start": {"content_block_start", "message_delta"},
    "content_block_start": {"content_block_delta"},  # none is empty: clients read a call's input from deltas only
    "content_block_delta": {"content_block_delta", "content_block_stop"},
    "content_block_stop": {"content_block_start", "message_delta"},
    "message_delta": {"message_stop"},
    "message_stop": set(),
}


def _read_events(raw: bytes) -> Turn:
    turn = Turn()
    last = ""
    block = -1
    for event, data in frames(raw):
        body = json.loads(data)
        assert event == body["type"]
        assert turn.error is None
        if event == "ping":
            assert body == {"type": "ping"}
            assert last not in ("", "message_stop")
            continue
        if event == "error":
            _message_error(body)
            turn.error = body["error"]
            continue
        assert event in _ORDER[last], f"{event} after {last}"
        last = event
        read = _EVENT.validate_json(data, strict=True)
        assert not strangers(read)
        if event == "content_block_start":
            block += 1
        if event.startswith("content_block"):
            assert read.index == block
        _add_event(turn, read, body)
    assert (last == "message_stop") is (turn.error is None)
    return turn


def _add_event(turn: Turn, event: anthropic.RawMessageStreamEvent, body: Mapping[str, Any]) -> None:
    match event:
        case anthropic.RawMessageStartEvent(message=message):
            assert (message.content, message.stop_reason, message.usage.output_tokens) == ([], None, 0)
        case anthropic.RawContentBlockStartEvent(content_block=block):
            _open_block(turn, block)
        case anthropic.RawContentBlockDeltaEvent(delta=delta):
            _add_delta(turn, delta)
        case anthropic.RawMessageDeltaEvent(delta=end):
            turn.finish, turn.stop_sequence = end.stop_reason, end.stop_sequence
            turn.usage = body["usage"]
            assert "input_tokens" in body["usage"], "some clients read it from here only"
        case _:
            pass


def _open_block(turn: Turn, block: anthropic.ContentBlock) -> None:
    match block:
        case anthropic.TextBlock():
            assert block.text == ""
        case anthropic.ThinkingBlock():
            assert (block.thinking, block.signature) == ("", "")
        case anthropic.ToolUseBlock():
            assert block.input == {}
            turn.calls.append((block.id, block.name, ""))
        case _:
            raise AssertionError(block.type)


def _add_delta(turn: Turn, delta: anthropic.RawContentBlockDelta) -> None:
    match delta:
        case anthropic.TextDelta(text=text):
            assert text
            turn.text += text
            turn.pieces.append(text)
        case anthropic.ThinkingDelta(thinking=thinking):
            turn.thinking += thinking
        case anthropic.SignatureDelta(signature=signature):
            turn.signature = signature
        case anthropic.InputJSONDelta(partial_json=piece):
            identifier, name, text = turn.calls[-1]
            turn.calls[-1] = (identifier, name, text + piece)
        case _:
            raise AssertionError(delta.type)
