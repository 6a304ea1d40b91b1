"""Items of a Responses stream → parts in grammar order.

A text or reasoning part opens with its first text, a call as soon as its name is known. An item that is done ends its
part; one that never is, ends with the response. The paragraphs of a thinking summary are set apart by a blank line.
"""

from __future__ import annotations

from gateway.contracts import JsonObject
from gateway.protocols.openai.fields import text_or_empty
from gateway.protocols.openai.functions import NO_ARGUMENTS, is_object
from ir.errors import Fault, Reason, Stage
from ir.events import Event, PartKind, PartStart
from ir.lanes import Lanes

KINDS = {"message": PartKind.TEXT, "reasoning": PartKind.REASONING, "function_call": PartKind.TOOL_CALL}
PARAGRAPH = "\n\n"


class _Item:
    """One item: ``pieces`` is what came of it, ``section`` the event type and index that the last piece belongs to."""

    def __init__(self, kind: PartKind, index: int) -> None:
        self.kind = kind
        self.index = index
        self.call_id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.section: tuple[object, object] | None = None
        self.open = False
        self.ended = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Assembly:
    """Every method appends to ``out`` and raises ``Fault`` when a call cannot be made whole."""

    def __init__(self) -> None:
        self.response_id = ""
        self.has_calls = False
        self._lanes = Lanes()
        self._items: dict[int, _Item] = {}

    def add(self, event: JsonObject, out: list[Event]) -> None:
        """An item begins."""
        found = self._read(event, out)
        if found is not None and found.kind is PartKind.TOOL_CALL:
            self._open(found, out)

    def write(self, event: JsonObject, kind: PartKind, out: list[Event]) -> None:
        """A piece of text or thinking. Of thinking, the first form that comes counts: summary or full text."""
        item = self._find(event, kind)
        piece = text_or_empty(event.get("delta"))
        if item.ended or item.kind is not kind or not piece:
            return
        section = (event["type"], event.get("summary_index", event.get("content_index")))
        if item.section is not None and item.section != section and kind is PartKind.REASONING:
            if item.section[0] != section[0]:
                return
            piece = PARAGRAPH + piece
        item.section = section
        self._write(item, piece, out)

    def write_arguments(self, event: JsonObject, out: list[Event]) -> None:
        item = self._find(event, PartKind.TOOL_CALL)
        piece = text_or_empty(event.get("delta"))
        if piece and not item.ended and item.kind is PartKind.TOOL_CALL:
            self._write(item, piece, out)

    def fill(self, event: JsonObject, kind: PartKind, field: str, out: list[Event]) -> None:
        """The whole of a text whose deltas may have been left out."""
        item = self._find(event, kind)
        whole = text_or_empty(event.get(field))
        if whole and not item.pieces and not item.ended and item.kind is kind:
            self._write(item, whole, out)

    def end(self, event: JsonObject, out: list[Event]) -> None:
        """An item is done, and tells what of it was not streamed."""
        item = self._read(event, out)
        if item is not None and not item.ended:
            self._complete(item, event["item"], out)

    def finish(self, output: object, out: list[Event]) -> None:
        """The response is over: items that it holds and that never came, and ends that never came."""
        for index, entry in enumerate(output if isinstance(output, list) else ()):
            known = self._items.get(index)
            if isinstance(entry, dict) and (known is None or known.kind is KINDS.get(text_or_empty(entry.get("type")))):
                self.end({"output_index": index, "item": entry}, out)
        for item in self._items.values():
            if not item.ended:
                self._complete(item, {}, out)

    def _find(self, event: JsonObject, kind: PartKind) -> _Item:
        index = event.get("output_index")
        if not isinstance(index, int):
            index = self._last_open(kind)
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = _Item(kind, index)
        return item

    def _last_open(self, kind: PartKind) -> int:
        for index, item in reversed(self._items.items()):
            if item.kind is kind and not item.ended:
                return index
        return max(self._items, default=-1) + 1

    def _read(self, event: JsonObject, out: list[Event]) -> _Item | None:
        """The item of an added or done event, its names filled in; ``None`` for what is no part of an answer."""
        entry = event.get("item")
        kind = KINDS.get(text_or_empty(entry.get("type"))) if isinstance(entry, dict) else None
        if kind is None or not isinstance(entry, dict):
            return None
        item = self._find(event, kind)
        if item.kind is not kind:
            raise Fault(Reason.PROTOCOL, Stage.CONTENT)
        if kind is PartKind.TOOL_CALL and not item.open:
            item.call_id = item.call_id or text_or_empty(entry.get("call_id"))
            item.name = item.name or text_or_empty(entry.get("name"))
        return item

    def _open(self, item: _Item, out: list[Event]) -> None:
        if item.open or (item.kind is PartKind.TOOL_CALL and not item.name):
            return
        item.open = True
        if item.kind is PartKind.TOOL_CALL:
            self.has_calls = True
            # ids must differ between the turns of a history, so the answer's own id is part of it
            call_id = item.call_id or f"call_{self.response_id}_{item.index}"
            self._lanes.start(item.index, PartStart(item.kind, call_id, item.name), out)
        else:
            self._lanes.start(item.index, PartStart(item.kind), out)
        self._lanes.delta(item.index, item.text, out)

    def _write(self, item: _Item, piece: str, out: list[Event]) -> None:
        self._open(item, out)
        item.pieces.append(piece)
        if item.open:
            self._lanes.delta(item.index, piece, out)

    def _complete(self, item: _Item, entry: JsonObject, out: list[Event]) -> None:
        whole = _text_of(entry, item.kind)
        said = item.text
        if len(whole) > len(said) and whole.startswith(said):
            self._write(item, whole[len(said) :], out)
        if item.kind is PartKind.TOOL_CALL:
            self._complete_call(item, out)
        if item.open:
            self._lanes.end(item.index, "", out)
        item.ended = True

    def _complete_call(self, item: _Item, out: list[Event]) -> None:
        self._open(item, out)
        if not item.text.strip():
            self._write(item, NO_ARGUMENTS, out)
        if not item.open or not is_object(item.text):
            raise Fault(Reason.BROKEN_TOOL_CALL, Stage.CONTENT)


def _text_of(entry: JsonObject, kind: PartKind) -> str:
    """The text that a whole item holds; "" for what it does not."""
    if kind is PartKind.TOOL_CALL:
        return text_or_empty(entry.get("arguments"))
    if kind is PartKind.TEXT:
        return "".join(_texts(entry.get("content")))
    return PARAGRAPH.join(_texts(entry.get("summary")) or _texts(entry.get("content")))


def _texts(parts: object) -> list[str]:
    entries = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [text for part in entries if (text := text_or_empty(part.get("text") or part.get("refusal")))]
