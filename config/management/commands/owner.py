"""``manage.py owner --reset``: a way back in."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from tenants import verbs


class Command(BaseCommand):
    help = "Give the owner a new one-time password and end the owner's sessions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reset", action="store_true", required=True, help="make the new password")

    def handle(self, *_: Any, **__: Any) -> None:
        password = verbs.reset_owner()
        self.stdout.write(f"Sign in as {verbs.OWNER} with the one-time password {password}")
