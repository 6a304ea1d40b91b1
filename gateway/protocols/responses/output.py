"""The items of an answer, as they open, grow and close in a stream.

``head`` holds the bytes of a delta up to its text; an item without one shows nothing until it closes. ``open`` and
``close`` are given the function that numbers and frames an event. ``finish`` makes the finished item, the same for a
whole answer as for a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gateway.contracts import JsonObject, ResponseMeta
from gateway.protocols.openai.functions import NO_ARGUMENTS
from gateway.protocols.responses.calls import FORMS, call_item, origins
from gateway.wire.json import dump
from ir.events import PartKind, PartStart
from ir.request import Request, ToolKind, ToolOrigin

Event = Callable[[str, JsonObject], bytes]


class Item(Protocol):
    """``at_once``: it opens with its start, not with its first delta."""

    at_once: bool
    head: bytes

    def open(self, event: Event) -> bytes: ...

    def finish(self, text: str) -> JsonObject:
        """The finished item; ``text`` is all its deltas in one."""
        ...

    def close(self, item: JsonObject, text: str, event: Event) -> bytes: ...


class Items:
    """Makes the items of one answer."""

    def __init__(self, request: Request, meta: ResponseMeta) -> None:
        self._id = meta.response_id
        self._origins = origins(request)
        self._exposed = meta.expose_reasoning
        self._sign = meta.sign if request.thinking.signed else None

    def begin(self, start: PartStart, index: int) -> Item | None:
        """The item for a part; ``None`` when it is not to be shown."""
        tail = f"{self._id}_{index}"
        match start.kind:
            case PartKind.TEXT:
                return MessageItem(f"msg_{tail}", index)
            case PartKind.REASONING:
                return ReasoningItem(f"rs_{tail}", index, self._sign) if self._exposed else None
            case PartKind.TOOL_CALL:
                origin = self._origins.get(start.name) or ToolOrigin(ToolKind.FUNCTION, start.name)
                return CallItem(origin, start, tail, index)


def _delta_head(kind: str, place: JsonObject) -> bytes:
    fields = dump({"type": kind, **place})[:-1]
    return b"event: " + kind.encode() + b"\ndata: " + fields + b',"delta":'


class MessageItem:
    """One message with one part of text."""

    at_once = False

    def __init__(self, item_id: str, index: int) -> None:
        self._id, self._index = item_id, index
        self._place = {"item_id": item_id, "output_index": index, "content_index": 0}
        self.head = _delta_head("response.output_text.delta", {**self._place, "logprobs": []})

    def open(self, event: Event) -> bytes:
        added = {"output_index": self._index, "item": self._item("in_progress", [])}
        return event("response.output_item.added", added) + event(
            "response.content_part.added", {**self._place, "part": _text_part("")}
        )

    def finish(self, text: str) -> JsonObject:
        return self._item("completed", [_text_part(text)])

    def close(self, item: JsonObject, text: str, event: Event) -> bytes:
        return (
            event("response.output_text.done", {**self._place, "text": text, "logprobs": []})
            + event("response.content_part.done", {**self._place, "part": item["content"][0]})
            + event("response.output_item.done", {"output_index": self._index, "item": item})
        )

    def _item(self, status: str, content: list[JsonObject]) -> JsonObject:
        return {"type": "message", "id": self._id, "status": status, "role": "assistant", "content": content}


def _text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ReasoningItem:
    """Thinking as a summary of one part; ``sign`` adds the opaque form that the caller may send back."""

    at_once = False

    def __init__(self, item_id: str, index: int, sign: Callable[[str], str] | None) -> None:
        self._id, self._index, self._sign = item_id, index, sign
        self._place = {"item_id": item_id, "output_index": index, "summary_index": 0}
        self.head = _delta_head("response.reasoning_summary_text.delta", self._place)

    def open(self, event: Event) -> bytes:
        added = {"output_index": self._index, "item": {"type": "reasoning", "id": self._id, "summary": []}}
        return event("response.output_item.added", added) + event(
            "response.reasoning_summary_part.added", {**self._place, "part": {"type": "summary_text", "text": ""}}
        )

    def finish(self, text: str) -> JsonObject:
        item: JsonObject = {
            "type": "reasoning",
            "id": self._id,
            "summary": [{"type": "summary_text", "text": text}],
        }
        if self._sign is not None:
            item["encrypted_content"] = self._sign(text)
        return item

    def close(self, item: JsonObject, text: str, event: Event) -> bytes:
        return (
            event("response.reasoning_summary_text.done", {**self._place, "text": text})
            + event("response.reasoning_summary_part.done", {**self._place, "part": item["summary"][0]})
            + event("response.output_item.done", {"output_index": self._index, "item": item})
        )


class CallItem:
    """A call in the form of its tool. Free text is inside the JSON, so it goes out as one delta when it is whole."""

    at_once = True

    def __init__(self, origin: ToolOrigin, start: PartStart, tail: str, index: int) -> None:
        self._origin, self._call_id, self._index = origin, start.call_id, index
        self._form = FORMS[origin.kind]
        self._id = f"{self._form.prefix}_{tail}"
        self._place = {"item_id": self._id, "output_index": index}
        streams = origin.kind is ToolKind.FUNCTION
        self.head = _delta_head(f"{self._form.event}.delta", self._place) if streams else b""

    def open(self, event: Event) -> bytes:
        return event("response.output_item.added", {"output_index": self._index, "item": self._item("", "in_progress")})

    def finish(self, text: str) -> JsonObject:
        return self._item(text or NO_ARGUMENTS, "completed")

    def close(self, item: JsonObject, text: str, event: Event) -> bytes:
        closing = b""
        if self._form.event:
            whole = item[self._form.field]
            if whole and not (self.head and text):
                closing += event(f"{self._form.event}.delta", {**self._place, "delta": whole})
            closing += event(f"{self._form.event}.done", {**self._place, self._form.field: whole})
        return closing + event("response.output_item.done", {"output_index": self._index, "item": item})

    def _item(self, arguments: str, status: str) -> JsonObject:
        return call_item(self._origin, self._id, self._call_id, arguments, status)
