"""The HTTP server that carries all faces."""

from __future__ import annotations

import asyncio
import socket

from aiohttp import web

from simulator.faces.agent import AgentFace
from simulator.faces.auth import AuthFace
from simulator.faces.cloud import CloudFace
from simulator.faces.control import ControlFace
from simulator.faces.dashboard import DashboardFace
from simulator.faces.models import ModelsFace
from simulator.faces.providers import ProvidersFace
from simulator.faces.text import TextFace
from simulator.world import World

MAX_BODY = 64 * 1024 * 1024


def application(world: World) -> web.Application:
    """All faces on one application."""
    app = web.Application(client_max_size=MAX_BODY)
    cloud = CloudFace(world)
    app.on_cleanup.append(cloud.stop)
    clients = (AgentFace(world), AuthFace(world), ModelsFace(world), cloud, TextFace(world), ProvidersFace(world))
    for face in (*clients, DashboardFace(world), ControlFace(world)):
        app.add_routes(face.routes())
    return app


async def serve(world: World, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serves on a bound socket until ``stop`` is set. A client that goes away cancels its handler."""
    runner = web.AppRunner(application(world), access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=1024).start()
        await stop.wait()
    finally:
        await runner.cleanup()
