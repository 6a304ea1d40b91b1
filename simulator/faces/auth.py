"""Signing in: an API key becomes a JWT that lives about an hour; a browser login's tokens are polled and refreshed."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from simulator.accounts import Account
from simulator.causes import CAUSES, Failure
from simulator.faces import http
from simulator.logins import CLIENT_ID
from simulator.world import World


class AuthFace:
    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/auth/exchange_user_api_key", self.exchange),
            web.get("/auth/poll", self.poll),
            web.post("/oauth/token", self.refresh),
        ]

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

    async def poll(self, request: web.Request) -> web.Response:
        """404 until the login of this ``uuid`` was approved; then its tokens, to whoever has the verifier."""
        name = self._world.logins.fetch(request.query.get("uuid", ""), request.query.get("verifier", ""))
        account = self._world.accounts.get(name) if name else None
        entry = self._world.open_entry("login_poll", account, request.headers)
        entry.end("complete" if account else "pending", self._world.now())
        if account is None:
            return web.Response(status=404)
        return web.json_response(self._world.sign_in(account.name))

    async def refresh(self, request: web.Request) -> web.Response:
        """``{access_token, refresh_token, shouldLogout}``. A refresh token that was used before ends the session."""
        body = _object(await request.read())
        if body.get("grant_type") != "refresh_token" or body.get("client_id") != CLIENT_ID:
            entry = self._world.open_entry("refresh", None, request.headers)
            entry.end("refused:invalid_client", self._world.now())
            return web.json_response({"error": "invalid_client"}, status=400)
        name = self._world.logins.use(str(body.get("refresh_token")))
        account = self._world.accounts.get(name) if name else None
        entry = self._world.open_entry("refresh", account, request.headers)
        cause = self._world.faults.at_exchange(account.name) if account else None
        if account is None or cause == "key_bad":
            entry.end("refused:session over", self._world.now())
            return web.json_response({"access_token": "", "shouldLogout": True})
        account.exchanges += 1
        entry.end(f"error:{cause}" if cause else "complete", self._world.now())
        if cause:
            return http.answer(request, CAUSES[cause])
        tokens = self._world.sign_in(account.name)
        return web.json_response(
            {"access_token": tokens["accessToken"], "refresh_token": tokens["refreshToken"], "shouldLogout": False}
        )


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
