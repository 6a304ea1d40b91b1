"""The answer to a compaction: the text of the summary turn, wrapped into one opaque item.

The same item in three bodies: an ordinary response (streamed or whole) for a ``compaction_trigger``, and the object
``response.compaction`` of ``/v1/responses/compact`` behind the user's messages. Nothing of the summary is shown while
it is written; keepalives cover the wait. Source: OpenAI's Responses reference, "Compact a response".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.contracts import JsonObject, ResponseMeta
from gateway.protocols.responses.compaction import compaction_item, seal_summary
from gateway.protocols.responses.envelope import encode_usage, envelope, progress, response_id
from gateway.protocols.responses.frames import Frames
from gateway.wire.json import dump
from gateway.wire.sse import COMMENT
from ir.errors import ApiError, Culprit, Kind
from ir.events import Event, Finish, PartDelta, PartKind, PartStart, ResponseStart
from ir.request import Request
from ir.response import Response

KEPT = "kept_messages"
"""Where ``Request.echo`` holds the user's messages for ``/v1/responses/compact``."""


def encode_summary(response: Response, request: Request, meta: ResponseMeta) -> bytes:
    """The ordinary response object with the item as its whole output."""
    usage = encode_usage(response.usage, meta.input_tokens)
    changing = progress("completed", [_item(_summary_of(response), meta)], usage)
    return dump({**envelope(request, meta), **changing})


def encode_compaction(response: Response, request: Request, meta: ResponseMeta) -> bytes:
    """The object of ``/v1/responses/compact``: what the caller's next request begins with."""
    return dump(
        {
            "id": response_id(meta),
            "object": "response.compaction",
            "created_at": meta.created,
            "output": [*_with_ids(request.echo.get(KEPT, ()), meta), _item(_summary_of(response), meta)],
            "usage": encode_usage(response.usage, meta.input_tokens),
        }
    )


class SummaryStream:
    """One streamed compaction: begin, silence, the item, end."""

    def __init__(self, request: Request, meta: ResponseMeta) -> None:
        self.final: JsonObject | None = None
        self._meta = meta
        self._frames = Frames(request, meta)
        self._pieces: list[str] = []
        self._kind = PartKind.TEXT

    def send(self, event: Event) -> bytes:
        """Raises a 502 when the turn ends without a summary."""
        match event:
            case ResponseStart():
                return self._frames.start()
            case PartStart():
                self._kind = event.kind
            case PartDelta():
                if self._kind is PartKind.TEXT:
                    self._pieces.append(event.text)
            case Finish():
                return self._finish(event)
            case _:
                pass
        return b""

    def fail(self, error: ApiError) -> bytes:
        return self._frames.fail(error, [])

    def idle(self, alive: bool) -> bytes:
        return COMMENT

    def _finish(self, finish: Finish) -> bytes:
        item = _item("".join(self._pieces), self._meta)
        changing = progress("completed", [item], encode_usage(finish.usage, self._meta.input_tokens))
        self.final = self._frames.whole(changing)
        place = {"output_index": 0, "item": item}
        return (
            self._frames.start()
            + self._frames.event("response.output_item.added", place)
            + self._frames.event("response.output_item.done", place)
            + self._frames.response("response.completed", changing)
        )


def _with_ids(messages: Sequence[JsonObject], meta: ResponseMeta) -> Iterator[JsonObject]:
    for index, message in enumerate(messages):
        yield {**message, "id": message.get("id") or f"msg_{meta.response_id}_{index}"}


def _summary_of(response: Response) -> str:
    return "".join(part.text for part in response.of(PartKind.TEXT))


def _item(summary: str, meta: ResponseMeta) -> JsonObject:
    if not summary.strip():
        raise ApiError(
            Kind.UPSTREAM,
            "upstream_empty_response",
            "The upstream wrote no summary of the conversation.",
            culprit=Culprit.UPSTREAM,
        )
    return compaction_item(f"cmp_{meta.response_id}_0", seal_summary(summary, meta.seal))
