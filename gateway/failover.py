"""Which account serves a turn, and what happens when one does not.

Before the commit point (``gateway.gate``) a failed attempt costs the caller nothing but time: the consequence of its
fault (``accounts.failures``) says whether to try the same account once more, another one, or to stop. After it there is
no second attempt. How an attempt is made is in ``gateway.attempts``, what its fault does to accounts in
``gateway.blame``; here is the loop, and every step of it goes into the trace.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from accounts.failures import CONSEQUENCES, PAUSES, Next, provider_pause, provider_tries
from accounts.kinds import AccountKind, Transport
from accounts.leases import Caller, Lease, Refused, Shortage
from accounts.pool import CALM, PoolView, Sticky
from accounts.troubles import egress_of, upstream_of
from core import metrics
from core.redis_pipe import PipeDown, PipeError
from core.settings import Settings
from gateway import refusals
from gateway.affinity import Session
from gateway.attempts import Attempts, Errand
from gateway.blame import UNMARKED, Blame, Effect, Settled
from gateway.exhausted import explain, refuse
from gateway.home import Home
from gateway.ledger import Entry
from gateway.registry import Services
from ir.errors import ApiError, Fault, Reason, Stage
from ir.events import Event
from ops.record import Attempt
from ops.trace import Affinity, Committed, Fallback, Judged, Mark, Moved, Trouble, Troubled


class Turn:
    """One admitted request on its way through the pool. It owns the run in flight; the entry owns slot and record."""

    def __init__(
        self,
        errand: Errand,
        settings: Settings,
        entry: Entry,
        services: Services,
        caller: Caller,
        started: float,
        session: Session | None = None,
    ) -> None:
        self._route = errand.route
        self._settings = settings
        self._entry = entry
        self._trace = entry.trace
        self._caller = caller
        self._started = started
        self._attempts = Attempts(errand, settings, services, entry.record)
        self._services = services
        self._streamed = errand.request.stream
        self._fingerprint = errand.fingerprint
        self._blame = Blame(services, errand, settings)
        self._committed = False
        self._seen: Counter[tuple[int, Reason]] = Counter()
        self._left: set[int] = set()
        self._closed_ways: set[str] = set()
        self._home = Home(session, errand.route, entry, services)
        self._first_output: float | None = None
        self._only_agents = all(account.ways == (Transport.CLOUD_AGENTS,) for account in errand.route.candidates)
        self._trace.candidates = len(errand.route.candidates)

    def last_sign(self) -> float:
        """Loop time of the last byte that proved the upstream alive; 0 before the first."""
        run = self._attempts.run
        return run.last_sign if run is not None else 0.0

    def buffered(self) -> bool:
        """Whether the answer comes in one piece: the run in flight says so, or nothing has come yet and nobody but
        Cloud Agents may serve, whose answers mostly do."""
        waiting = not self._committed and self._only_agents
        return waiting or bool(getattr(self._attempts.run, "buffered", False))

    async def events(self) -> AsyncGenerator[Sequence[Event], None]:
        """The answer's events, from the commit point on. Raises ``ApiError`` when nobody could give them."""
        fault: Fault | None = None
        lease: Lease | None = None
        try:
            while True:
                if lease is None:
                    lease = await (self._first_lease() if fault is None else self._lease(fault))
                began = self._begin()
                try:
                    async with aclosing(self._attempts.make(lease, self._patience())) as batches:
                        async for batch in batches:
                            if not self._committed:
                                await self._commit(lease, began)
                            yield batch
                    self._note(lease, began)
                    self._served(lease)
                    return
                except ApiError:  # the answer came, but the caller's schema is beyond checking
                    self._note(lease, began)
                    raise
                except (asyncio.CancelledError, GeneratorExit):  # nobody waits for the answer any more
                    self._note(lease, began, Fault(Reason.CLIENT_GONE, self._attempts.stage))
                    raise
                except Fault as failed:
                    if self._attempts.resumed and self._may_begin():
                        self._note(lease, began, failed)  # of the stream alone: its account is asked as if it were new
                        continue
                    fault = await self._suffer(failed, lease, began)
                    lease = await self._go_on(fault, lease)
        except ApiError as error:
            self._trace.retry_after = error.retry_after
            yield await self._give_up(error)
        finally:
            self._attempts.let_go()

    async def _go_on(self, fault: Fault, lease: Lease) -> Lease | None:
        """What the next attempt has: the slot of this one, or None for another account. Raises ``ApiError`` when there
        is no next attempt."""
        move = self._next(fault, lease)
        falls = move is not Next.SAME and self._may_begin() and self._attempts.fall_back(fault, lease.account)
        if move is Next.STOP and not falls:
            self._trace.add(Moved(self._at(), Next.STOP))
            raise await self._explain(fault, lease) from None
        if not self._services.retries.may_retry(self._settings.retry_share, self._settings.retry_floor):
            self._trace.add(Troubled(self._at(), Trouble.BUDGET_SPENT))
            raise await self._explain(fault, lease) from None
        if falls:
            self._trace.add(Fallback(self._at(), lease.account.id, self._attempts.way(lease.account)))
            return lease
        pause = self._pause(fault, lease) if move is Next.SAME else 0.0
        self._trace.add(Moved(self._at(), move, round(pause * 1000)))
        if move is Next.SWITCH:
            metrics.count_switch(fault.reason)
            self._left.add(lease.account.id)
            return None
        await asyncio.sleep(pause)
        return lease

    async def _explain(self, fault: Fault, lease: Lease | None = None, refused: Refused | None = None) -> ApiError:
        """The caller's answer after the last attempt, once it is settled who is to blame for the earlier ones."""
        self._settle(await self._blame.gave_up(alike=len({reason for _, reason in self._seen}) == 1))
        return explain(fault, self._soonest(lease, refused))

    async def _first_lease(self) -> Lease:
        """A slot, unless every account refused the same request a moment ago: then that answer is raised. Slot and
        memory are asked for in one round trip; a slot that is not used goes back with the record."""
        services = self._services
        services.retries.request()
        await self._home.hear()
        memory = refusals.ask(services.ledger.pipe, self._fingerprint)
        got: Lease | ApiError
        try:
            got = await self._lease_parked() or await self._lease(None)
        except ApiError as error:
            got = error
        try:
            refusal = await refusals.hear(memory, time.time(), self._settings.refusal_memory)
        except (PipeDown, PipeError):
            refusal = None
        if refusal is not None:
            self._trace.remembered = True
            raise explain(refusal.fault)
        if isinstance(got, ApiError):
            raise got
        return got

    async def _give_up(self, error: ApiError) -> Sequence[Event]:
        """The text that came in place of a demanded call, where the key takes that. Raises ``error`` otherwise."""
        outcome = None if self._committed else await self._attempts.unsatisfied()
        if outcome is None:
            raise error
        record = self._entry.record
        record.tool_choice_unsatisfied, record.reason, record.stage = True, "", ""
        return outcome

    async def _lease_parked(self) -> Lease | None:
        """A slot on the account that keeps the run which waits for this request, if one is free at once."""
        account = await self._attempts.claim()
        if account is None:
            return None
        asked, route = time.monotonic(), self._route
        got = await self._entry.take(
            [account],
            route.upstream_id,
            caller=self._caller,
            life=self._settings.slot_ttl,
            sticky=Sticky(account.id, hard=True),
        )
        self._trace.looked(self._at(asked), 0, got)
        if not isinstance(got, Lease):
            self._attempts.let_go()
            return None
        self._trace.affinity = Affinity.HARD
        return got

    async def _lease(self, fault: Fault | None) -> Lease:
        """A slot on an account not left yet. Without one: the last fault's answer, or 503 with the reason's class."""
        if fault is not None and not self._may_begin():
            raise await self._explain(fault)
        known = CALM
        if self._closed_ways or await self._services.troubles.are_known():
            known = await self._known_troubles(fault)
        asked = time.monotonic()
        got = await self._entry.take(
            self._route.candidates,
            self._route.upstream_id,
            exclude=self._left,
            caller=self._caller,
            life=self._settings.slot_ttl,
            wait=self._wait(fault),
            sticky=self._home.sticky,
            known=known,
        )
        waited = round((time.monotonic() - asked) * 1000)
        self._entry.record.wait_ms += waited
        self._trace.looked(self._at(asked), waited, got)
        if isinstance(got, Lease):
            return got
        if fault is not None:
            raise await self._explain(fault, refused=got)
        raise refuse(got, pace=self._services.rests.are_pace(self._route.candidates, self._route.upstream_id))

    def _wait(self, fault: Fault | None) -> float:
        """Seconds that this turn may wait for a slot: once an account has failed, no longer than it may still begin."""
        longest = self._settings.wait_for_slot
        if longest and self._home.sticky is not None:
            longest = max(longest, self._settings.wait_for_sticky)
        return longest if fault is None else min(longest, self._started + self._settings.last_start - time.monotonic())

    async def _known_troubles(self, fault: Fault | None) -> PoolView:
        """What stands in the way of more than one account. Where open circuits alone are left, this request may be the
        canary of one; else the answer is raised.

        A way out that failed in this turn, or that rests for all, is taken where there is no other: what came back may
        have been about the account. One that is paused is not.
        """
        troubles, upstream_id = self._services.troubles, self._route.upstream_id
        paused = troubles.paused_egress()
        accounts = [account for account in self._route.candidates if egress_of(account) not in paused]
        egress, circuits = troubles.resting_egress() | self._closed_ways, set(troubles.open_circuits())
        known = PoolView(egress=egress, paused=paused, circuits=circuits)
        if (
            not circuits
            or not accounts
            or any(upstream_of(account, upstream_id) not in circuits for account in accounts)
        ):
            return known
        if fault is not None:
            raise await self._explain(fault)
        try:
            allowed, wait = await self._blame.ask_leave(accounts)
        except (PipeDown, PipeError):
            return CALM  # no slot will be had either, and that is what the caller is told
        granted = Trouble.CANARY_GRANTED if allowed else Trouble.CANARY_REFUSED
        self._trace.add(Troubled(self._at(), granted, wait))
        if not allowed:
            raise explain(Fault(Reason.CAPACITY, Stage.CONNECT), wait)
        return replace(known, circuits=circuits - {upstream_of(account, upstream_id) for account in allowed})

    def _soonest(self, lease: Lease | None = None, refused: Refused | None = None) -> float | None:
        """Seconds until any account of the route can serve again, where that is known of all of them: of those that
        this request asked (``lease``: the last of them), and from ``refused`` of all others."""
        asked = self._left | {lease.account.id} if lease is not None else self._left
        tried = [account for account in self._route.candidates if account.id in asked]
        own = self._blame.soonest(tried)
        if own is None or len(tried) == len(self._route.candidates):
            return own
        others = refused.soonest if refused is not None and refused.shortage is Shortage.COOLED else None
        return min(own, others) if others is not None else None

    def _begin(self) -> float:
        """When an attempt begins; the first ends our own part of the time that the caller waits."""
        began, record = time.monotonic(), self._entry.record
        if not record.attempts:
            record.overhead_ms = max(0, round((began - self._started) * 1000) - record.body_ms)
        return began

    async def _commit(self, lease: Lease, began: float) -> None:
        """The answer has begun: nothing switches any more, and what failed before it was to blame."""
        self._committed = True
        self._trace.add(Committed(self._at()))
        if self._streamed:
            self._first_output = time.monotonic() - began
            self._services.pace.note(self._route.upstream_id, self._first_output)
        self._settle(await self._blame.answered(lease))

    def _served(self, lease: Lease) -> None:
        """The whole answer came: it counts for the account, and the conversation is at home there, or comes home."""
        self._services.ledger.stats.served(lease.account.id, self._route.upstream_id, self._first_output)
        self._home.served(lease.account)

    def _settle(self, settled: Sequence[Settled]) -> None:
        for item in settled:
            if isinstance(item, Trouble):
                self._trace.add(Troubled(self._at(), item))
            else:
                self._trace.add(Judged(self._at(), item.verdict, item.accounts))

    def _patience(self) -> float:
        """Seconds that the next attempt may take until its first output."""
        last = len(self._left) + 1 >= min(self._settings.max_attempts, len(self._route.candidates))
        return self._services.pace.limit(self._route.upstream_id, self._settings, last=last)

    async def _suffer(self, fault: Fault, lease: Lease, began: float) -> Fault:
        """What the fault does to the account, and to the record. Gives the fault that counts."""
        account = lease.account
        self._seen[account.id, fault.reason] += 1
        self._services.ledger.stats.failed(account.id, self._route.upstream_id, fault.reason)
        if fault.reason is Reason.AUTH_EXPIRED and self._seen[account.id, fault.reason] > 1:
            # A fresh credential was refused as well: it is not its age.
            fault = Fault(Reason.AUTH_REVOKED, fault.stage, upstream_code=fault.upstream_code)
        if fault.reason is Reason.EGRESS:
            self._closed_ways.add(egress_of(account))
        if CONSEQUENCES[fault.reason].refresh_first:
            self._attempts.renew_next(account)
        self._note(lease, began, fault, await self._blame.suffer(account, fault, answered=self._committed))
        return fault

    def _next(self, fault: Fault, lease: Lease) -> Next:
        """Where the turn goes. About an answer that was refused its tries have the first word: they know the next one
        will be asked in other words."""
        if self._committed:
            return Next.STOP
        gate = self._attempts.gate
        refused = gate.refused or fault.reason is Reason.EMPTY
        if refused and not self._attempts.tries.missed(fault.reason, gate.held):
            return Next.STOP
        consequence = CONSEQUENCES[fault.reason]
        move = consequence.next
        if move is Next.SAME:
            again = self._times(fault.reason, lease if consequence.then is Next.SWITCH else None) > 1
            move = consequence.then if again and not self._insists(fault, lease) else Next.SAME
        if fault.reason is Reason.EMPTY and len(self._left) + 1 >= len(self._route.candidates):
            return Next.SAME  # there is no other to ask
        if move is Next.SWITCH and not self._may_switch(fault.reason, consequence.switches):
            return Next.STOP
        return move

    def _may_switch(self, reason: Reason, most: int | None) -> bool:
        """Within the accounts that a request may try, and the moves that this reason is worth."""
        if len(self._left) + 1 >= self._settings.max_attempts:
            return False
        return most is None or sum(seen is reason for _, seen in self._seen) <= most

    def _insists(self, fault: Fault, lease: Lease) -> bool:
        """Whether a provider account is asked again because nobody can stand in for it."""
        if lease.account.kind is not AccountKind.PROVIDER or len(self._route.candidates) > 1:
            return False
        return self._seen.total() <= provider_tries(fault, self._settings.provider_retries)

    def _pause(self, fault: Fault, lease: Lease) -> float:
        """Seconds before the same account is asked again."""
        if self._insists(fault, lease):
            return provider_pause(fault, self._seen.total()) * (1 + random.random() / 4)
        return PAUSES.get(fault.reason, 0.0) * (1 + 2 * random.random())

    def _times(self, reason: Reason, lease: Lease | None) -> int:
        """How often it went wrong this way: on one account, or on all where another would be no better."""
        if lease is not None:
            return self._seen[lease.account.id, reason]
        return sum(times for (_, seen), times in self._seen.items() if seen is reason)

    def _note(self, lease: Lease, began: float, fault: Fault | None = None, effect: Effect = UNMARKED) -> None:
        record, account, way = self._entry.record, lease.account, self._attempts.way(lease.account)
        attempt = Attempt(
            account_id=account.id,
            transport=way,
            at_ms=self._at(began),
            took_ms=round((time.monotonic() - began) * 1000),
            stage=fault.stage if fault else "",
            reason=fault.reason if fault else "",
            culprit=fault.culprit if fault else "",
            upstream_code=fault.upstream_code if fault else "",
            cooldown_s=effect.rest if effect.mark is Mark.RESTED else 0,
            resumed=self._attempts.resumed,
        )
        record.attempts = (*record.attempts, attempt)
        record.account_id, record.transport = account.id, way
        record.group_id = min(account.groups & self._route.groups, default=None)
        record.reason, record.stage = (fault.reason, fault.stage) if fault else ("", "")
        self._trace.tried(attempt, way, fault, effect.mark, effect.rest)
        metrics.count_attempt(fault.reason if fault else None, fault.stage if fault else Stage.END)

    def _at(self, moment: float | None = None) -> int:
        """Milliseconds since the request came."""
        return round(((time.monotonic() if moment is None else moment) - self._started) * 1000)

    def _may_begin(self) -> bool:
        """Whether there may be one more attempt at all."""
        return not self._committed and time.monotonic() - self._started <= self._settings.last_start
