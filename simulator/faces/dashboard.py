"""The dashboard's one call that matters here: ``GetCurrentPeriodUsage``, unary, in JSON."""

from __future__ import annotations

from aiohttp import web

from simulator.accounts import Account, bearer
from simulator.causes import Failure, refusal, scripted
from simulator.faces import http
from simulator.world import World


class DashboardFace:
    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/aiserver.v1.DashboardService/GetCurrentPeriodUsage", self.usage)]

    async def usage(self, request: web.Request) -> web.Response:
        """Percentages of the plan; to a browser's session, not to the token that an API key was exchanged for."""
        account: Account | None = None
        try:
            account = self._world.account_of_token(request.headers)
            plan = self._world.plans.of(account.name)
            if not (self._world.tokens.kind(bearer(request.headers)) == "session" if plan.told is None else plan.told):
                raise refusal("no dashboard session", code="permission_denied")
            self._meet_trouble(account)
        except Failure as failure:
            self._world.open_entry("usage", account, request.headers).end(failure.label, self._world.now())
            return http.answer(request, failure.cause)
        self._world.open_entry("usage", account, request.headers).end("complete", self._world.now())
        return web.json_response(plan.answer(self._world.now()))

    def _meet_trouble(self, account: Account) -> None:
        cause = self._world.faults.at_unary(account.name)
        if cause:
            raise scripted(cause)
