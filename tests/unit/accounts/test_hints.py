from __future__ import annotations

import pytest

from accounts.hints import BELIEVED, Hints


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_rest_is_believed_for_a_while_and_its_end_known_as_long() -> None:
    clock = Clock()
    hints = Hints(clock)
    hints.hear(1, "m", 600.0)
    hints.hear(2, "m", 1.0)
    clock.now += 2
    assert hints.cooled() == {(1, "m")}
    assert hints.left(1, "m") == pytest.approx(598.0)
    assert (hints.left(2, "m"), hints.left(1, "other")) == (0.0, 0.0)
    clock.now += BELIEVED
    assert hints.cooled() == set()
    assert hints.left(1, "m") == 0.0


def test_what_was_heard_can_be_forgotten_at_once() -> None:
    hints = Hints(Clock())
    hints.hear(1, "m", 600.0)
    hints.forget()
    assert (hints.cooled(), hints.left(1, "m")) == (set(), 0.0)
