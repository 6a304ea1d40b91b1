"""``manage.py route_check``: what would happen to a key's request now, without spending anything."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
from django.core.management.base import CommandError
from msgspec import to_builtins

from core import command
from gateway.route_check import PROTOCOLS, Candidate, Finding
from panel import route_check
from tenants.scope import Scope


class Command(command.Command):
    help = "Say what would happen to a request of an API key now, and what stops it first. Asks no upstream."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="the key's public id, as `manage.py keys list` shows it")
        parser.add_argument("model", help="as a caller would name it")
        parser.add_argument("--protocol", choices=PROTOCOLS, default=PROTOCOLS[0], help="the API it asks by (chat)")
        parser.add_argument("--json", action="store_true", help="as the API answers")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            finding = route_check.check(options["key"], options["model"], options["protocol"], Scope(everything=True))
        except ValueError as error:
            raise CommandError(str(error)) from None
        if finding is None:
            raise CommandError("There is no API key with this public id. manage.py keys list shows them.")
        said = orjson.dumps(to_builtins(finding)).decode() if options["json"] else "\n".join(_lines(finding))
        self.stdout.write(said)


def _lines(finding: Finding) -> Iterator[str]:
    blocked = finding.blocked
    if blocked is None:
        yield f"{finding.model} by {finding.protocol} would be served as {finding.served_model}."
    else:
        wait = f", again in {blocked.retry_after:.0f} s" if blocked.retry_after is not None else ""
        yield f"{finding.model} by {finding.protocol} is stopped at the {blocked.step}{wait}:"
        yield f"  {blocked.status} {blocked.code}: {blocked.message}"
    for candidate in finding.candidates:
        yield f"  {_describe(candidate)}"


def _describe(candidate: Candidate) -> str:
    until = f" until {datetime.fromtimestamp(candidate.until, UTC):%F %T} UTC" if candidate.until is not None else ""
    return f"{candidate.name}  {candidate.standing}{until}  {candidate.in_use} of {candidate.slots} slots"
