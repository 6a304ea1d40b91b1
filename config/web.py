"""One server process: uvicorn on a listening socket that it shares with its siblings.

``python -m config.web --fd N --name NAME --drain SECONDS``. The socket is the parent's, so a process that is started
again serves the connections that waited meanwhile, and no port is lost.
"""

from __future__ import annotations

import argparse
import os
import socket
from pathlib import Path

import uvicorn

from config.connection import Connection

KEEP_ALIVE_SECONDS = 75


class Server(uvicorn.Server):
    """Tells the parent, through a file, when it begins to serve."""

    def __init__(self, config: uvicorn.Config, name: str) -> None:
        super().__init__(config)
        self._name = name

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        directory = os.environ.get("POOLGATE_READY_DIR")
        if self.started and directory:
            (Path(directory) / self._name).touch()


def main() -> None:
    parser = argparse.ArgumentParser(prog="config.web")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--drain", type=int, required=True)
    options = parser.parse_args()
    config = uvicorn.Config(
        "config.asgi:application",
        loop="uvloop",
        http=Connection,
        lifespan="on",
        access_log=False,
        log_config=None,  # Django's LOGGING has been applied by then
        server_header=False,
        # Only behind a proxy that the operator names may a header say who called.
        proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=options.drain,
    )
    with socket.socket(fileno=options.fd) as listener:
        Server(config, options.name).run(sockets=[listener])


if __name__ == "__main__":
    main()
