"""The laws of a run's stream: however it is cut into reads and connections, every word comes once and in order."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.cloud.stream import Piece, RunStream
from ir.events import PartKind

Said = list[tuple[bool, str]]
words: st.SearchStrategy[Said] = st.lists(st.tuples(st.booleans(), st.text(min_size=1, max_size=6)), max_size=8)


def frames(said: Said, twins: list[int]) -> list[bytes]:
    """One element an event: each with an id; ``twins`` says whether a twin comes before (1), after (2) or not."""
    made = []
    for number, (thinks, text) in enumerate(said):
        simple = _frame("thinking" if thinks else "assistant", {"text": text}, number)
        kind = "thinking-delta" if thinks else "text-delta"
        twin = _frame("interaction_update", {"type": kind, "text": text}, number)
        made += {0: [simple], 1: [twin, simple], 2: [simple, twin]}[twins[number % len(twins)]]
    whole = "".join(text for thinks, text in said if not thinks)
    return [*made, _frame("result", {"status": "FINISHED", "text": whole}, len(said))]


def _frame(event: str, data: object, number: int) -> bytes:
    return f"id: 17-{number}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


def expected(said: Said) -> list[Piece]:
    return [(PartKind.REASONING if thinks else PartKind.TEXT, text) for thinks, text in said]


@given(words, st.lists(st.integers(0, 2), min_size=1, max_size=3), st.integers(1, 40))
def test_reads_may_be_cut_anywhere(said: Said, twins: list[int], size: int) -> None:
    wire = b"".join(frames(said, twins))
    stream = RunStream()
    pieces = [piece for start in range(0, len(wire), size) for piece in stream.feed(wire[start : start + size])]
    assert pieces == expected(said)
    assert stream.over


@given(words, st.lists(st.integers(0, 2), min_size=1, max_size=3), st.lists(st.integers(0, 2000), max_size=4))
def test_connections_may_break_anywhere_and_repeat_the_last_frames(
    said: Said, twins: list[int], breaks: list[int]
) -> None:
    events = frames(said, twins)
    stream = RunStream()
    pieces: list[Piece] = []
    for cut in [*breaks, None]:
        # The server goes on at the last id it is told, and says the events under it once more.
        last = f"id: {stream.last_id}\n".encode()
        start = next((number for number, event in enumerate(events) if stream.last_id and event.startswith(last)), 0)
        wire = b": hello\n\n" + b"".join(events[start:])
        stream.reconnect()
        pieces += stream.feed(wire if cut is None else wire[: cut % (len(wire) + 1)])
        if stream.over:
            break
    assert pieces == expected(said)
    assert stream.over
