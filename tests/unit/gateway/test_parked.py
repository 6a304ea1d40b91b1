from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from accounts.compile import AccountKind, AccountView, Transport
from accounts.naming import Names
from core.settings import Settings
from gateway import parked
from gateway.contracts import Clocks, ParkableRun
from gateway.parked import Owner, Parked, Spent, Waiting, answers_to, digest, own_share, results_of, whole
from gateway.snapshot import Snapshot
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.request import Image, Message, Reasoning, Request, Text, Tool, ToolCall, ToolChoice, ToolMode, ToolResult
from ir.response import Part, Response
from ir.usage import Usage, UsageSource

ACCOUNT = AccountView(
    1, "a", AccountKind.CURSOR, Transport.AGENT_RPC, "http://up", frozenset({1}), credential_id=5, slots=3
)  # fmt: skip
OWNER = Owner(1, 7)
SEALED = b"sealed"


class FakeRun:
    """A run that waits until it is told what happens to it."""

    last_sign = 0.0
    waits = True

    def __init__(self, weight: int = 1) -> None:
        self.weight = weight
        self.cancelled = 0
        self.lose: Callable[[], object] = lambda: None

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        yield ()

    def park(self, lost: Callable[[], object]) -> None:
        self.lose = lost

    async def resume(self, request: Request, results: Sequence[ToolResult], clocks: Clocks) -> None: ...

    def cancel(self) -> None:
        self.cancelled += 1

    async def close(self) -> None:
        self.cancel()


class Room:
    """Parked streams with a clock and a configuration that tests move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.settings = Settings()
        self.current: Snapshot | None = self.compose((ACCOUNT,))
        self.parked = Parked(lambda: self.current, lambda: self.now)

    def compose(self, accounts: tuple[AccountView, ...], sealed: bytes = SEALED, **settings: Any) -> Snapshot:
        return Snapshot(1, Settings(**settings), {}, accounts, Names({}), {5: sealed})

    def put(
        self, *call_ids: str, owner: Owner = OWNER, weight: int = 1, account: AccountView = ACCOUNT
    ) -> tuple[FakeRun, Waiting]:
        run = FakeRun(weight)
        waiting = Waiting(run, owner, account, SEALED, b"digest", said(*call_ids))
        self.parked.put(waiting, self.settings)
        return run, waiting

    def find(self, *call_ids: str, owner: Owner = OWNER) -> Waiting | None:
        return self.parked.find(owner, [ToolResult(one, "r") for one in call_ids])


def said(*call_ids: str, text: str = "") -> Response:
    calls = tuple(Part(PartKind.TOOL_CALL, '{"a":1}', one, "t") for one in call_ids)
    parts = (*([Part(PartKind.TEXT, text)] if text else []), *calls)
    return Response(parts, FinishReason(Unified.TOOL_CALLS), Usage())


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    yield room
    room.parked.close()


def test_the_fake_is_a_run_that_can_be_parked() -> None:
    assert isinstance(FakeRun(), ParkableRun)


async def test_a_run_is_found_by_exactly_its_calls_in_any_order(room: Room) -> None:
    _, waiting = room.put("c1", "c2")
    assert room.find("c2", "c1") is waiting
    assert room.find("c1") is None
    assert room.find("c1", "c2", "c3") is None


@pytest.mark.parametrize("owner", [Owner(1, 8), Owner(2, 7), Owner(None, None)])
async def test_a_run_is_found_by_nobody_but_its_owner(room: Room, owner: Owner) -> None:
    room.put("c1")
    assert room.find("c1", owner=owner) is None


async def test_a_run_is_taken_once_and_then_the_takers(room: Room) -> None:
    run, waiting = room.put("c1")
    assert room.parked.take(waiting)
    assert not room.parked.take(waiting)
    assert room.find("c1") is None
    run.lose()
    room.parked.close()
    assert run.cancelled == 0


async def test_a_run_is_kept_for_its_time_and_no_longer(room: Room) -> None:
    run, waiting = room.put("c1")
    room.now += room.settings.parked_ttl
    assert not room.parked.take(waiting)
    assert (run.cancelled, len(room.parked)) == (1, 0)


async def test_a_lost_run_is_closed_at_once(room: Room) -> None:
    run, _ = room.put("c1")
    run.lose()
    run.lose()
    assert (run.cancelled, len(room.parked)) == (1, 0)


async def test_the_same_calls_again_replace_the_older_run(room: Room) -> None:
    old, _ = room.put("c1")
    _, new = room.put("c1")
    assert old.cancelled == 1
    assert room.find("c1") is new


async def test_the_oldest_goes_when_there_are_too_many(room: Room) -> None:
    room.settings = Settings(parked_most=2)
    first, _ = room.put("c1")
    _, second = room.put("c2")
    _, third = room.put("c3")
    assert first.cancelled == 1
    assert [room.find("c2"), room.find("c3")] == [second, third]


async def test_an_account_keeps_no_more_runs_than_it_has_slots(room: Room) -> None:
    other = structs.replace(ACCOUNT, id=2)
    runs = [room.put(f"c{number}")[0] for number in range(ACCOUNT.slots + 2)]
    room.put("other", account=other)
    assert [run.cancelled for run in runs] == [1, 1, 0, 0, 0]
    assert room.find("other") is not None


async def test_what_they_hold_in_memory_is_bounded_too(room: Room) -> None:
    first, _ = room.put("c1", weight=parked.MOST_BYTES // 2)
    room.put("c2", weight=parked.MOST_BYTES // 2)
    assert first.cancelled == 0
    huge, _ = room.put("c3", weight=parked.MOST_BYTES + 1)
    assert (first.cancelled, huge.cancelled, len(room.parked)) == (1, 1, 0)


CHANGES: dict[str, Callable[[Room], Snapshot | None]] = {
    "account gone": lambda room: room.compose(()),
    "account disabled": lambda room: room.compose((structs.replace(ACCOUNT, state="disabled"),)),
    "other address": lambda room: room.compose((structs.replace(ACCOUNT, base_url="http://other"),)),
    "other credential": lambda room: room.compose((ACCOUNT,), sealed=b"new"),
    "switched off": lambda room: room.compose((ACCOUNT,), parked_streams=False),
    "no configuration": lambda room: None,
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_run_ends_with_what_it_was_opened_under(room: Room, change: str) -> None:
    run, waiting = room.put("c1")
    room.current = CHANGES[change](room)
    assert not room.parked.take(waiting)
    assert run.cancelled == 1


async def test_changes_and_the_end_of_the_time_are_noticed_without_a_request(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked, "LOOK_EVERY", 0.01)
    expired, _ = room.put("c1")
    await asyncio.sleep(0.05)
    assert expired.cancelled == 0
    room.now += room.settings.parked_ttl
    await asyncio.sleep(0.05)
    assert expired.cancelled == 1
    disabled, _ = room.put("c2")
    room.current = room.compose(())
    await asyncio.sleep(0.05)
    assert disabled.cancelled == 1


async def test_at_the_end_all_are_closed(room: Room) -> None:
    runs = [room.put(f"c{number}")[0] for number in range(3)]
    room.parked.close()
    assert [run.cancelled for run in runs] == [1, 1, 1]


TOOL = Tool("t", "does", {"type": "object", "properties": {"a": {"type": "integer"}}})
ASKED = Request("m", (Message("user", (Text("go"), Image("image/png", "AAAA"))),), system="s", tools=(TOOL,))


def digest_of(request: Request, model: str = "m-up", parameters: dict[str, str] | None = None) -> bytes:
    return digest(request, model, parameters or {"effort": "high"}, request.messages)


OTHERS: dict[str, dict[str, Any]] = {
    "text": {"messages": (Message("user", (Text("go on"), Image("image/png", "AAAA"))),)},
    "image": {"messages": (Message("user", (Text("go"), Image("image/png", "AAAB"))),)},
    "role": {"messages": (Message("assistant", ASKED.messages[0].content),)},
    "split": {"messages": (Message("user", (Text("g"), Text("o"), Image("image/png", "AAAA"))),)},
    "system": {"system": "t"},
    "no tools": {"tools": ()},
    "description": {"tools": (structs.replace(TOOL, description="does not"),)},
    "schema": {"tools": (structs.replace(TOOL, schema={"type": "object"}),)},
    "choice": {"tool_choice": ToolChoice(ToolMode.ALLOWED, ("t",))},
    "one call at a time": {"parallel_tool_calls": False},
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_the_upstream_was_told_makes_the_digest(other: str) -> None:
    assert digest_of(structs.replace(ASKED, **OTHERS[other])) != digest_of(ASKED)


def test_the_model_and_its_parameters_make_the_digest() -> None:
    assert len({digest_of(ASKED), digest_of(ASKED, "m2"), digest_of(ASKED, parameters={"effort": "low"})}) == 3


def test_what_is_never_told_does_not_change_the_digest() -> None:
    thought = (Message("user", (Reasoning("hm", "sig"), *ASKED.messages[0].content)),)
    turned = Tool("t", "does", {"properties": {"a": {"type": "integer"}}, "type": "object"})
    other = structs.replace(
        ASKED, messages=thought, tools=(turned,), stream=True, max_output_tokens=5, stop=("x",), temperature=1.0,
        parallel_tool_calls=True, ignored=("n",), store=True,
    )  # fmt: skip
    assert digest_of(other) == digest_of(ASKED)


def test_a_request_beyond_comparison_is_said_to_be() -> None:
    deep: Any = {}
    for _ in range(20_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="too deep"):
        digest_of(structs.replace(ASKED, tools=(structs.replace(TOOL, schema=deep),)))


def came_back(*parts: Any) -> Request:
    return Request("m", (*ASKED.messages, Message("assistant", parts), Message("user", (ToolResult("c1", "r"),))))


@pytest.mark.parametrize(
    ("parts", "same"),
    [
        ((Text("Let me see."), ToolCall("c1", "t", '{"a":1}')), True),
        ((Text(" Let me\nsee. "), ToolCall("c1", "t", '{ "a" : 1 }')), True),
        ((ToolCall("c1", "t", '{"a":1}'),), True),
        ((Reasoning("hm"), Text("Let me see."), ToolCall("c1", "t", '{"a":1}')), True),
        ((Text("Let me be."), ToolCall("c1", "t", '{"a":1}')), False),
        ((ToolCall("c1", "t", '{"a":2}'),), False),
        ((ToolCall("c1", "u", '{"a":1}'),), False),
        ((ToolCall("c2", "t", '{"a":1}'),), False),
        ((ToolCall("c1", "t", "nonsense"),), False),
        ((ToolCall("c1", "t", '{"a":1}'), ToolCall("c2", "t", '{"a":1}')), False),
    ],
)
def test_the_answer_has_to_come_back_as_it_went_out(parts: tuple[Any, ...], same: bool) -> None:
    assert answers_to(came_back(*parts), said("c1", text="Let me see.")) is same


def test_results_are_those_of_the_last_message_alone() -> None:
    assert results_of(came_back(ToolCall("c1", "t", "{}"))) == (ToolResult("c1", "r"),)
    assert results_of(ASKED) == ()
    assert results_of(structs.replace(ASKED, messages=())) == ()


def test_calls_that_share_an_id_are_no_answer_to_wait_for() -> None:
    def answer(*call_ids: str) -> list[Event]:
        events: list[Event] = [ResponseStart()]
        for one in call_ids:
            events += [PartStart(PartKind.TOOL_CALL, one, "t"), PartDelta("{}"), PartEnd()]
        return [*events, Finish(FinishReason(Unified.TOOL_CALLS))]

    assert whole(answer("c1", "c1")) is None
    assert whole(answer("c1", "c2")) is not None
    assert whole(answer()) is None


counts = st.integers(0, 1000)
usages = st.builds(
    Usage, st.none() | counts, counts, st.none() | counts, st.none() | counts, st.none() | counts
)  # fmt: skip


@given(usages, counts, counts)
def test_the_answers_of_a_run_come_to_what_it_cost(usage: Usage, spent_input: int, spent_output: int) -> None:
    share = own_share(usage, Spent(spent_input, spent_output))
    assert share.input_total == max(0, usage.input_total - spent_input)
    assert share.output == max(0, (usage.output or 0) - spent_output)
    assert (share.reasoning or 0) <= share.output
    assert (share.cache_read is None) == (usage.cache_read is None)
    assert share.source is UsageSource.ESTIMATED


def test_a_run_that_nobody_counted_stays_uncounted() -> None:
    assert own_share(Usage(), Spent(5, 5)) == Usage()


def test_what_was_charged_adds_up() -> None:
    assert Spent().plus(Usage(3, 2, cache_read=4)).plus(Usage()) == Spent(7, 2)
