"""``python -m simulator``: start the fake upstream on its own port."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from simulator import accounts
from simulator.server import serve
from simulator.world import Options, World


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with a message for a host that is not loopback, unless that is allowed."""
    parser = argparse.ArgumentParser(prog="simulator", description="A strict fake upstream for tests, demo and load.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8090, help="0 takes a free one (see --ready-file)")
    parser.add_argument("--seed", type=Path, help='JSON: {"accounts": [{"name": "alpha", "key": "crsr_sim_alpha"}]}')
    parser.add_argument("--ready-file", type=Path, help="written as JSON (url, port, pid) once it answers")
    parser.add_argument("--token-life", type=float, default=3600.0, help="seconds a JWT lives")
    parser.add_argument("--heartbeat", type=float, default=10.0, help="seconds between two server heartbeats")
    parser.add_argument("--allow-public", action="store_true", help="let it listen beyond loopback")
    options = parser.parse_args(arguments)
    if not options.allow_public and not _is_loopback(options.host):
        parser.error(f"{options.host} is not loopback; pass --allow-public if you mean it")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until SIGINT or SIGTERM. Returns the exit status."""
    options = parse(arguments)
    try:
        seeded = accounts.load(options.seed)
        listener = _listen(options.host, options.port)
    except (OSError, ValueError) as error:
        print(f"simulator: {error}", file=sys.stderr)  # noqa: T201
        return 1
    world = World({one.name: one for one in seeded}, Options(options.token_life, options.heartbeat))
    asyncio.run(_run(world, listener, options.ready_file))
    return 0


async def _run(world: World, listener: socket.socket, ready_file: Path | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    # The socket listens already, so whoever reads the file can connect; the server picks it up a moment later.
    if ready_file is not None:
        _write(ready_file, json.dumps({"url": url, "port": port, "pid": os.getpid()}))
    print(f"simulator on {url}", flush=True)  # noqa: T201
    await serve(world, listener, stop)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


def _write(path: Path, text: str) -> None:
    """Appears whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    sys.exit(main())
