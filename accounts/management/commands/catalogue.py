from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError

from accounts import tasks
from accounts.catalogue import follow_upstream
from accounts.models import CatalogueModel
from core import command, jobs
from core.audit import COMMAND_LINE
from core.redis import connection

JOB = "accounts.tasks.refresh_catalogue"


class Command(command.Command):
    help = "Show what upstreams offer beside what the catalogue makes of it, or ask them now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every model with where it came from, what an admin set, and what is missing")
        actions.add_parser("refresh", help="ask every account's upstream now")
        follow = actions.add_parser("follow", help="let the upstream's list change again what an admin had set")
        follow.add_argument("name", help="the model")

    def handle(self, *args: Any, **options: Any) -> None:
        match options["action"]:
            case "refresh":
                if not tasks.refresh_catalogue():
                    raise CommandError("A refresh is under way already.")
                said = [_last_refresh()]
            case "follow":
                try:
                    said = [describe(follow_upstream(options["name"], actor=COMMAND_LINE))]
                except ValueError as error:
                    raise CommandError(str(error)) from None
            case _:
                said = list(_list())
        self.stdout.write("\n".join(said))


def describe(row: CatalogueModel) -> str:
    """One line."""
    said = [row.name, row.source, "on" if row.enabled else "off"]
    if row.missing_since:
        said.append(f"not offered since {row.missing_since:%Y-%m-%d %H:%M}")
    if row.upstream_id and row.upstream_id != row.name:
        said.append(f"as {row.upstream_id}")
    said += [f"{name}={value}" for name, value in row.parameters.items()]
    if row.overrides:
        said.append(f"set by an admin: {', '.join(row.overrides)}")
    return "  ".join(said)


def _list() -> Iterator[str]:
    for row in CatalogueModel.objects.filter(alias_of=""):
        yield describe(row)
    yield _last_refresh()


def _last_refresh() -> str:
    report = next(each for each in jobs.reports(connection()) if each.name == JOB)
    counts = ", ".join(f"{name} {number}" for name, number in report.counts.items())
    return f"Last refresh: {report.state}" + (f" ({counts})" if counts else "")
