"""``manage.py sessions``: conversations that are bound to accounts."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.models import Account
from core import command
from core.audit import COMMAND_LINE
from gateway import sessions
from tenants.models import ApiKey


class Command(command.Command):
    help = "Let conversations leave the accounts that they are bound to; their next turns choose anew."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["clear"])
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--account", metavar="NAME", help="all that are bound to this account")
        which.add_argument("--key", metavar="PUBLIC_ID", help="all of this API key; `manage.py keys list` shows it")
        which.add_argument("--session", metavar="NAME", help="this one; the page of a request shows its name")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            count = _clear(options["account"], options["key"], options["session"])
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.stdout.write("1 conversation was cleared." if count == 1 else f"{count} conversations were cleared.")


def _clear(account: str | None, public_id: str | None, session: str | None) -> int:
    if account is not None:
        row = Account.objects.filter(name=account).first()
        if row is None:
            raise CommandError(f"There is no account named {account}; `manage.py accounts list` shows them.")
        return sessions.clear_account(row, actor=COMMAND_LINE)
    if public_id is not None:
        key = ApiKey.objects.filter(public_id=public_id).first()
        if key is None:
            raise CommandError(f"There is no key {public_id}; `manage.py keys list` shows them.")
        return sessions.clear_key(key, actor=COMMAND_LINE)
    return sessions.clear_session(session or "", actor=COMMAND_LINE)
