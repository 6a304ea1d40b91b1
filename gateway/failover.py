"""Which account serves a turn, and what happens when one does not.

Before the commit point (``gateway.gate``) a failed attempt costs the caller nothing but time: the consequence of its
fault (``accounts.failures``) says whether to try the same account once more, another one, or to stop. After it there is
no second attempt. Only faults of the account scopes leave a mark on an account; everything else passes by it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import Struct, structs

from accounts import cooldowns
from accounts.compile import AccountView, Transport
from accounts.failures import CONSEQUENCES, Next
from accounts.leases import Caller, Lease, Refused, Shortage
from core import metrics
from core.redis_pipe import PipeDown, PipeError
from core.settings import Settings
from gateway import fallback
from gateway.contracts import DEFAULT_POLICY, Clocks, Policy, Run, Target
from gateway.exhausted import explain
from gateway.gate import Gate
from gateway.ledger import Entry
from gateway.registry import Services
from gateway.routing import Route
from gateway.structured import Check, Emulation
from gateway.textbridge.tries import Tries
from ir.errors import ApiError, Culprit, Fault, Kind, Reason, Stage
from ir.events import Event
from ir.limits import Meter
from ir.request import Request
from ops.record import Attempt

LAST_START = 60.0
"""Seconds after arrival beyond which no new attempt begins: the caller has waited long enough to be told."""

PAUSES = {Reason.CAPACITY: 0.5, Reason.TRANSIENT: 0.25, Reason.CUT: 0.1}
"""Seconds before the same account is tried once more; up to twice as long by chance, so that callers do not march."""


class Errand(Struct, frozen=True):
    """A request that may be sent: understood, within its budgets, with somewhere to go; ``input_tokens`` estimated."""

    request: Request
    route: Route
    input_tokens: int
    expose_reasoning: bool
    check: Check | None = None
    policy: Policy = DEFAULT_POLICY


class Turn:
    """One admitted request on its way through the pool. It owns the run in flight; the entry owns slot and record."""

    def __init__(
        self, errand: Errand, settings: Settings, entry: Entry, services: Services, caller: Caller, started: float
    ) -> None:
        self._request = _show_thinking(errand.request, errand.expose_reasoning)
        self._tries = Tries(self._request, errand.policy)
        self._policy = errand.policy
        self._route = errand.route
        self._expose_reasoning = errand.expose_reasoning
        self._input_tokens = errand.input_tokens
        self._settings = settings
        self._entry = entry
        self._services = services
        self._caller = caller
        self._started = started
        self._run: Run | None = None
        self._emulation = Emulation(errand.check) if errand.check is not None else None
        self._gate = Gate(self._request, errand.expose_reasoning)
        self._committed = False
        self._seen: Counter[tuple[int, Reason]] = Counter()
        self._left: set[int] = set()
        self._bearers: dict[int, str] = {}
        self._stale: dict[int, str] = {}
        self._fallen: set[int] = set()  # accounts that went on to the second of their ways

    def last_sign(self) -> float:
        """Loop time of the last byte that proved the upstream alive; 0 before the first."""
        return self._run.last_sign if self._run is not None else 0.0

    def buffered(self) -> bool:
        """Whether the run in flight gives its answer in one piece, because its transport has no stream of tokens."""
        return bool(getattr(self._run, "buffered", False))

    async def events(self) -> AsyncGenerator[Sequence[Event], None]:
        """The answer's events, from the commit point on. Raises ``ApiError`` when nobody could give them."""
        fault: Fault | None = None
        lease: Lease | None = None
        try:
            while True:
                lease = lease or await self._lease(fault)
                began = self._begin()
                try:
                    async with aclosing(self._attempt(lease)) as batches:
                        async for batch in batches:
                            self._committed = True
                            yield batch
                    self._note(lease, began)
                    return
                except ApiError:  # the answer came, but the caller's schema is beyond checking
                    self._note(lease, began)
                    raise
                except (asyncio.CancelledError, GeneratorExit):  # nobody waits for the answer any more
                    self._note(lease, began, Fault(Reason.CLIENT_GONE, self._stage))
                    raise
                except Fault as failed:
                    fault = await self._suffer(failed, lease, began)
                    lease = await self._go_on(fault, lease)
        except ApiError as error:
            yield await self._give_up(error)

    async def _go_on(self, fault: Fault, lease: Lease) -> Lease | None:
        """What the next attempt has: the slot of this one, or None for another account. Raises ``ApiError`` when there
        is no next attempt."""
        move = self._next(fault, lease)
        if move is not Next.SAME and self._may_fall_back(fault, lease.account):
            self._fallen.add(lease.account.id)
            return lease
        if move is Next.STOP:
            raise explain(fault) from None
        if move is Next.SWITCH:
            metrics.count_switch(fault.reason)
            self._left.add(lease.account.id)
            return None
        await asyncio.sleep(PAUSES.get(fault.reason, 0.0) * (1 + random.random()))
        return lease

    async def _give_up(self, error: ApiError) -> Sequence[Event]:
        """The text that came in place of a demanded call, where the key takes that. Raises ``error`` otherwise."""
        outcome = None if self._committed else self._tries.outcome()
        if outcome is None:
            raise error
        if self._emulation is not None:
            try:
                outcome = await self._check(self._emulation, outcome)
            except Fault:
                raise error from None
        record = self._entry.record
        record.tool_choice_unsatisfied, record.reason, record.stage = True, "", ""
        return outcome

    async def _lease(self, fault: Fault | None) -> Lease:
        """A slot on an account not left yet. Without one: the last fault's answer, or 503 with the reason's class."""
        if fault is not None and time.monotonic() - self._started > LAST_START:
            raise explain(fault)
        asked = time.monotonic()
        got = await self._entry.take(
            self._route.candidates,
            self._route.upstream_id,
            exclude=self._left,
            caller=self._caller,
            life=self._settings.slot_ttl,
            wait=self._settings.wait_for_slot if fault is None else 0.0,
        )
        self._entry.record.wait_ms += round((time.monotonic() - asked) * 1000)
        if isinstance(got, Lease):
            return got
        raise explain(fault) if fault is not None else _refusal(got)

    def _begin(self) -> float:
        """When an attempt begins; the first ends our own part of the time that the caller waits."""
        began, record = time.monotonic(), self._entry.record
        if not record.attempts:
            record.overhead_ms = max(0, round((began - self._started) * 1000) - record.body_ms)
        return began

    async def _attempt(self, lease: Lease) -> AsyncGenerator[Sequence[Event], None]:
        """One try on one account. Raises ``Fault``; closes its run on every way out."""
        emulation = self._emulation
        request = self._tries.request
        if emulation is not None:
            request = emulation.ask(request)
        self._gate = Gate(request, self._expose_reasoning, hold=emulation is not None)
        limit = self._request.max_output_tokens or self._route.model.max_output_tokens
        meter = Meter(self._request.stop, limit, self._input_tokens)
        way = self._way(lease.account)
        target = self._target(lease.account, way, await self._bearer(lease.account, way))
        upstream = self._services.upstreams[way]
        attempt_id = f"{self._entry.record.request_id}-{len(self._entry.record.attempts)}"
        run = await upstream.open(request, target, self._clocks(), attempt_id)
        self._run = run
        as_it_is = emulation is None and not self._tries.again
        try:
            async for events in run:
                ready = self._gate.see(meter.see(events))
                if ready:
                    yield ready if as_it_is else await self._settle(ready)
                if meter.done:
                    return
            raise Fault(Reason.CUT, self._stage)
        finally:
            await run.close()

    @property
    def _stage(self) -> Stage:
        return Stage.CONTENT if self._gate.opened else Stage.PREAMBLE

    async def _settle(self, events: Sequence[Event]) -> Sequence[Event]:
        charged = self._tries.charge(events)
        return charged if self._emulation is None else await self._check(self._emulation, charged)

    async def _check(self, emulation: Emulation, answer: Sequence[Event]) -> Sequence[Event]:
        try:
            return await emulation.settle(answer)
        finally:
            self._entry.record.structured = emulation.outcome

    def _way(self, account: AccountView) -> Transport:
        """The transport of this attempt."""
        return account.ways[-1] if account.id in self._fallen else account.ways[0]

    def _may_fall_back(self, fault: Fault, account: AccountView) -> bool:
        """Whether the account's second way may serve what the first one could not."""
        if self._committed or account.id in self._fallen or len(account.ways) < 2:
            return False
        in_time = time.monotonic() - self._started <= LAST_START
        return in_time and fault.reason in fallback.REASONS and not fallback.obstacle(self._request)

    async def _bearer(self, account: AccountView, way: Transport) -> str:
        """The account's token; a fresh one when the last was refused in this turn. Only the Agent RPC wants one, the
        other ways take the credential itself."""
        sealed = self._services.sealed(account.credential_id)
        if way is not Transport.AGENT_RPC:
            return self._services.bearers.key(account, sealed)
        stale = self._stale.pop(account.id, None)
        if stale is not None:
            bearer = await self._services.bearers.renew(account, sealed, stale)
        else:
            bearer = await self._services.bearers.get(account, sealed)
        self._bearers[account.id] = bearer
        return bearer

    def _target(self, account: AccountView, way: Transport, bearer: str) -> Target:
        return Target(
            account_id=account.id,
            base_url=account.address(way),
            model=account.model_id(self._route.upstream_id),
            parameters=self._route.parameters,
            credential=bearer,
            client_type=account.client_type,
            client_version=account.client_version,
            proxy_url=account.proxy_url,
            context_tokens=self._route.model.context_tokens,
            channel=account.channel,
            policy=self._policy,
        )

    def _clocks(self) -> Clocks:
        settings = self._settings
        return Clocks(
            settings.connect_timeout, settings.first_token_timeout, settings.idle_timeout, settings.turn_timeout,
            settings.tool_call_window,
        )  # fmt: skip

    async def _suffer(self, fault: Fault, lease: Lease, began: float) -> Fault:
        """What the fault does to the account, and to the record. Gives the fault that counts."""
        account = lease.account
        self._seen[account.id, fault.reason] += 1
        if fault.reason is Reason.AUTH_EXPIRED and self._seen[account.id, fault.reason] > 1:
            # A fresh credential was refused as well: it is not its age.
            fault = Fault(Reason.AUTH_REVOKED, fault.stage, upstream_code=fault.upstream_code)
        if CONSEQUENCES[fault.reason].refresh_first and account.id in self._bearers:
            self._stale[account.id] = self._bearers[account.id]
        rest = await self._cool(account, fault)
        self._note(lease, began, fault, rest)
        return fault

    async def _cool(self, account: AccountView, fault: Fault) -> float:
        if CONSEQUENCES[fault.reason].rest is None:
            return 0.0
        try:
            return await cooldowns.apply(
                self._services.ledger.pipe, account, self._route.upstream_id, fault, random.random()
            )
        except (PipeDown, PipeError):
            return 0.0  # the account goes unmarked this time; the request's own fate does not hang on it

    def _next(self, fault: Fault, lease: Lease) -> Next:
        """Where the turn goes. About an answer that was refused its tries have the first word: they know the next one
        will be asked in other words."""
        if self._committed:
            return Next.STOP
        refused = self._gate.refused or fault.reason is Reason.EMPTY
        if refused and not self._tries.missed(fault.reason, self._gate.held):
            return Next.STOP
        consequence = CONSEQUENCES[fault.reason]
        move = consequence.next
        if move is Next.SAME:
            again = self._times(fault.reason, lease if consequence.then is Next.SWITCH else None) > 1
            move = consequence.then if again else Next.SAME
        if fault.reason is Reason.EMPTY and len(self._left) + 1 >= len(self._route.candidates):
            return Next.SAME  # there is no other to ask
        if move is Next.SWITCH and not self._may_switch(fault.reason, consequence.switches):
            return Next.STOP
        return move

    def _may_switch(self, reason: Reason, most: int | None) -> bool:
        """Within the accounts that a request may try, and the moves that this reason is worth."""
        if len(self._left) + 1 >= self._settings.max_attempts:
            return False
        return most is None or sum(seen == reason for _, seen in self._seen) <= most

    def _times(self, reason: Reason, lease: Lease | None) -> int:
        """How often it went wrong this way: on one account, or on all where another would be no better."""
        if lease is not None:
            return self._seen[lease.account.id, reason]
        return sum(times for (_, seen), times in self._seen.items() if seen is reason)

    def _note(self, lease: Lease, began: float, fault: Fault | None = None, rest: float = 0.0) -> None:
        record, way = self._entry.record, self._way(lease.account)
        attempt = Attempt(
            account_id=lease.account.id,
            transport=way,
            at_ms=round((began - self._started) * 1000),
            took_ms=round((time.monotonic() - began) * 1000),
            stage=fault.stage if fault else "",
            reason=fault.reason if fault else "",
            culprit=fault.culprit if fault else "",
            upstream_code=fault.upstream_code if fault else "",
            cooldown_s=rest,
        )
        record.attempts = (*record.attempts, attempt)
        record.account_id, record.transport = lease.account.id, way
        record.group_id = min(lease.account.groups & self._route.groups, default=None)
        record.reason, record.stage = (fault.reason, fault.stage) if fault else ("", "")
        metrics.count_attempt(fault.reason if fault else None, fault.stage if fault else Stage.END)


def _show_thinking(request: Request, expose: bool) -> Request:
    """Some upstreams only tell what they think when asked; where a key's policy shows it, the caller never asked."""
    if not expose or request.thinking.visible:
        return request
    return structs.replace(request, thinking=structs.replace(request.thinking, visible=True))


def _refusal(refused: Refused) -> ApiError:
    """The answer when no slot was to be had: the class of the reason, never an account."""
    if refused.shortage is Shortage.CALLER_BUSY:
        return ApiError(
            Kind.RATE_LIMIT, "concurrency_exceeded", "This API key has as many requests running as it may.",
            retry_after=1,
        )  # fmt: skip
    message = "every account is busy" if refused.shortage is Shortage.FULL else "every account is resting"
    return ApiError(
        Kind.NO_CAPACITY, "no_capacity", f"No account is available: {message}.",
        retry_after=refused.soonest if refused.soonest is not None else 1, culprit=Culprit.GATEWAY,
    )  # fmt: skip
