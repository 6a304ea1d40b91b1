from __future__ import annotations

import pytest

from bench.load import find_fault
from bench.mock import Shape

SHAPE = Shape(3, 0)
START = b'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def deltas(*numbers: int) -> bytes:
    return b"".join(
        b'data: {"choices":[{"delta":{"content":"%07d@%016d "},"finish_reason":null}]}\n\n' % (number, 1)
        for number in numbers
    )


WHOLE = START + deltas(0, 1, 2) + FINISH + DONE


def test_a_whole_stream_has_no_fault() -> None:
    assert find_fault(200, WHOLE, SHAPE, True) is None


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (START + deltas(0, 2) + FINISH + DONE, "2 of 3 deltas"),
        (START + deltas(0, 2, 1) + FINISH + DONE, "out of order"),
        (START + deltas(0, 1, 1, 2) + FINISH + DONE, "4 of 3 deltas"),
        (START + START + deltas(0, 1, 2) + FINISH + DONE, "2 starts"),
        (START + deltas(0, 1, 2) + FINISH + FINISH + DONE, "2 terminals"),
        (START + deltas(0, 1, 2) + DONE, "0 terminals"),
        (START + deltas(0, 1, 2) + FINISH, r"one \[DONE\]"),
        (WHOLE + DONE, r"one \[DONE\]"),
    ],
)
def test_a_stream_that_is_not_whole_is_a_fault(body: bytes, fault: str) -> None:
    found = find_fault(200, body, SHAPE, True)
    assert found is not None
    assert fault.replace("\\", "") in found


def test_a_refusal_is_a_fault_with_its_status() -> None:
    assert find_fault(503, b"busy", SHAPE, False) == "status 503: busy"
