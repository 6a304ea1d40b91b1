"""``manage.py preflight``: what is missing for a start, and how to fix it."""

from __future__ import annotations

import sys
from typing import Any

from config.preflight import problems
from core import command


class Command(command.Command):
    help = "Check settings, engines and keys; say what is missing and how to fix it. Exit code 1 if anything is."

    def handle(self, *_: Any, **__: Any) -> None:
        found = problems()
        for problem in found:
            self.stdout.write(f"MISSING  {problem.what}\n         {problem.fix}")
        if found:
            sys.exit(1)
        self.stdout.write("Everything is in place.")
