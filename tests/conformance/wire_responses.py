"""An answer of ``/v1/responses`` read as strictly as ``wire`` reads the others: every event by the SDK's own type, in
the order of the vendor's reference, and a final object that is the sum of what was streamed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx2
import openai.types.responses as types
from pydantic import BaseModel, TypeAdapter

from tests.conformance.wire import Turn, frames, strangers

_EVENT: TypeAdapter[Any] = TypeAdapter(types.ResponseStreamEvent)
_ITEM_OF = {
    "output_text.delta": "message",
    "function_call_arguments.delta": "function_call",
    "custom_tool_call_input.delta": "custom_tool_call",
    "reasoning_summary_text.delta": "reasoning",
}
_WHOLE = {
    "output_text.done": "text",
    "function_call_arguments.done": "arguments",
    "custom_tool_call_input.done": "input",
    "reasoning_summary_text.done": "text",
}
_ENDS = ("completed", "incomplete", "failed")


def read_response(answer: httpx2.Response) -> Turn:
    """The turn of an answer, streamed or not. ``finish``: ``completed``, or why it is incomplete."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        return _read_events(answer.content)
    return _read_body(answer.json())


def _strangers(model: BaseModel) -> set[str]:
    """Fields unknown to the SDK, but for what the response repeats of the caller's own tools."""
    return {name for name in strangers(model) if not name.removeprefix("response.").startswith("tools.")}


def _read_body(body: Mapping[str, Any]) -> Turn:
    read = types.Response.model_validate_json(json.dumps(body), strict=True)
    assert not _strangers(read)
    assert read.status in _ENDS
    turn = Turn(finish=read.status, usage=body["usage"], error=body["error"])
    if read.incomplete_details is not None:
        turn.finish = read.incomplete_details.reason
    for item in read.output:
        _add_item(turn, item)
    if read.usage is not None:
        assert read.usage.total_tokens == read.usage.input_tokens + read.usage.output_tokens
    return turn


def _add_item(turn: Turn, item: types.ResponseOutputItem) -> None:
    match item:
        case types.ResponseOutputMessage(status=status, content=[types.ResponseOutputText(annotations=[], text=text)]):
            assert status in ("completed", "incomplete")
            turn.text += text
        case types.ResponseFunctionToolCall():
            turn.calls.append((item.call_id, item.name, item.arguments))
        case types.ResponseCustomToolCall():
            turn.calls.append((item.call_id, item.name, item.input))
        case types.ResponseReasoningItem():
            turn.thinking += "".join(part.text for part in item.summary)
            turn.signature = item.encrypted_content or ""
        case types.ResponseCompactionItem():
            turn.signature = item.encrypted_content
        case _:
            raise AssertionError(item.type)


class _Stream:
    """What must hold between the events of one stream."""

    def __init__(self) -> None:
        self.identity = ""
        self.done: list[Any] = []
        self.open: dict[str, Any] | None = None
        self.grown = ""
        self.pieces: list[str] = []
        self.end: Mapping[str, Any] | None = None

    def take(self, kind: str, body: Mapping[str, Any]) -> None:
        assert self.end is None, f"{kind} after the end"
        if "response" in body:
            self._lifecycle(kind, body["response"])
        elif kind == "output_item.added":
            assert self.open is None, "items never interleave"
            assert body["output_index"] == len(self.done)
            self.open, self.grown = body["item"], ""
        elif kind == "output_item.done":
            self._close(body["item"])
        else:
            self._part(kind, body)

    def _lifecycle(self, kind: str, response: Mapping[str, Any]) -> None:
        assert self.identity in ("", response["id"])
        self.identity = response["id"]
        if kind not in _ENDS:
            assert (response["status"], response["output"], self.done) == ("in_progress", [], [])
            return
        assert response["status"] == kind
        assert kind == "failed" or self.open is None
        assert response["output"] == self.done, "the final object is the sum of the items"
        self.end = response

    def _part(self, kind: str, body: Mapping[str, Any]) -> None:
        assert self.open is not None, f"{kind} outside of an item"
        assert (body["item_id"], body["output_index"]) == (self.open["id"], len(self.done))
        if kind in _ITEM_OF:
            assert self.open["type"] == _ITEM_OF[kind]
            assert body["delta"]
            self.grown += body["delta"]
            if kind == "output_text.delta":
                self.pieces.append(body["delta"])
        elif kind in _WHOLE:
            assert body[_WHOLE[kind]] == self.grown, "a delta is missing or came twice"

    def _close(self, item: Mapping[str, Any]) -> None:
        assert self.open is not None
        assert (item["id"], item["type"]) == (self.open["id"], self.open["type"])
        if item["type"] in ("function_call", "custom_tool_call"):
            assert (item["call_id"], item["name"]) == (self.open["call_id"], self.open["name"])
            assert item["arguments" if item["type"] == "function_call" else "input"] == self.grown
        self.done.append(item)
        self.open = None


def _read_events(raw: bytes) -> Turn:
    stream = _Stream()
    kinds: list[str] = []
    for event, data in frames(raw):
        body = json.loads(data)
        assert event == body["type"]
        assert body["sequence_number"] == len(kinds), "dense, from 0"
        assert not _strangers(_EVENT.validate_json(data, strict=True))
        kinds.append(event.removeprefix("response."))
        stream.take(kinds[-1], body)
    assert kinds[:2] == ["created", "in_progress"]
    assert stream.end is not None, "a stream that never says how it ended"
    turn = _read_body(stream.end)
    turn.pieces = stream.pieces
    if turn.error:
        turn.text += stream.grown  # what was shown of the item that never came to its end
    return turn
