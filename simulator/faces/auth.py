"""The key exchange: an API key becomes a JWT that lives about an hour."""

from __future__ import annotations

from aiohttp import web

from simulator.accounts import Account
from simulator.causes import CAUSES, Failure
from simulator.faces import http
from simulator.world import World


class AuthFace:
    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/auth/exchange_user_api_key", self.exchange)]

    async def exchange(self, request: web.Request) -> web.Response:
        """``{accessToken, refreshToken, authId}`` for a good key; both tokens expire together."""
        account: Account | None = None
        try:
            account = self._world.account_of_key(request.headers)
        except Failure as failure:
            entry = self._world.open_entry("exchange", None, request.headers)
            entry.end(failure.label, self._world.now())
            return http.answer(request, failure.cause)
        entry = self._world.open_entry("exchange", account, request.headers)
        account.exchanges += 1
        cause = self._world.faults.at_exchange(account.name)
        entry.end(f"error:{cause}" if cause else "complete", self._world.now())
        if cause:
            return http.answer(request, CAUSES[cause])
        now, life = self._world.now(), self._world.options.token_life
        return web.json_response(
            {
                "accessToken": self._world.tokens.mint(account.name, now, life),
                "refreshToken": self._world.tokens.mint(account.name, now, life),
                "authId": f"auth0|sim_{account.name}",
            }
        )
