"""A provider's answer as server-sent events: one writer for each of Chat, Responses and Messages.

A writer is told what the model does and gives the bytes; it knows nothing of connections. ``Quirk`` is what real
vendors are known to get wrong.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from simulator.steps import Call, Quirk, Spend

EXTRA = {"from": "the vendor"}
"""A field that no client knows."""

Usage = tuple[int, int, int]
"""Words of the prompt, of the answer (thinking included) and of the thinking."""


class Writer(Protocol):
    """``quirks`` may be changed until the end."""

    quirks: set[Quirk]

    def start(self) -> bytes: ...

    def text(self, text: str) -> bytes: ...

    def thinking(self, text: str) -> bytes: ...

    def calls(self, calls: Sequence[Call], pieces: int) -> Iterator[bytes]:
        """Whole calls, their arguments in so many pieces."""
        ...

    def end(self, usage: Usage, spend: Spend) -> bytes: ...

    def ping(self) -> bytes: ...

    def error(self, error: Mapping[str, Any]) -> bytes: ...


def event(body: Mapping[str, Any], *, named: bool = True) -> bytes:
    name = f"event: {body['type']}\n" if named and "type" in body else ""
    return f"{name}data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


def slices(call: Call, pieces: int) -> list[str]:
    """The arguments of a call, cut into at most so many pieces."""
    text = json.dumps(call.arguments, separators=(",", ":"))
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)]


def woven(calls: Sequence[Call], pieces: int, *, interleaved: bool) -> list[tuple[int, str]]:
    """(call, piece of its arguments) in the order in which they are sent."""
    each = [[(index, piece) for piece in slices(call, pieces)] for index, call in enumerate(calls)]
    if not interleaved:
        return [entry for entries in each for entry in entries]
    longest = max(map(len, each))
    return [entries[turn] for turn in range(longest) for entries in each if turn < len(entries)]


class ChatWriter:
    def __init__(self, model: str) -> None:
        self.quirks: set[Quirk] = set()
        self._head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk",
            "created": 1,
            "x_extra": EXTRA,
            "model": model,
        }
        self._called = False

    def start(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def thinking(self, text: str) -> bytes:
        return self._chunk({"reasoning" if Quirk.OTHER_FIELD in self.quirks else "reasoning_content": text})

    def calls(self, calls: Sequence[Call], pieces: int) -> Iterator[bytes]:
        self._called = True
        interleaved = Quirk.INTERLEAVED in self.quirks
        ids = [f"call_{uuid.uuid4().hex[:24]}" for _ in calls]
        begun: set[int] = set()
        for index, piece in woven(calls, pieces, interleaved=interleaved):
            entry: dict[str, Any] = {"index": index, "function": {"arguments": piece}}
            if index not in begun:
                begun.add(index)
                entry |= {"id": ids[index], "type": "function"}
                entry["function"] |= {"name": calls[index].name}
            yield self._chunk({"tool_calls": [entry]})

    def end(self, usage: Usage, spend: Spend) -> bytes:
        last = self._chunk({}, "tool_calls" if self._called else "stop")
        if spend is not Spend.NONE:
            last += event({**self._head, "choices": [], "usage": _openai_usage(usage, "prompt", "completion")})
        last += b"data: [DONE]\n\n"
        return last * 2 if Quirk.SECOND_END in self.quirks else last

    def ping(self) -> bytes:
        return b": ping\n\n"

    def error(self, error: Mapping[str, Any]) -> bytes:
        return event({"error": error})

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        finish = finish or ("" if Quirk.BLANK_FINISH in self.quirks else None)
        return event({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


class ResponsesWriter:
    def __init__(self, model: str) -> None:
        self.quirks: set[Quirk] = set()
        self._id, self._model = f"resp_{uuid.uuid4().hex}", model
        self._number = -1
        self._items: list[dict[str, Any]] = []
        self._open = ""
        self._said = ""

    def start(self) -> bytes:
        response = self._response("in_progress")
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def text(self, text: str) -> bytes:
        return self._switch("message") + self._say("response.output_text.delta", text, content_index=0)

    def thinking(self, text: str) -> bytes:
        return self._switch("reasoning") + self._say("response.reasoning_summary_text.delta", text, summary_index=0)

    def calls(self, calls: Sequence[Call], pieces: int) -> Iterator[bytes]:
        yield self._switch("")
        first = len(self._items)
        ids = [f"call_{uuid.uuid4().hex[:24]}" for _ in calls]
        interleaved = Quirk.INTERLEAVED in self.quirks
        seen: set[int] = set()
        for index, piece in woven(calls, pieces, interleaved=interleaved):
            if index not in seen:
                seen.add(index)
                yield self._add(
                    {"type": "function_call", "call_id": ids[index], "name": calls[index].name, "arguments": ""}
                )
            item = self._items[first + index]
            item["arguments"] += piece
            yield self._event(
                "response.function_call_arguments.delta", item_id=item["id"], output_index=first + index, delta=piece
            )
        for place in range(first, len(self._items)):
            yield self._done(place)

    def end(self, usage: Usage, spend: Spend) -> bytes:
        closing = self._switch("")
        response = self._response("completed")
        if spend is not Spend.NONE:
            response["usage"] = _openai_usage(usage, "input", "output")
        last = self._event("response.completed", response=response)
        return closing + (last * 2 if Quirk.SECOND_END in self.quirks else last)

    def ping(self) -> bytes:
        return b": ping\n\n"

    def error(self, error: Mapping[str, Any]) -> bytes:
        response = self._response("failed")
        response["error"] = {"code": error.get("code") or error.get("type"), "message": error.get("message", "")}
        return self._event("response.failed", response=response)

    def _response(self, status: str) -> dict[str, Any]:
        head = {"id": self._id, "object": "response", "model": self._model, "x_extra": EXTRA}
        return {**head, "status": status, "output": self._items}

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return event({"type": kind, "sequence_number": self._number, **fields})

    def _say(self, kind: str, text: str, **place: int) -> bytes:
        index = len(self._items) - 1
        self._said += text
        return self._event(kind, item_id=self._items[index]["id"], output_index=index, delta=text, **place)

    def _switch(self, kind: str) -> bytes:
        """Ends the open item of another kind and begins one of this."""
        if kind == self._open:
            return b""
        ending = self._done(len(self._items) - 1) if self._open else b""
        self._open, self._said = kind, ""
        if kind == "message":
            return ending + self._add({"type": "message", "role": "assistant", "content": []})
        return ending + (self._add({"type": "reasoning", "summary": []}) if kind else b"")

    def _add(self, item: dict[str, Any]) -> bytes:
        item = {"id": f"item_{len(self._items)}", **item}
        self._items.append(item)
        return self._event("response.output_item.added", output_index=len(self._items) - 1, item=item)

    def _done(self, place: int) -> bytes:
        item = self._items[place]
        if item["type"] == "message":
            item["content"] = [{"type": "output_text", "text": self._said, "annotations": []}]
        elif item["type"] == "reasoning":
            item["summary"] = [{"type": "summary_text", "text": self._said}]
        return self._event("response.output_item.done", output_index=place, item=item)


class MessagesWriter:
    def __init__(self, model: str) -> None:
        self.quirks: set[Quirk] = set()
        self._message: dict[str, Any] = {
            "id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": model, "content": [],
            "x_extra": EXTRA, "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        self._open = ""
        self._index = -1
        self._called = False

    def start(self) -> bytes:
        return event({"type": "message_start", "message": self._message}) + self.ping()

    def text(self, text: str) -> bytes:
        return self._switch("text", {"type": "text", "text": ""}) + self._delta({"type": "text_delta", "text": text})

    def thinking(self, text: str) -> bytes:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        return self._switch("thinking", block) + self._delta({"type": "thinking_delta", "thinking": text})

    def calls(self, calls: Sequence[Call], pieces: int) -> Iterator[bytes]:
        self._called = True
        yield self._switch("", None)
        interleaved = Quirk.INTERLEAVED in self.quirks
        first, begun = self._index + 1, 0
        for index, piece in woven(calls, pieces, interleaved=interleaved):
            if index >= begun:
                yield b"" if interleaved or not index else self._stop(first + index - 1)
                begun = index + 1
                block = {
                    "type": "tool_use",
                    "id": f"toolu_{uuid.uuid4().hex[:24]}",
                    "name": calls[index].name,
                    "input": {},
                }
                yield event({"type": "content_block_start", "index": first + index, "content_block": block})
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield event({"type": "content_block_delta", "index": first + index, "delta": delta})
        self._index = first + len(calls) - 1
        for place in range(first if interleaved else self._index, self._index + 1):
            yield self._stop(place)

    def end(self, usage: Usage, spend: Spend) -> bytes:
        closing = self._switch("", None)
        read, wrote, _ = usage
        counted = {} if spend is Spend.NONE else {"usage": {"input_tokens": read, "output_tokens": wrote}}
        reason = {"stop_reason": "tool_use" if self._called else "end_turn", "stop_sequence": None}
        last = event({"type": "message_delta", "delta": reason, **counted}) + event({"type": "message_stop"})
        return closing + (last * 2 if Quirk.SECOND_END in self.quirks else last)

    def ping(self) -> bytes:
        return event({"type": "ping"})

    def error(self, error: Mapping[str, Any]) -> bytes:
        return event({"type": "error", "error": error})

    def _switch(self, kind: str, block: Mapping[str, Any] | None) -> bytes:
        if kind == self._open:
            return b""
        signed = self._delta({"type": "signature_delta", "signature": "c2ln"}) if self._open == "thinking" else b""
        ending = signed + self._stop(self._index) if self._open else b""
        self._open = kind
        if block is None:
            return ending
        self._index += 1
        return ending + event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _stop(self, index: int) -> bytes:
        return event({"type": "content_block_stop", "index": index})


def _openai_usage(usage: Usage, read: str, wrote: str) -> dict[str, Any]:
    prompt, answer, thought = usage
    return {
        f"{read}_tokens": prompt, f"{wrote}_tokens": answer, "total_tokens": prompt + answer,
        f"{wrote}_tokens_details": {"reasoning_tokens": thought},
    }  # fmt: skip
