"""Streams that run side by side in threads while a test does something to the house."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.functional.callers import CHAT, PATHS, piece_of, streaming
from tests.plugins.house import House, eventually


class Flow(threading.Thread):
    """One streamed answer, read to its end. ``broken`` when the connection ended before the stream did."""

    def __init__(self, house: House, path: str, model: str, text: str = "one two three") -> None:
        super().__init__()
        self.path = path
        self.request_id = ""
        self.status = 0
        self.frames: list[tuple[str, Any]] = []
        self.broken = False
        self._asked = (house, path, model, text)
        self.start()

    def run(self) -> None:
        try:
            with streaming(*self._asked) as stream:
                self.request_id, self.status = stream.request_id, stream.answer.status_code
                if self.status == 200:
                    self.frames.extend(iter(stream))
        except httpx2.HTTPError:
            self.broken = True

    @property
    def text(self) -> str:
        return "".join(piece_of(self.path, data) for _, data in self.frames)

    @property
    def starts(self) -> int:
        """How often the answer began."""
        if self.path == CHAT:
            return sum(_delta(data).get("role") == "assistant" for _, data in self.frames)
        return sum(event == "message_start" for event, _ in self.frames)

    @property
    def ends(self) -> list[str]:
        """Whatever ended the answer."""
        if self.path == CHAT:
            finishes = [data["choices"][0]["finish_reason"] for _, data in self.frames if _finishes(data)]
            return [*finishes, *(data for _, data in self.frames if data == "[DONE]")]
        return [event for event, _ in self.frames if event in ("message_stop", "error")]

    @property
    def whole(self) -> bool:
        """One start, one regular end, and nothing after it."""
        ends = ["stop", "[DONE]"] if self.path == CHAT else ["message_stop"]
        last = self.frames[-1] if self.frames else ("", "")
        closed = last[1] == "[DONE]" if self.path == CHAT else last[0] == "message_stop"
        return not self.broken and self.starts == 1 and self.ends == ends and closed


def _delta(data: Any) -> dict[str, Any]:
    choices = data.get("choices") if isinstance(data, dict) else None
    return choices[0]["delta"] if choices else {}


def _finishes(data: Any) -> bool:
    return isinstance(data, dict) and bool(data.get("choices")) and data["choices"][0]["finish_reason"] is not None


@contextmanager
def flowing(house: House, model: str, count: int) -> Iterator[list[Flow]]:
    """``count`` streams in both protocols, all of which have begun; on the way out they are waited for."""
    flows = [Flow(house, PATHS[number % 2], model) for number in range(count)]
    eventually(lambda: all(flow.text for flow in flows), 15)
    try:
        yield flows
    finally:
        for flow in flows:
            flow.join(60)
