from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bench import mock
from bench.relay import Frames


@given(st.lists(st.integers(min_value=0, max_value=400), max_size=8))
def test_frames_come_out_the_same_however_they_are_cut(cuts: list[int]) -> None:
    data = b"".join(mock.deltas(9)) + b"\x02\0\0\0\x02{}"
    whole = list(Frames().feed(data))
    frames = Frames()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:stop] for start, stop in pairwise(edges)]
    assert [message for piece in pieces for message in frames.feed(piece)] == whole
    assert len(whole) == 9
