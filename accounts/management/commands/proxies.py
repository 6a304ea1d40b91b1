from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from getpass import getpass
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from accounts import proxies, tasks
from accounts.models import Proxy
from accounts.proxies import Line
from core import command
from core.audit import COMMAND_LINE
from core.redis import connection


class Command(command.Command):
    help = "Show and change the proxies that accounts go through, or check them now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every proxy with its condition")
        add = actions.add_parser("add", help="add one; a password is asked for, or read from stdin")
        add.add_argument("name", help="what you call it")
        add.add_argument("url", help="http://, https:// or socks5:// host and port")
        add.add_argument("--user", default="", help="what it signs in as")
        add.add_argument("--notes", default="", help="for people")
        for action, text in (
            ("enable", "let accounts go through them again"),
            ("disable", "switch them off, and with them the accounts that go through them"),
            ("remove", "delete proxies that no account goes through"),
        ):
            named = actions.add_parser(action, help=text)
            named.add_argument("names", nargs="+", metavar="name", help="proxies")
        actions.add_parser("check", help="ask through every way out now; one that answers rests no more")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            said = list(self._run(options))
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.stdout.write("\n".join(said))

    def _run(self, options: dict[str, Any]) -> Iterator[str]:
        match options["action"]:
            case "add":
                password = _read_password(options["name"]) if options["user"] else ""
                values = {"user": options["user"], "notes": options["notes"], "password": password}
                proxies.create_proxy(options["name"], options["url"], actor=COMMAND_LINE, **values)
            case "enable" | "disable" as action:
                for row in [find(name) for name in options["names"]]:
                    proxies.edit_proxy(row, enabled=action == "enable", actor=COMMAND_LINE)
            case "remove":
                for row in [find(name) for name in options["names"]]:
                    proxies.delete_proxy(row, actor=COMMAND_LINE)
            case "check":
                counts = tasks.check_ways_out(everything=True)
                yield ", ".join(f"{name} {number}" for name, number in counts.items())
        for line in proxies.list_proxies(connection(), timezone.now()):
            yield describe(line)


def find(name: str) -> Proxy:
    """Raises ``CommandError``."""
    row = Proxy.objects.filter(name=name).first()
    if row is None:
        raise CommandError(f"There is no proxy named {name}.")
    return row


def describe(line: Line) -> str:
    """One line."""
    said = [line.proxy.name, line.proxy.url, line.condition, f"{line.accounts} accounts"]
    if line.resting_until is not None:
        said.append(f"until {line.resting_until:%H:%M:%S}")
    if line.check is not None:
        said.append(f"{line.check.code or 'answered'} in {line.check.took_ms} ms at {line.checked_at:%H:%M:%S}")
    return "  ".join(said)


def _read_password(name: str) -> str:
    return getpass(f"Password for {name}: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
