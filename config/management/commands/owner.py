"""``manage.py owner --reset``: a way back in."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from core import command
from tenants import verbs


class Command(command.Command):
    help = "Give the owner a new one-time password and end the owner's sessions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reset", action="store_true", required=True, help="make the new password")

    def handle(self, *_: Any, **__: Any) -> None:
        password = verbs.reset_owner()
        self.stdout.write(f"Sign in as {verbs.OWNER} with the one-time password {password}")
