"""The control API: what was received, and orders for trouble. Answers loopback callers only."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from simulator.causes import CAUSES
from simulator.world import World

Handler = Callable[[web.Request], Awaitable[web.Response]]


class ControlFace:
    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/_sim/log", _local(self.log)),
            web.get("/_sim/accounts", _local(self.accounts)),
            web.post("/_sim/accounts/{name}", _local(self.order)),
            web.get("/_sim/causes", _local(self.causes)),
            web.post("/_sim/chaos", _local(self.chaos)),
            web.post("/_sim/settings", _local(self.settings)),
            web.post("/_sim/logins", _local(self.sign_in)),
            web.post("/_sim/plans/{name}", _local(self.plan)),
            web.post("/_sim/reset", _local(self.reset)),
            web.get("/_sim/cloud", _local(self.agents)),
            web.post("/_sim/cloud", _local(self.habits)),
        ]

    async def log(self, request: web.Request) -> web.Response:
        """``?limit=N``: the newest N entries; without it all that are kept."""
        limit = request.query.get("limit")
        if limit is not None and not limit.isdecimal():
            raise ValueError("limit must be a whole number")
        return web.json_response({"entries": self._world.journal.read(int(limit) if limit is not None else None)})

    async def accounts(self, _: web.Request) -> web.Response:
        rows = [
            {**account.describe(), **self._world.faults.of(account.name).describe()}
            for account in self._world.accounts.values()
        ]
        return web.json_response({"accounts": rows})

    async def order(self, request: web.Request) -> web.Response:
        """Replaces the fault of one account; ``{"fault": null}`` ends it."""
        name = request.match_info["name"]
        if name not in self._world.accounts:
            return web.json_response({"error": f"no account is called {name!r}"}, status=404)
        fault = self._world.faults.order(name, await _body(request))
        return web.json_response({"name": name, **fault.describe()})

    async def sign_in(self, request: web.Request) -> web.Response:
        """``{"account": name}``: the tokens of a browser login at once. With ``uuid`` and ``challenge`` the login is
        only approved, and ``/auth/poll`` gives them."""
        body = await _body(request)
        name = str(body.get("account"))
        if name not in self._world.accounts:
            raise ValueError(f"no account is called {name!r}")
        if "uuid" not in body:
            return web.json_response(self._world.sign_in(name))
        self._world.logins.approve(str(body["uuid"]), name, str(body.get("challenge")))
        return web.json_response({})

    async def plan(self, request: web.Request) -> web.Response:
        """``{"auto": PERCENT, "api": PERCENT, "ends_in": S, "texts": bool, "told": bool|null}``, for a while."""
        name = request.match_info["name"]
        if name not in self._world.accounts:
            raise ValueError(f"no account is called {name!r}")
        self._world.plans.order(name, await _body(request))
        return web.json_response({})

    async def causes(self, _: web.Request) -> web.Response:
        """The names that a fault may have."""
        return web.json_response({"causes": sorted(CAUSES)})

    async def chaos(self, request: web.Request) -> web.Response:
        self._world.faults.order_chaos(await _body(request))
        return web.json_response({})

    async def settings(self, request: web.Request) -> web.Response:
        """``{"token_life": seconds, "heartbeat": seconds}`` until the next reset."""
        self._world.change_options(await _body(request))
        return web.json_response({})

    async def agents(self, _: web.Request) -> web.Response:
        """The Cloud Agents that exist, and how many were made and deleted since the last reset."""
        return web.json_response(self._world.agents.describe())

    async def habits(self, request: web.Request) -> web.Response:
        """``{"failing_deletes": N, "refused_streams": N, "expired_streams": bool, "told_usage": bool}``"""
        self._world.agents.order(await _body(request))
        return web.json_response({})

    async def reset(self, _: web.Request) -> web.Response:
        self._world.reset()
        return web.json_response({})


def _local(handler: Handler) -> Handler:
    """Refuses callers from elsewhere, and turns a bad order into a 400 that says what is wrong."""

    async def guarded(request: web.Request) -> web.Response:
        if not ipaddress.ip_address(request.remote or "0.0.0.0").is_loopback:  # noqa: S104
            return web.json_response({"error": "loopback only"}, status=403)
        try:
            return await handler(request)
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)

    return guarded


async def _body(request: web.Request) -> dict[str, Any]:
    body = json.loads(await request.read() or b"{}")
    if not isinstance(body, dict):
        raise ValueError("the body must be a JSON object")
    return body
