"""Answers in Responses form: one whole body, or a stream of events.

Strategy: a delta is by far the most frequent event, and differs from its neighbour in its text and its number; so the
bytes before the text are made once per item and a delta costs one string encoding and one concatenation. Message and
reasoning items begin with their first delta: an empty part shows nothing and takes no index. Ids of items follow from
the response's id and their index, so an answer looks the same streamed, whole, and read from the store.

``Stream.final`` is the whole response object from the moment ``send(Finish)`` returns: whoever stores answers does so
before writing the bytes that ``send`` gave, so that a caller who has seen ``response.completed`` can refer to it.

Source: OpenAI's Responses streaming reference. Comments are safe keepalives; unknown event types are not.
"""

from __future__ import annotations

from gateway.contracts import JsonObject, ResponseMeta
from gateway.protocols.responses.envelope import encode_usage, envelope, outcome
from gateway.protocols.responses.frames import Frames
from gateway.protocols.responses.output import Item, Items
from gateway.wire.json import dump
from gateway.wire.sse import COMMENT
from ir.errors import ApiError
from ir.events import Event, Finish, PartDelta, PartEnd, PartStart, ResponseStart
from ir.request import Request
from ir.response import Response


def encode_response(response: Response, request: Request, meta: ResponseMeta) -> bytes:
    """The body of a non-streamed answer, equal to ``Stream.final`` of the same answer."""
    return dump(response_object(response, request, meta))


def response_object(response: Response, request: Request, meta: ResponseMeta) -> JsonObject:
    """The same as a dictionary, for the store."""
    items = Items(request, meta)
    output: list[JsonObject] = []
    for part in response.parts:
        item = items.begin(PartStart(part.kind, part.call_id, part.name), len(output))
        if item is not None and (part.text or item.at_once):
            output.append(item.finish(part.text))
    usage = encode_usage(response.usage, meta.input_tokens)
    return {**response.extras.of("responses"), **envelope(request, meta), **outcome(response.finish, output, usage)}


class Stream:
    """One streamed answer."""

    def __init__(self, request: Request, meta: ResponseMeta) -> None:
        self.final: JsonObject | None = None
        self._input_tokens = meta.input_tokens
        self._items = Items(request, meta)
        self._frames = Frames(request, meta)
        self._output: list[JsonObject] = []
        self._item: Item | None = None
        self._begun = False
        self._pieces: list[str] = []

    def send(self, event: Event) -> bytes:
        if type(event) is PartDelta:
            return self._delta(event.text)
        match event:
            case ResponseStart():
                return self._frames.start()
            case PartStart():
                return self._open(event)
            case PartEnd():
                return self._close()
            case Finish():
                return self._finish(event)
            case _:
                raise TypeError(f"no event: {type(event).__name__}")

    def fail(self, error: ApiError) -> bytes:
        return self._frames.fail(error, self._output)

    def idle(self, alive: bool) -> bytes:
        return COMMENT

    def _delta(self, text: str) -> bytes:
        item = self._item
        if item is None:
            return b""
        self._pieces.append(text)
        opening = b""
        if not self._begun:
            self._begun = True
            opening = item.open(self._frames.event)
        if not item.head:
            return opening
        number, self._frames.sequence = self._frames.sequence, self._frames.sequence + 1
        return opening + item.head + dump(text) + b',"sequence_number":%d}\n\n' % number

    def _open(self, start: PartStart) -> bytes:
        item = self._item = self._items.begin(start, len(self._output))
        self._pieces = []
        self._begun = item is not None and item.at_once
        return item.open(self._frames.event) if item is not None and item.at_once else b""

    def _close(self) -> bytes:
        item, self._item = self._item, None
        if item is None or not self._begun:
            return b""
        text = "".join(self._pieces)
        finished = item.finish(text)
        self._output.append(finished)
        return item.close(finished, text, self._frames.event)

    def _finish(self, finish: Finish) -> bytes:
        usage = encode_usage(finish.usage, self._input_tokens)
        changing = {**finish.extras.of("responses"), **outcome(finish.reason, self._output, usage)}
        self.final = self._frames.whole(changing)
        return self._frames.start() + self._frames.response(f"response.{changing['status']}", changing)
