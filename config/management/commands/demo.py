"""``manage.py demo --remove``: deletes the demo before going live."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from config import demo
from core import command
from tenants.verbs import OWNER


class Command(command.Command):
    help = "Delete the demo's accounts, models, team, key, records and stored credentials."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--remove", action="store_true", required=True, help="delete every trace of the demo")

    def handle(self, *_: Any, **__: Any) -> None:
        password = demo.remove(settings.DATA_DIR)
        self.stdout.write("The demo is gone. Start again without --demo.")
        if password is not None:
            self.stdout.write(f"Sign in as {OWNER} with the new one-time password {password}")
