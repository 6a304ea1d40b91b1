"""A demanded call that does not come, and an answer that is empty: what is asked next, and what the caller gets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from accounts.compile import AccountKind, AccountView, ModelView, Transport
from accounts.leases import NOBODY, Lease, Refused, Shortage
from accounts.stats import Stats
from accounts.troubles import Troubles
from core.redis_pipe import PipeDown
from core.settings import Settings
from gateway.attempts import Errand
from gateway.contracts import DEFAULT_POLICY, Clocks, Policy, Target
from gateway.failover import Turn
from gateway.pace import Pace
from gateway.rests import Rests
from gateway.retry_budget import RetryBudget
from gateway.routing import Route
from gateway.structured import Check
from gateway.textbridge import wording
from gateway.trace import Tracer
from ir.errors import ApiError, Fault, Reason, Stage
from ir.events import Event, Finish, FinishReason, PartDelta, PartEnd, PartKind, PartStart, ResponseStart, Unified
from ir.grammar import check as check_grammar
from ir.request import Message, Request, Text, ToolMode
from ir.response import fold
from ir.usage import Usage, UsageSource
from ops.record import Record
from tests.unit.gateway.call import FakeBearers
from tests.unit.gateway.textbridge.answers import ask, history
from tests.unit.gateway.textbridge.test_tries import REQUIRED

LENIENT, STRICT = Policy(), Policy(strict_outcome=True)
COST = Usage(input_uncached=10, output=2)
CALL: list[Event] = [PartStart(PartKind.TOOL_CALL, "call_9", "lookup"), PartDelta("{}"), PartEnd()]
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])

Answer = Sequence[Event | Fault]


def said(text: str) -> Answer:
    spoken: list[Event] = [PartStart(PartKind.TEXT), PartDelta(text), PartEnd()] if text else []
    return [ResponseStart(), *spoken, Finish(FinishReason(Unified.STOP), COST)]


CALLED: Answer = [ResponseStart(), *CALL, Finish(FinishReason(Unified.TOOL_CALLS), COST)]


class Said:
    """A run that gives one event a read; a fault in its place is raised."""

    last_sign = 0.0

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        for event in self._answer:
            if isinstance(event, Fault):
                raise event
            yield [event]

    async def close(self) -> None:
        pass


class Asked:
    """An upstream that gives the answers in turn and remembers what it was asked; and the entry of the one request."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.requests: list[Request] = []
        self.targets: list[Target] = []
        self.record = Record(request_id="req_1", started_at=0.0, protocol="chat", endpoint="/")
        self.trace = Tracer()
        self.batches: list[Sequence[Event]] = []
        self._answers = iter(answers)

    async def open(self, request: Request, target: Target, clocks: Clocks, attempt_id: str) -> Said:
        self.requests.append(request)
        self.targets.append(target)
        return Said(next(self._answers))

    async def take(
        self, candidates: Sequence[AccountView], model: str, *, exclude: Collection[int], **_: object
    ) -> Lease | Refused:
        free = [account for account in candidates if account.id not in exclude]
        return Lease(free[0], "req_1", 0) if free else Refused(Shortage.NO_ACCOUNT)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.response.of(PartKind.TEXT))

    @property
    def response(self) -> Any:
        events = [event for batch in self.batches for event in batch]
        check_grammar(events)
        return fold(events)

    @property
    def reasons(self) -> list[str]:
        return [attempt.reason for attempt in self.record.attempts]


class Nowhere:
    """A pipe to a Redis that is away: nothing of these turns hangs on it."""

    def send(self, *_: object) -> asyncio.Future[None]:
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reply.set_exception(PipeDown())
        return reply

    async def call(self, *_: object) -> None:
        raise PipeDown

    async def run(self, *_: object) -> None:
        raise PipeDown


async def play(
    request: Request, *answers: Answer, policy: Policy = DEFAULT_POLICY, accounts: int = 1, form: Check | None = None
) -> Asked:
    """Raises ``ApiError`` when the caller gets none of the answers; all of them must have been asked for."""
    asked = Asked(answers)
    views = tuple(
        AccountView(number, "a", AccountKind.CURSOR, Transport.AGENT_RPC, "http://up", frozenset({1}), number)
        for number in range(1, accounts + 1)
    )
    services = SimpleNamespace(
        upstreams={Transport.AGENT_RPC: asked},
        bearers=FakeBearers(),
        sealed=lambda credential: b"",
        ledger=SimpleNamespace(pipe=Nowhere(), stats=Stats()),
        troubles=Troubles(cast("Any", Nowhere())),
        rests=Rests(),
        pace=Pace(),
        retries=RetryBudget(),
    )
    errand = Errand(request, Route(ModelView("m", "m-up"), "m", "m-up", {}, views), 1, False, form, policy)
    turn = Turn(errand, Settings(), cast("Any", asked), cast("Any", services), NOBODY, time.monotonic())
    try:
        async for batch in turn.events():
            asked.batches.append(batch)
    finally:
        assert len(asked.requests) == len(answers)
    return asked


async def refused(request: Request, *answers: Answer, **more: Any) -> str:
    with pytest.raises(ApiError) as caught:
        await play(request, *answers, **more)
    return caught.value.code


@STREAMED
async def test_a_lenient_key_gets_the_last_text_marked_and_pays_for_both(stream: bool) -> None:
    asked = await play(ask(choice=REQUIRED, stream=stream), said("Sure."), said("Still no."), policy=LENIENT)
    assert (asked.text, asked.response.finish.unified) == ("Still no.", Unified.STOP)
    assert (asked.response.usage.input_uncached, asked.response.usage.output) == (20, 4)
    assert asked.reasons == ["missing_tool_call", "missing_tool_call"]
    assert (asked.record.tool_choice_unsatisfied, asked.record.reason, asked.record.stage) == (True, "", "")


@STREAMED
async def test_a_strict_key_gets_an_error(stream: bool) -> None:
    code = await refused(ask(choice=REQUIRED, stream=stream), said("Sure."), said("Still no."), policy=STRICT)
    assert code == "upstream_missing_tool_call"


@STREAMED
@pytest.mark.parametrize("policy", [LENIENT, STRICT], ids=["lenient", "strict"])
async def test_the_second_try_knows_of_the_first_and_its_call_is_all_that_goes_out(
    stream: bool, policy: Policy
) -> None:
    asked = await play(ask("hi", choice=REQUIRED, stream=stream), said("Sure."), CALLED, policy=policy)
    assert [part.name for part in asked.response.parts] == ["lookup"]
    assert asked.response.usage.input_uncached == 20
    assert not asked.record.tool_choice_unsatisfied
    assert asked.requests[1].messages == (
        Message("user", (Text("hi"),)),
        Message("assistant", (Text("Sure."),)),
        Message("user", (Text(wording.reminder(["Read", "lookup", "write"])),)),
    )


def endless(pieces: int) -> Answer:
    """A model that talks on instead of calling, a KiB at a time."""
    return [ResponseStart(), PartStart(PartKind.TEXT), *[PartDelta("é" * 512)] * pieces]


async def test_a_stream_waits_for_its_call_behind_64_kib_of_text_and_no_more() -> None:
    """The runs end without an end, which would be a cut: the gate does not hear them out."""
    asked = await play(ask(choice=REQUIRED, stream=True), endless(65), CALLED, policy=STRICT)
    assert [part.name for part in asked.response.parts] == ["lookup"]
    assert asked.reasons == ["missing_tool_call", ""]
    assert asked.response.usage.source is UsageSource.ESTIMATED
    late: Answer = [*endless(64), PartEnd(), *CALLED[1:]]
    both = await play(ask(choice=REQUIRED, stream=True), late)
    assert [part.kind for part in both.response.parts] == [PartKind.TEXT, PartKind.TOOL_CALL]


async def test_text_beyond_what_is_held_is_the_lenient_outcome_cut_at_its_length() -> None:
    asked = await play(ask(choice=REQUIRED, stream=True), endless(99), endless(99), policy=LENIENT)
    assert len(asked.text.encode()) == 65 * 1024
    assert (asked.response.finish.unified, asked.record.tool_choice_unsatisfied) == (Unified.LENGTH, True)
    code = await refused(ask(choice=REQUIRED, stream=True), endless(99), endless(99), policy=STRICT)
    assert code == "upstream_missing_tool_call"


async def test_an_answer_that_is_not_streamed_is_heard_out_for_its_call() -> None:
    late: Answer = [*endless(99), PartEnd(), *CALLED[1:]]
    asked = await play(ask(choice=REQUIRED), late)
    assert [part.kind for part in asked.response.parts] == [PartKind.TEXT, PartKind.TOOL_CALL]


async def test_a_call_at_the_first_try_streams_as_it_comes() -> None:
    asked = await play(ask(choice=REQUIRED, stream=True), CALLED)
    assert len(asked.batches) == 4
    assert asked.response.usage == COST


async def test_a_second_try_that_fails_leaves_the_text_of_the_first() -> None:
    late: Answer = [Fault(Reason.TIMEOUT, Stage.PREAMBLE)]
    asked = await play(ask(choice=REQUIRED), said("Sure."), late, policy=LENIENT)
    assert (asked.text, asked.record.tool_choice_unsatisfied) == ("Sure.", True)
    assert asked.reasons == ["missing_tool_call", "timeout"]
    assert await refused(ask(choice=REQUIRED), said("Sure."), late, policy=STRICT) == "timeout"


async def test_a_call_that_breaks_off_is_not_replaced_by_an_earlier_text() -> None:
    broken: Answer = [ResponseStart(), *CALL, Fault(Reason.CUT, Stage.CONTENT)]
    code = await refused(ask(choice=REQUIRED, stream=True), said("Sure."), broken, policy=LENIENT)
    assert code == "upstream_incomplete"


@pytest.mark.parametrize("policy", [LENIENT, STRICT], ids=["lenient", "strict"])
async def test_a_kilo_key_demands_a_call_of_what_the_user_says(policy: Policy) -> None:
    kilo = Policy(kilo_tool_strict=True, strict_outcome=policy.strict_outcome)
    asked = await play(ask(stream=True), said("I think."), CALLED, policy=kilo)
    assert [request.tool_choice.mode for request in asked.requests] == [ToolMode.REQUIRED] * 2
    assert [part.name for part in asked.response.parts] == ["lookup"]


async def test_a_kilo_key_lets_an_agent_finish_after_a_tool_result() -> None:
    kilo = Policy(kilo_tool_strict=True, strict_outcome=True)
    asked = await play(ask(*history(), stream=True), said("Done."), policy=kilo)
    assert (asked.text, asked.reasons) == ("Done.", [""])
    assert asked.requests[0].tool_choice.mode is ToolMode.AUTO


async def test_the_upstream_is_told_the_keys_policy() -> None:
    policy = Policy(stop_after_calls=True)
    asked = await play(ask(), said("Hi"), policy=policy)
    assert [target.policy for target in asked.targets] == [policy]


async def test_an_empty_answer_is_asked_for_once_more_elsewhere_or_of_the_only_account() -> None:
    for accounts, ids in ((1, [1, 1]), (2, [1, 2])):
        asked = await play(ask(), said(""), said("Hi"), accounts=accounts)
        assert (asked.text, [target.account_id for target in asked.targets]) == ("Hi", ids)
        assert asked.response.usage.input_uncached == 20
        assert await refused(ask(), said(""), said(""), accounts=accounts) == "upstream_empty_response"


@pytest.mark.parametrize(("text", "served"), [('{"a": 1}', True), ("Still no.", False)])
async def test_a_text_in_place_of_a_call_must_have_the_form_that_was_asked_for(text: str, served: bool) -> None:
    answers = (said("Sure."), said(text))
    if served:
        asked = await play(ask(choice=REQUIRED), *answers, policy=LENIENT, form=Check(None))
        assert (asked.text, asked.record.structured) == ('{"a": 1}', "valid")
    else:
        code = await refused(ask(choice=REQUIRED), *answers, policy=LENIENT, form=Check(None))
        assert code == "upstream_missing_tool_call"
