from __future__ import annotations

from gateway.wire.sse import Reader


def test_an_id_is_the_events_own_and_does_not_stick() -> None:
    frames = Reader().feed(b"id: 1\ndata: a\n\ndata: b\n\nid: 2\nevent: x\ndata: c\n\n")
    assert [(frame.event, frame.data, frame.id) for frame in frames] == [
        ("message", "a", "1"),
        ("message", "b", ""),
        ("x", "c", "2"),
    ]
