from __future__ import annotations

from ir.events import Finish, FinishReason, ResponseStart, Unified
from ir.extras import NO_EXTRAS, Extras, extras, join
from ir.response import fold

A, B = extras("chat", {"a": 1, "c": 1}), extras("chat", {"b": 2, "c": 2})


def test_no_fields_are_no_extras() -> None:
    assert extras("chat", {}) is NO_EXTRAS


def test_only_the_same_protocol_sees_the_fields() -> None:
    assert A.of("chat") == {"a": 1, "c": 1}
    assert A.of("messages") == {}
    assert NO_EXTRAS.of("") == {}


def test_joined_extras_are_of_one_protocol() -> None:
    assert join(A, B) == Extras("chat", {"a": 1, "b": 2, "c": 2})
    assert join(A, NO_EXTRAS) is A
    assert join(NO_EXTRAS, A) is A
    assert join(A, extras("messages", {"x": 1})).protocol == "messages"


def test_an_answer_has_what_came_at_its_start_and_at_its_end() -> None:
    end = Finish(FinishReason(Unified.STOP), extras=B)
    assert fold([ResponseStart("", A), end]).extras == join(A, B)
