from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversations.facts import Ending, Kind, Status, brought_items, derive_status, project, record_turn

USER = {"type": "message", "role": "user", "content": "q"}
DEVELOPER = {"role": "developer", "content": "rules"}
ANSWER = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "1"}
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "v1.x"}
ITEMS: list[dict[str, Any]] = [
    USER,
    DEVELOPER,
    ANSWER,
    CALL,
    RESULT,
    COMPACTION,
    {"type": "web_search_call", "id": "w"},
]

items = st.lists(st.sampled_from(ITEMS), max_size=8)


@pytest.mark.parametrize(
    ("item", "kind", "call_id", "item_id"),
    [
        (USER, Kind.USER_MESSAGE, "", ""),
        (DEVELOPER, Kind.PROMPT_CONTEXT, "", ""),
        (ANSWER, Kind.ASSISTANT_TEXT, "", "msg_1"),
        (CALL, Kind.TOOL_CALL, "c1", "fc_1"),
        (RESULT, Kind.TOOL_RESULT, "c1", ""),
        (COMPACTION, Kind.COMPACTED_SUMMARY, "", "cmp_1"),
        ({"type": "web_search_call", "id": "w"}, Kind.MODEL_MESSAGE, "", "w"),
        ({"type": "message", "role": "critic"}, Kind.MODEL_MESSAGE, "", ""),
        ({"type": "reasoning", "id": 7}, Kind.REASONING, "", ""),
    ],
)
def test_an_item_becomes_a_fact_of_its_kind(item: dict[str, Any], kind: Kind, call_id: str, item_id: str) -> None:
    fact = record_turn("t", [item], [], Ending.COMPLETED)[0]
    assert (fact.kind, fact.tool_call_id, fact.item_id, fact.payload) == (kind, call_id, item_id, item)


@given(items, items)
def test_a_turn_gives_back_what_was_brought_and_numbers_its_facts(brought: list[Any], made: list[Any]) -> None:
    facts = record_turn("t", brought, made, Ending.COMPLETED)
    assert brought_items(facts) == brought
    assert [fact.seq for fact in facts] == list(range(len(brought) + len(made) + 1))
    assert len({fact.key for fact in facts}) == len(facts)


@given(items)
def test_projecting_twice_changes_nothing(brought: list[Any]) -> None:
    once = project(record_turn("t", brought, [], Ending.COMPLETED))
    assert project(record_turn("t", once, [], Ending.COMPLETED)) == once


def test_a_compaction_replaces_what_came_before_it_except_standing_instructions() -> None:
    facts = record_turn("t", [DEVELOPER, USER, CALL, RESULT, COMPACTION, USER], [ANSWER], Ending.COMPLETED)
    assert project(facts) == [DEVELOPER, COMPACTION, USER, ANSWER]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Ending.COMPLETED, Status.COMPLETED),
        (Ending.INCOMPLETE, Status.COMPLETED),
        (Ending.PROVIDER_ERROR, Status.PROVIDER_ERROR),
        (Ending.FAILED, Status.FAILED),
        (Ending.CANCELED, Status.CANCELED),
    ],
)
def test_terminal_metadata_wins(ending: Ending, status: Status) -> None:
    assert derive_status(record_turn("t", [USER], [CALL], ending)) is status


def test_without_an_end_the_status_follows_from_what_happened() -> None:
    facts = record_turn("t", [USER, CALL, RESULT], [], Ending.COMPLETED)
    assert derive_status([]) is Status.IDLE
    assert derive_status(facts[:1]) is Status.RUNNING
    assert derive_status(facts[:2]) is Status.WAITING_TOOL
    assert derive_status(facts[:3]) is Status.RUNNING
