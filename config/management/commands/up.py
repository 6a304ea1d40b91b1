"""``manage.py up``: starts a whole installation and looks after it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from config.embedded import EngineError
from config.environment import data_dir
from config.up import Installation, Options, Refused
from core import command


class Command(command.Command):
    help = "Start the engines, the server, the worker and beat, and look after them until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8080, help="port to serve on (8080)")
        parser.add_argument("--host", default="127.0.0.1", help="address to serve on (127.0.0.1)")
        parser.add_argument("--data-dir", help="where this installation keeps everything (var/)")
        parser.add_argument("--demo", action="store_true", help="add simulated accounts, a team and a key")
        parser.add_argument("--workers", type=int, default=1, help="server processes (1)")
        parser.add_argument("--ready-file", type=Path, help="write addresses and credentials here once all answers")

    def handle(self, *_: Any, **options: Any) -> None:
        if not 0 <= options["port"] <= 65535 or not 1 <= options["workers"] <= 64:
            raise CommandError("--port takes 0 to 65535, --workers 1 to 64.")
        chosen = Options(
            host=options["host"],
            port=options["port"],
            data_dir=data_dir().resolve(),
            workers=options["workers"],
            demo=options["demo"],
            ready_file=options["ready_file"] and options["ready_file"].resolve(),
        )
        try:
            code = Installation(chosen, sys.stdout).run()
        except (Refused, EngineError, PermissionError) as error:
            raise CommandError(str(error)) from None
        sys.exit(code)
