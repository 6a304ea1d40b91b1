"""``manage.py preflight``: what is missing for a start, and how to fix it."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from config.preflight import problems


class Command(BaseCommand):
    help = "Check settings, engines and keys; say what is missing and how to fix it. Exit code 1 if anything is."
    requires_system_checks = ()

    def handle(self, *_: Any, **__: Any) -> None:
        found = problems()
        for problem in found:
            self.stdout.write(f"MISSING  {problem.what}\n         {problem.fix}")
        if found:
            sys.exit(1)
        self.stdout.write("Everything is in place.")
