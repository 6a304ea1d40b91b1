"""One try on one account, and what a turn keeps from one try to the next.

An attempt asks the account's upstream, counts and cuts the answer (``ir.limits``), holds it back until the commit point
(``gateway.gate``) and closes what it opened on every way out. Who is asked next, and whether anybody is, is decided in
``gateway.failover``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct, structs

from accounts.compile import AccountView, Transport
from accounts.leases import Lease
from core.settings import Settings
from gateway import fallback
from gateway.affinity import Identity
from gateway.continuation import Continuation, is_plain
from gateway.contracts import DEFAULT_POLICY, Clocks, Policy, Run, Target
from gateway.gate import Gate
from gateway.parked import Owner
from gateway.registry import Services
from gateway.routing import Route
from gateway.structured import Check, Emulation
from gateway.textbridge.tries import Tries
from ir.errors import Fault, Reason, Stage
from ir.events import Event
from ir.limits import Meter
from ir.request import Request
from ops.record import Record


class Errand(Struct, frozen=True):
    """A request that may be sent: understood, within its budgets, with somewhere to go; ``input_tokens`` estimated;
    ``fingerprint`` is its name in ``gateway.refusals``, ``conversation`` the one that it belongs to, where such stay on
    their accounts."""

    request: Request
    route: Route
    input_tokens: int
    expose_reasoning: bool
    check: Check | None = None
    policy: Policy = DEFAULT_POLICY
    fingerprint: str = ""
    conversation: Identity | None = None


class Attempts:
    """The attempts of one turn, made one after the other. ``run`` is the one in flight, ``gate`` its commit point."""

    def __init__(self, errand: Errand, settings: Settings, services: Services, record: Record) -> None:
        self._errand = errand
        self._request = _show_thinking(errand.request, errand.expose_reasoning)
        self._settings = settings
        self._services = services
        self._record = record
        self._emulation = Emulation(errand.check) if errand.check is not None else None
        self._bearers: dict[int, str] = {}
        self._stale: dict[int, str] = {}
        self._fallen: set[int] = set()  # accounts that went on to the second of their ways
        self._kept = self._continuation() if settings.parked_streams and is_plain(errand.request) else None
        self.tries = Tries(self._request, errand.policy)
        self.gate = Gate(self._request, errand.expose_reasoning)
        self.run: Run | None = None

    async def make(self, lease: Lease, first_token: float) -> AsyncGenerator[Sequence[Event], None]:
        """One try, the answer's events from the commit point on; ``first_token``: seconds to wait for the first output.
        Raises ``Fault``."""
        emulation = self._emulation
        request = self.tries.request
        if emulation is not None:
            request = emulation.ask(request)
        self.gate = Gate(request, self._errand.expose_reasoning, hold=emulation is not None)
        limit = self._request.max_output_tokens or self._errand.route.model.max_output_tokens
        meter = Meter(self._request.stop, limit, self._errand.input_tokens)
        kept = self._kept if self.way(lease.account) is Transport.AGENT_RPC and not self.tries.again else None
        resumed = kept.begin() if kept is not None else None
        run = self.run = resumed or await self._open(request, lease.account, first_token)
        as_it_is = emulation is None and not self.tries.again
        parked = False
        try:
            if kept is not None and resumed is not None:
                await kept.resume(resumed, self._clocks(first_token))
            async for events in run:
                own = kept.charge(events) if kept is not None and kept.resumed else events
                ready = self.gate.see(meter.see(own))
                if ready:
                    if kept is not None:
                        kept.hear(ready)
                    yield ready if as_it_is else await self._settle(ready)
                if meter.done:
                    parked = kept is not None and await kept.leave(run, lease.account)
                    return
            raise Fault(Reason.CUT, self.stage)
        finally:
            if not parked:
                await run.close()

    @property
    def resumed(self) -> bool:
        """Whether the attempt in flight goes on with a parked run."""
        return self._kept is not None and self._kept.resumed

    async def claim(self) -> AccountView | None:
        """The account whose parked run waits for this request; the attempt that begins next goes on with it."""
        return await self._kept.claim() if self._kept is not None else None

    def let_go(self) -> None:
        """No attempt goes on with the run that was claimed."""
        if self._kept is not None:
            self._kept.let_go()

    @property
    def stage(self) -> Stage:
        return Stage.CONTENT if self.gate.opened else Stage.PREAMBLE

    def way(self, account: AccountView) -> Transport:
        """The transport of this attempt."""
        return account.ways[-1] if account.id in self._fallen else account.ways[0]

    def fall_back(self, fault: Fault, account: AccountView) -> bool:
        """Turns to the account's second way, where that may serve what the first one could not."""
        if account.id in self._fallen or len(account.ways) < 2:
            return False
        if fault.reason not in fallback.REASONS or fallback.obstacle(self._request):
            return False
        self._fallen.add(account.id)
        return True

    def renew_next(self, account: AccountView) -> None:
        """The bearer that the account was asked with is not used again: the next attempt gets a fresh one."""
        if account.id in self._bearers:
            self._stale[account.id] = self._bearers[account.id]

    async def unsatisfied(self) -> Sequence[Event] | None:
        """The text that came in place of a demanded call, where the key takes that; None where there is none."""
        outcome = self.tries.outcome()
        if outcome is None or self._emulation is None:
            return outcome
        try:
            return await self._check(self._emulation, outcome)
        except Fault:
            return None

    async def _open(self, request: Request, account: AccountView, first_token: float) -> Run:
        way = self.way(account)
        target = self._target(account, way, await self._bearer(account, way))
        attempt_id = f"{self._record.request_id}-{len(self._record.attempts)}"
        return await self._services.upstreams[way].open(request, target, self._clocks(first_token), attempt_id)

    def _continuation(self) -> Continuation | None:
        """None where the rules of the key may make us ask twice."""
        errand, record = self._errand, self._record
        if errand.check is not None or errand.policy.kilo_tool_strict:
            return None
        owner, services = Owner(record.team_id, record.key_id), self._services
        return Continuation(
            errand.request, errand.route, owner, self._settings, lambda: services.parked, record.request_bytes
        )

    async def _settle(self, events: Sequence[Event]) -> Sequence[Event]:
        charged = self.tries.charge(events)
        return charged if self._emulation is None else await self._check(self._emulation, charged)

    async def _check(self, emulation: Emulation, answer: Sequence[Event]) -> Sequence[Event]:
        try:
            return await emulation.settle(answer)
        finally:
            self._record.structured = emulation.outcome

    async def _bearer(self, account: AccountView, way: Transport) -> str:
        """The account's token; a fresh one when the last was refused in this turn. Only the Agent RPC wants one, the
        other ways take the credential itself."""
        sealed = self._services.sealed(account.credential_id)
        if self._kept is not None:
            self._kept.sealed = sealed
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
        route = self._errand.route
        return Target(
            account_id=account.id,
            base_url=account.address(way),
            model=account.model_id(route.upstream_id),
            parameters=route.parameters,
            credential=bearer,
            client_type=account.client_type,
            client_version=account.client_version,
            proxy_url=account.proxy_url,
            context_tokens=route.model.context_tokens,
            channel=account.channel,
            policy=self._errand.policy,
            max_mode=route.model.max_mode,
        )

    def _clocks(self, first_token: float) -> Clocks:
        settings = self._settings
        return Clocks(
            settings.connect_timeout, first_token, settings.idle_timeout, settings.turn_timeout,
            settings.tool_call_window,
        )  # fmt: skip


def _show_thinking(request: Request, expose: bool) -> Request:
    """Some upstreams only tell what they think when asked; where a key's policy shows it, the caller never asked."""
    if not expose or request.thinking.visible:
        return request
    return structs.replace(request, thinking=structs.replace(request.thinking, visible=True))
