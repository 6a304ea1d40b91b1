from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.grammar import TABLE, Checker, GrammarError, State, check
from ir.response import Response, fold, unfold
from tests import strategies

EXAMPLES: dict[type[Event], Event] = {
    ResponseStart: ResponseStart(),
    PartStart: PartStart(PartKind.TEXT),
    PartDelta: PartDelta("x"),
    PartEnd: PartEnd(),
    Finish: Finish(FinishReason(Unified.STOP)),
}


@given(strategies.streams())
def test_legal_streams_pass(events: list[Event]) -> None:
    check(events)


@given(strategies.streams(), st.data())
def test_a_truncated_stream_never_passes(events: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events) - 1))
    with pytest.raises(GrammarError):
        check(events[:cut])


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_the_table_alone_decides_what_is_legal(state: State, kind: type[Event]) -> None:
    checker = Checker()
    checker.state = state
    if kind in TABLE[state]:
        checker.see(EXAMPLES[kind])
        assert checker.state is TABLE[state][kind]
    else:
        with pytest.raises(GrammarError, match=kind.__name__):
            checker.see(EXAMPLES[kind])


@given(strategies.responses())
def test_a_response_unfolded_folds_back_into_itself(response: Response) -> None:
    assert fold(unfold(response)) == response


@given(strategies.streams())
def test_folding_joins_the_deltas_of_each_part(events: list[Event]) -> None:
    deltas = "".join(event.text for event in events if isinstance(event, PartDelta))
    assert "".join(part.text for part in fold(events).parts) == deltas
